// Asks the kernel for the code and the data of a view, and hides the static report above while the view lives.
export default {
  render({ model, el }) {
    const ask = Math.random().toString(36).slice(2);
    let unmount = () => {};
    let gone = false;

    function twin() {
      let output = el.closest(".jp-OutputArea-child")?.previousElementSibling;
      while (output && (!output.querySelector(".nrn") || output.querySelector(".nx"))) output = output.previousElementSibling;
      return output;
    }

    async function show({ code, mount, meta, replaces }, buffers) {
      const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      try {
        const module = await import(url);
        if (gone) return;
        clear();
        const stop = await module[mount](el, meta, buffers, (act) => model.send({ act }));
        const report = replaces ? twin() : null;
        if (report) report.style.display = "none";
        unmount = () => {
          if (report) report.style.display = "";
          stop();
        };
        if (gone) clear();
      } catch (error) {
        fail(error);
        console.error(error);
      } finally {
        URL.revokeObjectURL(url);
      }
    }

    function fail(error) {
      clear();
      el.textContent = `The live view failed: ${error}. The static report says the same.`;
    }

    function clear() {
      unmount();
      unmount = () => {};
      el.textContent = "";
    }

    function hear(content, buffers) {
      if (content.end) clear(); // the kernel keeps the data of the newest views only
      else if (content.again) model.send({ ask });
      else if (content.news) el.dispatchEvent(new CustomEvent("nx-news", { detail: content.news }));
      else if (content.to !== undefined && content.to !== ask) return;
      else if (content.error) fail(content.error);
      else show(content, buffers);
    }

    el.textContent = "The live view waits for the kernel.";
    model.on("msg:custom", hear);
    model.send({ ask });
    return () => {
      gone = true;
      model.off("msg:custom", hear);
      clear();
    };
  },
};
