// The user's own source with what each line cost; a line is a button that puts it into focus.
function createSource(data, store) {
  const { meta } = data;
  const lines = new Map();
  const blocks = meta.sources.map((source) => make("div", { class: "nx-file", role: "group", "aria-label": source.name },
    make("div", { class: "nx-name" }, source.name), ...rowsOf(source)));
  const element = make("section", { class: "nx-source", "aria-label": "source" }, make("h4", {}, "Source"), make("div", { class: "nx-code", tabindex: -1 }, ...blocks));

  function rowsOf(source) {
    let before = null;
    return source.lines.filter(([, text, line]) => line || text.trim()).map(([number, text, line]) => {
      const skips = before !== null && number > before + 1;
      before = number;
      const bar = make("span", { class: "nx-bar", "aria-hidden": true });
      const spent = make("span", { class: "nx-spent" });
      const attributes = { class: `nx-line${skips ? " nx-skips" : ""}`, "data-line": line || null };
      const indent = text.length - text.trimStart().length + 2; // of what does not fit the line
      const code = make("code", { style: `padding-left:${indent}ch;text-indent:-${indent}ch` }, text || " ");
      const content = [make("span", { class: "nx-number" }, String(number)), code, bar, spent];
      if (!line) return make("div", attributes, ...content);
      const row = make("button", { ...attributes, type: "button", "aria-pressed": "false", onclick: () => toggle(line) }, ...content);
      lines.set(line, { row, bar, spent });
      return row;
    });
  }

  function toggle(line) {
    store.set({ focus: store.state.focus?.line === line && store.state.focus.label === undefined ? null : { line } });
  }

  function show({ range }) {
    const rows = lineRows(data, range);
    const most = Math.max(1, ...[...rows.values()].map((row) => row.total));
    for (const [line, { row, bar, spent }] of lines) {
      const found = rows.get(line);
      bar.replaceChildren();
      row.classList.toggle("nx-most", found?.total === most);
      spent.textContent = found ? duration(found.total) : "";
      if (!found) continue;
      const parts = { compile: found.compile, load: found.load, device: found.device, fallback: found.cpu };
      parts.rest = Math.max(0, found.total - found.compile - found.load - found.device - found.cpu);
      for (const [part, ns] of Object.entries(parts))
        if (ns > 0) bar.append(make("span", { style: `width:${(100 * ns) / most}%;background:${meta.colors[part]}` }));
      row.title = [
        `${plural(found.calls, "call")}, ${duration(found.total)}${found.total === most ? ", the slowest line" : ""}`,
        found.compile ? `compile ${duration(found.compile)}` : "",
        found.load ? `load from disk ${duration(found.load)}` : "",
        found.device ? `device ${duration(found.device)}` : "",
        found.cpu ? `CPU fallback ${duration(found.cpu)}` : "",
        found.copies ? plural(found.copies, "copy").replace("copys", "copies") : "",
        found.bytes ? size(found.bytes) : "",
      ].filter(Boolean).join("\n");
    }
  }

  function point({ focus }) {
    for (const [line, { row }] of lines) {
      const chosen = focus?.line === line;
      row.setAttribute("aria-pressed", chosen);
      if (chosen) reveal(row);
    }
  }

  // Within the list; the page stays where it is.
  function reveal(row) {
    const box = row.closest(".nx-code");
    const top = row.offsetTop - box.offsetTop;
    if (top < box.scrollTop || top + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 3;
  }

  // What one looks for first is in sight, from the first layout on: a view may be made while its notebook is not shown.
  let opened = false;
  function open() {
    if (opened || !element.clientWidth) return;
    opened = true;
    const slowest = element.querySelector(".nx-most");
    if (slowest) reveal(slowest);
  }

  store.on(show, "range");
  store.on(point, "focus");
  return { element, show, open, empty: !meta.sources.length };
}
