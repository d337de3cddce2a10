// The cores: how busy each one is now and was before, and what its HBM holds.
const KEPT = 120; // looks
const ASK_MS = 1000;

async function mountTop(el, given, _, act) {
  const head = make("div");
  const rows = make("div", { class: "nx-loads", role: "list", "aria-label": "cores" });
  const foot = make("div", { class: "nx-soft" });
  const root = make("div", { class: "nx", role: "region", "aria-label": "cores" }, make("style", {}, STYLE), head, rows, foot);
  const history = new Map();
  el.append(root);
  let latest = given;
  let waits = false;

  function draw() {
    const { cores, colors } = latest;
    head.textContent = latest.head;
    foot.textContent = latest.unused;
    rows.replaceChildren(...cores.map((core) => loadRow(core, colors)));
    for (const [i, { core }] of cores.entries()) drawBusy(rows.children[i].querySelector("canvas"), history.get(core) ?? []);
  }

  function hear({ detail }) {
    if (detail.answer) waits = false;
    latest = detail;
    for (const { core, busy } of detail.cores) if (busy !== null) history.set(core, [...(history.get(core) ?? []), busy].slice(-KEPT));
    root.dataset.news = Number(root.dataset.news ?? 0) + 1;
    draw();
  }

  const asking = setInterval(() => {
    if (waits || document.visibilityState !== "visible" || !root.clientWidth) return;
    waits = true; // the kernel answers when no cell runs
    act("look");
  }, ASK_MS);
  draw();
  const endLayout = onLayout(root, draw);
  el.addEventListener("nx-news", hear);
  root.dataset.ready = given.cores.length;
  return () => {
    clearInterval(asking);
    endLayout();
    el.removeEventListener("nx-news", hear);
    root.remove();
  };
}

function loadRow({ core, busy, used, limit, peak, kinds }, colors) {
  const held = kinds.filter(([, bytes]) => bytes > 0);
  return make("div", { class: "nx-load", role: "listitem" },
    make("code", {}, `neuron:${core}`),
    make("span", { class: "nx-spent" }, busy === null ? "–" : `${(100 * busy).toFixed(1)} % busy`),
    make("canvas", { class: "nx-canvas", "aria-hidden": true }),
    make("span", {}, `HBM ${binarySize(used)} of ${binarySize(limit)}, peak ${binarySize(peak)}`),
    make("span", { class: "nx-row" }, make("span", { class: "nx-bar", "aria-hidden": true }, ...held.map(([kind, bytes]) => make("span", { style: `width:${(100 * bytes) / Math.max(1, peak)}%;background:${colors[kind]}` }))),
      ...held.map(([kind, bytes]) => make("span", {}, make("span", { class: "nx-key", style: `background:${colors[kind]}` }), `${kind} ${binarySize(bytes)}`))));
}

// The newest look is at the right edge.
function drawBusy(canvas, looks) {
  const height = 20;
  const { context, width } = fit(canvas, height);
  const step = width / KEPT;
  context.fillStyle = "#8b929b";
  context.fillRect(0, height - 1, width, 1);
  context.fillStyle = "#3d7fd9";
  looks.forEach((busy, i) => context.fillRect(width - (looks.length - i) * step, (height - 1) * (1 - busy), Math.max(1, step - 0.5), (height - 1) * busy));
}
