// Puts the views together. Returns what takes them away again.
async function mount(el, given, [packed]) {
  const begun = performance.now();
  const meta = { ...given, full: given.span ?? given.wall }; // beside another one, as long as the longer one
  const data = await unpack(meta, packed);
  const store = createStore({ view: { begin: 0, end: meta.full }, range: null, focus: null, cursor: null, theme: 0 });
  const status = make("span", { class: "nx-status", role: "status" });
  const spoken = make("span", { class: "nx-spoken", role: "status" });
  const say = (words) => (spoken.textContent = words);
  const timeline = createTimeline(data, store, say);
  const memory = createMemory(data, store);
  const tables = createTables(data, store);
  const source = createSource(data, store);
  const findings = createFindings(data, store);

  const head = make("div");
  const foot = make("div");
  // Made by the report's renderer, which escapes what comes from the program.
  head.innerHTML = meta.head;
  foot.innerHTML = meta.foot;
  const side = [findings, source.empty ? null : source.element].filter(Boolean);
  const root = make("div", { class: "nx", role: "region", "aria-label": `Explorer of ${meta.label}` },
    make("style", {}, STYLE), head, bar(data, store, status), spoken, timeline.element, memory?.element ?? null,
    make("div", { class: side.length ? "nx-columns" : "" }, tables.element, ...(side.length ? [make("div", {}, ...side)] : [])), foot);
  // The notebook has keys of its own for what is typed here.
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.dataset.lmSuppressShortcuts = "true";
  el.append(root);

  const drawAll = () => {
    timeline.draw(store.state);
    memory?.draw(store.state);
    tables.show(store.state);
    source.open();
  };
  source.show(store.state);
  drawAll();
  const endLayout = onLayout(root, drawAll);
  const endTheme = onTheme(() => store.set({ theme: store.state.theme + 1 }));
  root.dataset.drawn = (performance.now() - begun).toFixed(1);
  root.dataset.ready = data.events.count;
  root.explorer = { store, data, timeline }; // for a pair, and for tests: a canvas tells nothing

  return () => {
    endLayout();
    endTheme();
    store.stop();
    root.remove();
  };
}

function bar({ meta, events }, store, status) {
  const button = (text, hint, act) => make("button", { type: "button", title: hint, onclick: act }, text);
  const chip = button("", "show everything again", () => store.set({ focus: null }));
  const zoom = button("zoom to range", "the selected range fills the timeline", () => store.set({ view: { ...store.state.range } }));
  const clear = button("clear range", "all of the span again", () => store.set({ range: null }));
  const missing = [meta.dropped ? `${plural(meta.dropped, "older event")} not kept` : "", meta.droppedChanges ? `${plural(meta.droppedChanges, "older HBM change")} not kept` : ""].filter(Boolean).join(", ");
  const element = make("div", { class: "nx-row nx-tools", role: "toolbar", "aria-label": "timeline" },
    button("show all", "key 0", () => store.set({ view: { begin: 0, end: meta.full } })),
    button("select view", "key S: what is in view becomes the range that all views follow", () => store.set({ range: { ...store.state.view } })),
    zoom, clear, chip, status,
    make("span", { class: "nx-soft" }, missing || (events.count ? "drag moves · click, then wheel zooms · drag on the ruler selects" : "no op ran on the device")));

  function show({ range, focus }) {
    zoom.hidden = clear.hidden = !range;
    chip.hidden = !focus;
    if (focus) chip.textContent = `${focusName(focus, meta)} ×`;
    status.textContent = range ? `range ${duration(range.begin)} – ${duration(range.end)}, ${duration(range.end - range.begin)}` : "";
  }

  store.on(show, "range", "focus");
  show(store.state);
  return element;
}
