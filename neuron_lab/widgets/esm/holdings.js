// Who holds HBM, the largest first, and a button that lets go of what only the notebook keeps.

async function mountHoldings(el, { summary, holdings, more, colors }, _, act) {
  const most = Math.max(1, ...holdings.map((item) => item.bytes));
  const status = make("span", { role: "status" });
  const free = make("button", { type: "button", title: "Out, _, _5 and the last traceback; never your variables", onclick: () => {
    status.textContent = "waits for the kernel";
    act("free");
  } }, "free what only the notebook keeps");
  const legend = Object.entries(colors).map(([kind, color]) => make("span", {}, make("span", { class: "nx-key", style: `background:${color}` }), kind));
  const rows = holdings.map((item) => make("div", { class: "nx-holding", role: "listitem", title: item.names.join("\n") },
    make("code", {}, (item.history ? "notebook: " : "") + item.name),
    make("span", { class: "nx-bar", "aria-hidden": true }, make("span", { style: `width:${(100 * item.bytes) / most}%;background:${colors[item.kind]}` })),
    make("span", { class: "nx-spent" }, binarySize(item.bytes)),
    make("span", { class: "nx-soft" }, item.tensor)));
  const root = make("div", { class: "nx", role: "region", "aria-label": "HBM by name" }, make("style", {}, STYLE),
    ...summary.map((line) => make("div", {}, line)), make("div", { class: "nx-row nx-tools" }, free, status, ...legend),
    make("div", { class: "nx-holdings", role: "list", tabindex: 0, "aria-label": "tensors" }, ...rows),
    more[0] ? make("div", { class: "nx-soft" }, `… ${count(more[0])} more, ${binarySize(more[1])}`) : null);
  root.dataset.ready = holdings.length;
  el.append(root);
  return () => root.remove();
}
