// Asks the kernel for the explorer and its data, and hides the static report above while the explorer lives.
export default {
  render({ model, el }) {
    const ask = Math.random().toString(36).slice(2);
    let unmount = () => {};
    let gone = false;

    function twin() {
      let output = el.closest(".jp-OutputArea-child")?.previousElementSibling;
      while (output && !output.querySelector("[data-nrn-report]")) output = output.previousElementSibling;
      return output;
    }

    async function answer(content, buffers) {
      if (content.end) end();
      if (content.to !== ask) return;
      const url = URL.createObjectURL(new Blob([content.code], { type: "text/javascript" }));
      try {
        const { mount } = await import(url);
        if (gone) return;
        el.textContent = "";
        const stop = await mount(el, content.meta, buffers[0]);
        const report = twin();
        if (report) report.style.display = "none";
        unmount = () => {
          if (report) report.style.display = "";
          stop();
        };
        if (gone) unmount();
      } catch (error) {
        el.textContent = `The explorer could not start: ${error}. The report above says the same.`;
        console.error(error);
      } finally {
        URL.revokeObjectURL(url);
      }
    }

    // The kernel keeps the data of the newest explorers only.
    function end() {
      unmount();
      unmount = () => {};
      el.textContent = "";
    }

    el.textContent = "The explorer waits for the kernel.";
    model.on("msg:custom", answer);
    model.send({ ask });
    return () => {
      gone = true;
      model.off("msg:custom", answer);
      unmount();
    };
  },
};
