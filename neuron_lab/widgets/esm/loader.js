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
  async render({ model, el }) {
    const ask = Math.random().toString(36).slice(2);
    let unmount = () => {};
    let newest = 0; // what was shown or cleared meanwhile ends what is still being made

    function twin() {
      let output = el.closest(".jp-OutputArea-child")?.previousElementSibling;
      while (output && (!output.querySelector(".nrn") || output.querySelector(".nx"))) output = output.previousElementSibling;
      return output;
    }

    async function show({ code, mount, meta, replaces }, buffers) {
      clear();
      const own = newest;
      try {
        const module = await moduleOf(code);
        if (own !== newest) return;
        const stop = await module[mount](el, meta, buffers, (act) => model.send({ act }));
        if (own !== newest) return stop();
        const report = replaces ? twin() : null;
        if (report) report.style.display = "none";
        unmount = () => {
          if (report) report.style.display = "";
          stop();
        };
      } catch (error) {
        if (own === newest) fail(error);
        console.error(error);
      }
    }

    function fail(error) {
      clear();
      el.textContent = `The live view failed: ${error}. The static report says the same.`;
    }

    function clear() {
      newest += 1;
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
    const channel = await model.widget_manager.get_model(model.get("_channel").replace("IPY_MODEL_", ""));
    channel.on("msg:custom", hear);
    model.send({ ask });
    return () => {
      channel.off("msg:custom", hear);
      clear();
    };
  },
};
