// Every profile of the session: sorted by any column, and the parts of the one that was clicked.
async function mountSession(el, { rows, forgotten, colors, labels }) {
  const most = Math.max(1, ...rows.map((row) => row.wall));
  const details = make("div", { class: "nx-row", role: "status" });
  let chosen = null;

  const split = (row) => make("span", { class: "nx-bar", role: "img", "aria-label": words(row).join(", ") },
    ...Object.entries(row.parts).filter(([, ns]) => ns > 0).map(([part, ns]) => make("span", { style: `width:${(100 * ns) / most}%;background:${colors[part]}` })));
  const words = (row) => Object.entries(row.parts).filter(([, ns]) => ns > 0).map(([part, ns]) => `${labels[part]} ${duration(ns)}`);
  const table = createTable({
    label: "profiles",
    columns: [
      { title: "profile", width: "minmax(50px,.6fr)", left: true, value: (row) => row.label, text: (row) => row.label },
      { title: "where the time went", width: "minmax(138px,1.2fr)", left: true, value: (row) => row.label, text: (row) => words(row).join(", "), draw: split },
      number("compiled", (row) => row.compiled, count, 66, "NEFFs that were made"),
      number("loaded", (row) => row.loaded, count, 56, "NEFFs read from disk"),
      number("fallbacks", (row) => row.fallbacks, count, 68),
      { title: "findings", width: "minmax(158px,.5fr)", left: true, value: (row) => row.findings.join(" "), text: (row) => [...new Set(row.findings)].join(" ") || "–" },
      number("order", (row) => row.order, count, 48, "as they ran"),
      number("wall", (row) => row.wall, duration, 72),
    ],
    pick(row) {
      chosen = row;
      details.replaceChildren(make("b", {}, row.label), ...Object.entries(row.parts).filter(([, ns]) => ns > 0).map(([part, ns]) =>
        make("span", {}, make("span", { class: "nx-key", style: `background:${colors[part]}` }), `${labels[part]} ${duration(ns)}`)));
      table.draw();
    },
    chosen: (row) => row === chosen,
  });
  const head = `${plural(rows.length, "profile")}, ${duration(rows.reduce((sum, row) => sum + row.wall, 0))} in all` + (forgotten ? `; ${count(forgotten)} before these are not kept` : "");
  const root = make("div", { class: "nx", role: "region", "aria-label": "session" }, make("style", {}, STYLE), make("div", {}, head), table.element, details);
  el.append(root);
  table.show(rows);
  const endLayout = onLayout(root, table.draw);
  root.dataset.ready = rows.length;
  return () => {
    endLayout();
    root.remove();
  };
}
