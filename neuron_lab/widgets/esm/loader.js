// Asks the kernel for the code and the data of a view, and hides the static report above while the view lives.

// A page never lets go of a module: every view of the page shares the one of its code.
const modules = (globalThis[Symbol.for("neuron_lab.modules")] ??= new Map());

function moduleOf(code) {
  if (!modules.has(code)) {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    modules.set(code, import(url).finally(() => URL.revokeObjectURL(url)));
  }
  return modules.get(code);
}

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
      try {
        const module = await moduleOf(code);
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
