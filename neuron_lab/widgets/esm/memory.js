// HBM over the same time, and what it was made of under the pointer.
const MEMORY = 64;

function createMemory(data, store) {
  const { memory, meta } = data;
  if (!meta.memory.length) return null;
  const curves = meta.memory.map((info) => curveOf(data, info));
  const canvas = make("canvas", { class: "nx-canvas", role: "img", "aria-label": curves.map(memoryWords).join("; ") });
  const made = make("div", { class: "nx-made" });
  const chooser = curves.length > 1 ? make("select", { "aria-label": "core", onchange: () => draw(store.state) }, ...curves.map((curve, i) => make("option", { value: i }, `neuron:${curve.core}`))) : null;
  const element = make("section", { class: "nx-memory", "aria-label": "HBM" }, canvas, make("div", { class: "nx-row" }, chooser, made));
  const current = () => curves[chooser ? chooser.selectedIndex : 0];

  function draw(state) {
    const { context, width: full, ink } = fit(canvas, MEMORY);
    const width = Math.max(1, full - GUTTER);
    const curve = current();
    const top = Math.max(1, curve.peak);
    const x = (time) => GUTTER + ((time - state.view.begin) / (state.view.end - state.view.begin)) * width;
    const y = (bytes) => MEMORY - 2 - (bytes / top) * (MEMORY - 10);
    context.globalAlpha = 0.8;
    context.fillText("HBM", 2, 10);
    context.fillText(binarySize(curve.peak), 2, 24, GUTTER - 8);
    drawSteps(context, curve, state.view, width, y, meta.colors.device);
    context.globalAlpha = 1;
    mark(context, x(curve.peakAt), full, meta.colors.compile);
    if (state.cursor !== null) mark(context, x(state.cursor), full, ink);
    explain(state.cursor);
  }

  function explain(cursor) {
    const curve = current();
    const at = cursor ?? curve.peakAt;
    const { used, lines, guessed } = cursor === null ? { used: curve.peak, lines: curve.portions } : madeOf(curve, at, meta.places);
    const shown = lines.slice(0, 4).map(([line, bytes]) => `${binarySize(bytes)} ${line}`);
    const rest = used - lines.slice(0, 4).reduce((sum, [, bytes]) => sum + bytes, 0);
    if (rest > 0.005 * used) shown.push(`${binarySize(rest)} ${lines.length > 4 ? "others and from before" : "from before"}`);
    const when = cursor === null ? `peak, at ${duration(at)}` : `at ${duration(at)}`;
    made.textContent = `neuron:${curve.core} ${when}: ${binarySize(used)}${shown.length ? `, made of ${shown.join(" · ")}` : ""}${guessed ? " (which line a freed block came from is told by its size)" : ""}`;
    element.dataset.used = used;
  }

  store.on(draw, "view", "cursor", "theme");
  canvas.addEventListener("pointermove", (event) => {
    const width = Math.max(1, canvas.clientWidth - GUTTER);
    const at = timeAt(store.state.view, event.offsetX, width);
    store.set({ cursor: at >= 0 && at <= meta.wall && event.offsetX >= GUTTER ? at : null });
  });
  canvas.addEventListener("pointerleave", () => store.set({ cursor: null }));
  return { element, draw };
}

const memoryWords = (curve) => `HBM of neuron:${curve.core}: peak ${binarySize(curve.peak)} at ${duration(curve.peakAt)}, ${binarySize(curve.end)} at the end`;

// One core's changes, with the line that each one's memory belongs to. A block that is freed names no line: it is the oldest one of
// its size, and `guessed` where several lines held that size.
function curveOf({ memory, meta }, info) {
  const core = meta.cores.indexOf(info.core);
  const own = [];
  for (let i = 0; i < memory.count; i++) if (memory.core[i] === core) own.push(i);
  const line = new Uint32Array(own.length);
  const guessed = new Uint8Array(own.length);
  const held = new Map();
  own.forEach((i, k) => {
    const bytes = memory.change[i];
    if (bytes >= 0) {
      line[k] = memory.line[i];
      if (!held.has(bytes)) held.set(bytes, { queue: [], next: 0, counts: new Map() });
      const block = held.get(bytes);
      block.queue.push(line[k]);
      block.counts.set(line[k], (block.counts.get(line[k]) ?? 0) + 1);
      return;
    }
    const block = held.get(-bytes);
    if (!block || block.next === block.queue.length) {
      line[k] = BEFORE;
      return;
    }
    line[k] = block.queue[block.next++];
    guessed[k] = block.counts.size > 1 ? 1 : 0;
    const left = block.counts.get(line[k]) - 1;
    if (left) block.counts.set(line[k], left);
    else block.counts.delete(line[k]);
  });
  return { ...info, at: Float64Array.from(own, (i) => memory.at[i]), used: Float64Array.from(own, (i) => memory.used[i]), change: Float64Array.from(own, (i) => memory.change[i]), line, guessed };
}

const BEFORE = 0xffffffff;

function madeOf(curve, at, places) {
  const until = firstAbove(curve.at, at);
  const lines = new Map();
  let guessed = false;
  for (let k = 0; k < until; k++) {
    if (curve.line[k] === BEFORE) continue;
    lines.set(curve.line[k], (lines.get(curve.line[k]) ?? 0) + curve.change[k]);
    guessed ||= curve.guessed[k] === 1;
  }
  const used = until ? curve.used[until - 1] : curve.start;
  return { used, guessed, lines: [...lines].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).map(([line, bytes]) => [places[line] || "by no line of yours", bytes]) };
}

// Light up to the highest use in each pixel, full up to the lowest.
function drawSteps(context, curve, view, width, y, color) {
  const perPixel = (view.end - view.begin) / width;
  const base = MEMORY - 2;
  context.fillStyle = color;
  let k = firstAbove(curve.at, view.begin);
  let level = k ? curve.used[k - 1] : curve.start;
  for (let pixel = 0; pixel < width; pixel++) {
    const until = view.begin + (pixel + 1) * perPixel;
    const after = firstAbove(curve.at, until, k);
    let low = level;
    let high = level;
    for (; k < after; k++) {
      low = Math.min(low, curve.used[k]);
      high = Math.max(high, curve.used[k]);
    }
    if (k) level = curve.used[k - 1];
    context.globalAlpha = 0.35;
    context.fillRect(GUTTER + pixel, y(high), 1, base - y(high));
    context.globalAlpha = 0.55;
    context.fillRect(GUTTER + pixel, y(low), 1, base - y(low));
  }
}

function mark(context, x, full, color) {
  if (x < GUTTER || x > full) return;
  context.fillStyle = color;
  context.fillRect(x - 0.5, 0, 1.5, MEMORY);
}
