// The timeline: wheel zooms at the pointer, drag pans, drag with Shift or on the ruler selects a range.
const GUTTER = 92;
const RULER = 20;
const TALLEST = 340;

function createTimeline(data, store, say) {
  const { events, meta } = data;
  let [lanes, focused, rowHeight, height] = [[], [], 0, 0];
  let width = 1;
  arrange(layLanes(data));
  const parts = partOf(meta.kinds);
  const colors = parts.map((part) => meta.colors[part]);
  const canvas = make("canvas", { class: "nx-canvas", tabindex: 0, role: "application", "aria-label": label() });
  const tip = make("div", { class: "nx-tip", role: "status", hidden: true });
  const element = make("div", { class: "nx-timeline" }, canvas, tip);

  function arrange(found) {
    lanes = focused = found;
    const rowCount = lanes.reduce((sum, lane) => sum + lane.rows.length, 0);
    rowHeight = Math.max(7, Math.min(15, Math.floor((TALLEST - RULER - 6 * lanes.length) / Math.max(1, rowCount))));
    height = RULER + lanes.reduce((sum, lane) => sum + laneHeight(lane), 0) + 4;
  }

  function laneHeight(lane) {
    return Math.max(13, lane.rows.length * (rowHeight + 1)) + 5;
  }

  function label() {
    return `Timeline of ${plural(events.count, "event")} over ${duration(meta.wall)}. Lanes: ${lanes.map((lane) => lane.name).join(", ") || "none"}. ` +
      "Arrow keys move, plus and minus zoom, 0 shows all, S selects what is in view, Escape clears.";
  }

  function draw(state) {
    const { context, width: full, ink } = fit(canvas, height);
    width = Math.max(1, full - GUTTER);
    const { view, range, focus } = state;
    drawRuler(context, view, ink, full);
    let y = RULER;
    for (const [at, lane] of lanes.entries()) {
      context.globalAlpha = 0.8;
      context.fillStyle = ink;
      context.fillText(lane.name, 2, y + rowHeight / 2 + 2, GUTTER - 8);
      context.globalAlpha = 0.14;
      context.fillRect(0, y + laneHeight(lane) - 3, full, 1);
      lane.rows.forEach((row, r) => {
        const top = y + 1 + r * (rowHeight + 1);
        let named = drawRow(context, row, view, top, focus ? 0.2 : 1);
        if (focus) named = drawRow(context, focused[at].rows[r], view, top, 1);
        drawNames(context, named, top);
      });
      y += laneHeight(lane);
    }
    drawEnd(context, view, ink);
    drawRange(context, view, range, ink);
    element.dataset.frames = Number(element.dataset.frames ?? 0) + 1;
  }

  function drawRuler(context, view, ink, full) {
    const unit = step(view.end - view.begin, width / 90);
    context.textAlign = "left";
    for (let at = Math.ceil(view.begin / unit) * unit; at <= view.end; at += unit) {
      const x = GUTTER + ((at - view.begin) / (view.end - view.begin)) * width;
      context.fillStyle = ink;
      context.globalAlpha = 0.16;
      context.fillRect(x, 0, 1, height);
      context.globalAlpha = 0.75;
      const words = tickWords(at, unit);
      if (x + context.measureText(words).width + 4 < full) context.fillText(words, x + 3, RULER / 2);
    }
    context.globalAlpha = 1;
  }

  function drawRow(context, row, view, top, alpha) {
    const named = [];
    let color = "";
    let [from, to, high] = [0, 0, 0]; // pixels alike that follow each other are one rectangle
    const paint = () => to > from && context.fillRect(GUTTER + from, top + rowHeight - high, to - from, high);
    context.globalAlpha = alpha;
    eachBar(row, view, width, (i, left, wide, share) => {
      const own = colors[events.kind[i]];
      const height = rowHeight * (0.15 + 0.85 * Math.min(1, Math.ceil(8 * share) / 8));
      if (wide > 1 || own !== color || height !== high || left > to) {
        paint();
        from = left;
        high = height;
        if (own !== color) context.fillStyle = color = own;
      }
      to = left + (wide > 3 ? wide - 0.5 : wide);
      if (wide > 24) named.push([i, left, wide]);
    });
    paint();
    return named;
  }

  function drawNames(context, named, top) {
    if (rowHeight < 11) return;
    context.fillStyle = "#000"; // on every colour of a part it has more contrast than white
    context.globalAlpha = 1;
    for (const [i, left, wide] of named) {
      const room = Math.floor((wide - 6) / 6.3);
      const name = withoutAten(meta.labels[events.label[i]]);
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, GUTTER + left + 3, top + rowHeight / 2 + 0.5);
    }
  }

  // Beside a longer recording: where this one ended.
  function drawEnd(context, view, ink) {
    if (meta.full > meta.wall && view.end > meta.wall) {
      const x = GUTTER + Math.max(0, ((meta.wall - view.begin) / (view.end - view.begin)) * width);
      context.fillStyle = ink;
      context.globalAlpha = 0.7;
      if (view.begin <= meta.wall) context.fillRect(x, RULER, 1, height - RULER);
      const words = `ended at ${duration(meta.wall)}`;
      if (x + context.measureText(words).width + 6 < GUTTER + width) context.fillText(words, x + 6, height - 12);
    }
    context.globalAlpha = 1;
  }

  function drawRange(context, view, range, ink) {
    if (!range) return;
    const x = (time) => GUTTER + Math.min(width, Math.max(0, ((time - view.begin) / (view.end - view.begin)) * width));
    context.fillStyle = ink;
    context.globalAlpha = 0.1;
    context.fillRect(x(range.begin), 0, x(range.end) - x(range.begin), height);
    context.globalAlpha = 0.7;
    for (const edge of [range.begin, range.end]) if (edge >= view.begin && edge <= view.end) context.fillRect(x(edge) - 0.5, 0, 1, height);
    context.globalAlpha = 1;
  }

  function eventAt(x, y) {
    const time = timeAt(store.state.view, x, width);
    const slack = 2 / (width / (store.state.view.end - store.state.view.begin));
    let top = RULER;
    for (const lane of lanes) {
      if (y >= top && y < top + laneHeight(lane)) {
        const row = lane.rows[Math.floor((y - top - 1) / (rowHeight + 1))];
        if (!row) return -1;
        const k = firstAbove(row.end, time - slack);
        return k < row.index.length && row.begin[k] <= time + slack ? row.index[k] : -1;
      }
      top += laneHeight(lane);
    }
    return -1;
  }

  function hover(x, y) {
    const i = x < GUTTER ? -1 : eventAt(x, y);
    tip.hidden = i < 0;
    if (i < 0) return;
    tip.replaceChildren(...describe(data, i).map((line, at) => make(at ? "div" : "b", {}, line)));
    tip.style.left = `${Math.max(0, Math.min(x + 12, canvas.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.min(y + 16, height + 8)}px`;
  }

  handlePointer(canvas, store, { width: () => width, full: meta.full, ruler: RULER, hover, pick, leave: () => (tip.hidden = true) });
  handleKeys(canvas, store, meta.full, say);

  function pick(x, y) {
    const i = eventAt(x, y);
    store.set({ focus: i < 0 ? null : { label: events.label[i] } });
  }

  store.on(draw, "view", "range", "focus", "theme");
  store.on(({ focus }) => {
    focused = focus ? lanes.map((lane) => ({ rows: lane.rows.map((row) => filterRow(row, (i) => matches(focus, events, i))) })) : lanes;
    draw(store.state);
  }, "focus");
  return {
    element,
    draw,
    get lanes() {
      return lanes;
    },
    // Before anything is in focus.
    align(others) {
      arrange(joinLanes(lanes, others));
      draw(store.state);
    },
  };
}

const timeAt = (view, x, width) => view.begin + ((x - GUTTER) / width) * (view.end - view.begin);

// Enough digits that neighbouring ticks differ.
function tickWords(at, unit) {
  if (at < unit / 2) return "0";
  const [factor, name] = at >= 1e9 ? [1e9, "s"] : at >= 1e6 ? [1e6, "ms"] : at >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${(at / factor).toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(unit / factor)))))} ${name}`;
}

function describe({ events, meta, kind }, i) {
  const what = meta.kinds[events.kind[i]];
  const lines = [meta.labels[events.label[i]], `${duration(events.took[i])} at ${duration(events.begin[i])}`];
  if (what === "compiled") lines.push(`device ${duration(events.device[i])}${events.cold[i] ? ", cold" : ""}`);
  else if (what === "fallback") lines.push("ran on the CPU");
  else if (what === "compile" || what === "load") lines.push(what === "load" ? "NEFF loaded from disk" : "NEFF compiled");
  if (events.bytes[i]) lines.push(size(events.bytes[i]));
  if (events.detail[i]) lines.push(meta.details[events.detail[i] - 1]);
  if (events.line[i]) lines.push(meta.places[events.line[i]]);
  return lines;
}
