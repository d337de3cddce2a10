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
    drawSteps(context, curve, state.view, width, y, meta);
    context.globalAlpha = 1;
    mark(context, x(curve.peakAt), full, meta.colors.compile);
    if (state.cursor !== null) mark(context, x(state.cursor), full, ink);
    explain(state.cursor);
  }

  function explain(cursor) {
    const curve = current();
    const at = cursor ?? curve.peakAt;
    const { used, lines } = cursor === null ? { used: curve.peak, lines: curve.portions } : madeOf(curve, at, meta.places);
    const shown = (lines ?? []).slice(0, 4).map(([line, bytes]) => `${binarySize(bytes)} ${line}`);
    const rest = used - (lines ?? []).slice(0, 4).reduce((sum, [, bytes]) => sum + bytes, 0);
    const kinds = [lines?.length > 4 ? "by other lines" : "", "from before", cursor === null ? "" : "by no line of yours"].filter(Boolean);
    if (lines && rest > 0.005 * used) shown.push(`${binarySize(rest)} ${kinds.join(" or ")}`);
    const when = cursor === null ? `peak, at ${duration(at)}` : `at ${duration(at)}`;
    made.textContent = `neuron:${curve.core} ${when}: ${binarySize(used)}${shown.length ? `, made of ${shown.join(" · ")}` : ""}`;
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

const BLOCK = 64;

// One core's changes, and the highest and lowest use in each block of them, so that a drawing looks at few of them.
function curveOf({ memory, meta }, info) {
  const core = meta.cores.indexOf(info.core);
  const own = new Uint32Array(memory.count);
  let n = 0;
  for (let i = 0; i < memory.count; i++) if (memory.core[i] === core) own[n++] = i;
  const pick = (from) => {
    const picked = new Float64Array(n);
    for (let k = 0; k < n; k++) picked[k] = from[own[k]];
    return picked;
  };
  const curve = { ...info, at: pick(memory.at), used: pick(memory.used), change: pick(memory.change), line: pick(memory.line) };
  curve.told = !curve.change.some((bytes) => bytes < 0) || curve.change.some((bytes, k) => bytes < 0 && curve.line[k]);
  curve.low = new Float64Array(Math.ceil(n / BLOCK)).fill(Infinity);
  curve.high = new Float64Array(Math.ceil(n / BLOCK)).fill(-Infinity);
  for (let k = 0; k < n; k++) {
    const block = Math.floor(k / BLOCK);
    curve.low[block] = Math.min(curve.low[block], curve.used[k]);
    curve.high[block] = Math.max(curve.high[block], curve.used[k]);
  }
  return curve;
}

// What lines held at a time, the largest first. Null for a recording of a version that did not tell whose memory was given back.
function madeOf(curve, at, places) {
  curve.before ??= heldBefore(curve); // when first asked for
  const until = firstAbove(curve.at, at);
  const used = until ? curve.used[until - 1] : curve.start;
  if (!curve.told) return { used, lines: null };
  const lines = new Map(curve.before);
  for (let k = 0; k < until; k++) if (curve.line[k]) lines.set(curve.line[k], (lines.get(curve.line[k]) ?? 0) + curve.change[k]);
  return { used, lines: [...lines].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).map(([number, bytes]) => [places[number], bytes]) };
}

// Where the oldest changes were not kept, a line gives back what it was not seen to take: it held that at least.
function heldBefore(curve) {
  const sums = new Map();
  const lowest = new Map();
  for (let k = 0; k < curve.line.length; k++) {
    if (!curve.line[k]) continue;
    const sum = (sums.get(curve.line[k]) ?? 0) + curve.change[k];
    sums.set(curve.line[k], sum);
    lowest.set(curve.line[k], Math.min(lowest.get(curve.line[k]) ?? 0, sum));
  }
  return new Map([...lowest].map(([line, bytes]) => [line, -bytes]));
}

// Light up to the highest use in each pixel, full up to the lowest.
function drawSteps(context, curve, view, width, y, { wall, colors }) {
  const perPixel = (view.end - view.begin) / width;
  const base = MEMORY - 2;
  const pixels = Math.max(0, Math.min(Math.ceil(width), Math.ceil((wall - view.begin) / perPixel)));
  const [highs, lows] = [new Float64Array(pixels), new Float64Array(pixels)];
  let k = firstAbove(curve.at, view.begin);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const after = firstAbove(curve.at, view.begin + (pixel + 1) * perPixel, k);
    let low = k ? curve.used[k - 1] : curve.start;
    let high = low;
    while (k < after) {
      const whole = k % BLOCK === 0 && k + BLOCK <= after;
      low = Math.min(low, whole ? curve.low[k / BLOCK] : curve.used[k]);
      high = Math.max(high, whole ? curve.high[k / BLOCK] : curve.used[k]);
      k += whole ? BLOCK : 1;
    }
    highs[pixel] = y(high);
    lows[pixel] = y(low);
  }
  context.fillStyle = colors.device;
  for (const [levels, alpha] of [[highs, 0.35], [lows, 0.55]]) {
    context.globalAlpha = alpha;
    for (let from = 0, pixel = 1; pixel <= levels.length; pixel++) {
      if (pixel < levels.length && levels[pixel] === levels[from]) continue; // equal neighbours are one rectangle
      context.fillRect(GUTTER + from, levels[from], pixel - from, base - levels[from]);
      from = pixel;
    }
  }
}

function mark(context, x, full, color) {
  if (x < GUTTER || x > full) return;
  context.fillStyle = color;
  context.fillRect(x - 0.5, 0, 1.5, MEMORY);
}
