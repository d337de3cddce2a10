// By op, by line of source, and single events: all follow the range and the search, the events also the focus.
function createTables(data, store) {
  const { events, meta, kind } = data;
  const ops = createTable({
    label: "ops",
    columns: [
      { title: "op", width: "minmax(110px,1fr)", left: true, value: (row) => row.name, text: (row) => row.name },
      number("calls", (row) => row.calls, count, 56),
      number("cold", (row) => row.cold, count, 48, "calls that compiled or loaded a NEFF"),
      number("compile", (row) => row.compile + row.load, duration, 68, "making NEFFs, and loading them from disk"),
      number("device", (row) => row.device, duration, 68),
      number("CPU", (row) => row.cpu, duration, 68, "time of calls that fell back to the CPU"),
      number("bytes", (row) => row.bytes, size, 68),
      number("total", (row) => row.total, duration, 68),
    ],
    pick: (row) => store.set({ focus: chosenOp(row) ? null : { label: row.label } }),
    chosen: chosenOp,
  });
  const texts = new Map(meta.sources.flatMap((source) => source.lines.filter(([, , line]) => line).map(([, text, line]) => [line, text.trim()])));
  const lines = createTable({
    label: "lines",
    columns: [
      { title: "line", width: "minmax(92px,.5fr)", left: true, value: (row) => row.name, text: (row) => row.name },
      { title: "source", width: "minmax(110px,1fr)", left: true, value: (row) => row.source, text: (row) => row.source },
      number("calls", (row) => row.calls, count, 48),
      number("compile", (row) => row.compile + row.load, duration, 68, "making NEFFs, and loading them from disk"),
      number("device", (row) => row.device, duration, 68),
      number("CPU", (row) => row.cpu, duration, 68, "time of calls that fell back to the CPU"),
      number("total", (row) => row.total, duration, 68),
    ],
    pick: (row) => store.set({ focus: chosenLine(row) ? null : { line: row.line } }),
    chosen: chosenLine,
  });
  const byName = { labels: ranks(meta.labels), kinds: ranks(meta.kinds), places: ranks(meta.places) };
  const calls = createTable({
    label: "events",
    columns: [
      { title: "event", width: "minmax(110px,1fr)", left: true, value: (i) => byName.labels[events.label[i]], text: (i) => meta.labels[events.label[i]] },
      { title: "kind", width: "66px", left: true, value: (i) => byName.kinds[events.kind[i]], text: (i) => meta.kinds[events.kind[i]] },
      { title: "line", width: "92px", left: true, value: (i) => byName.places[events.line[i]], text: (i) => meta.places[events.line[i]] },
      number("at", (i) => events.begin[i], duration, 68),
      number("bytes", (i) => events.bytes[i], size, 68),
      number("device", (i) => events.device[i], duration, 68),
      number("took", (i) => events.took[i], duration, 68),
    ],
    pick: (i) => {
      const room = Math.max(events.took[i], 1000);
      store.set({ view: clampView(events.begin[i] - room, events.end[i] + room, meta.full), focus: { label: events.label[i] } });
    },
    chosen: () => false,
  });
  const search = make("input", { type: "search", placeholder: "search", "aria-label": "search the table", oninput: () => show(store.state) });
  const own = Math.random().toString(36).slice(2); // a page may hold several explorers
  const tabs = ["ops", "lines", "events"].map((name, at) => make("button", { type: "button", role: "tab", id: `${own}-${name}`, "aria-controls": `${own}-${name}-panel`, onclick: () => turn(at), onkeydown: (event) => move(event, at) }, name));
  const panels = [ops, lines, calls].map((table, at) => make("div", { class: "nx-panel", role: "tabpanel", id: `${tabs[at].id}-panel`, "aria-labelledby": tabs[at].id }, table.element));
  const element = make("section", { class: "nx-tables", "aria-label": "tables" },
    make("div", { class: "nx-row" }, make("div", { role: "tablist", class: "nx-tabs" }, ...tabs), search), ...panels);
  let turned = 0;

  function chosenOp(row) {
    return store.state.focus?.label === row.label;
  }

  function chosenLine(row) {
    return store.state.focus?.line === row.line;
  }

  function select(at) {
    turned = at;
    tabs.forEach((tab, i) => tab.setAttribute("aria-selected", i === at));
    tabs.forEach((tab, i) => (tab.tabIndex = i === at ? 0 : -1));
    panels.forEach((panel, i) => (panel.hidden = i !== at));
  }

  function turn(at) {
    select(at);
    show(store.state);
  }

  function move(event, at) {
    const to = { ArrowRight: (at + 1) % tabs.length, ArrowLeft: (at + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    turn(to);
    tabs[to].focus();
  }

  function show({ range, focus }) {
    const wanted = search.value.trim().toLowerCase();
    const fits = meta.labels.map((name) => name.toLowerCase().includes(wanted));
    if (turned === 0) {
      ops.show(opRows(data, range).filter((row) => row.name.toLowerCase().includes(wanted)));
      return;
    }
    if (turned === 1) {
      const rows = [...lineRows(data, range)].map(([line, sums]) => ({ ...sums, line, name: meta.places[line], source: texts.get(line) ?? "" }));
      lines.show(rows.filter((row) => `${row.name} ${row.source}`.toLowerCase().includes(wanted)));
      return;
    }
    const found = new Uint32Array(events.count);
    let n = 0;
    for (let i = 0; i < events.count; i++) {
      if (range && events.begin[i] > range.end) break;
      if (range && events.end[i] < range.begin) continue;
      if (fits[events.label[i]] && matches(focus, events, i)) found[n++] = i;
    }
    calls.show(found.subarray(0, n));
  }

  store.on(show, "range");
  store.on((state) => (turned === 2 ? show(state) : [ops, lines][turned].draw()), "focus");
  select(0);
  return { element, show };
}

const number = (title, value, write, width, hint) => ({ title, hint, value, width: `${width}px`, text: (row) => orDash(value(row), write) });
