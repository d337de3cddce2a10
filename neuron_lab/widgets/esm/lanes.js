// Lanes of the timeline. A lane has rows; in a row nothing overlaps, so that begins and ends both ascend and a search is binary.
function layLanes(data) {
  const { events, kind, meta } = data;
  const group = (name, order, device = false) => ({ name, order, device, indices: new Uint32Array(1024), n: 0 });
  const threads = Array.from({ length: meta.threads }, (_, t) => group(meta.threads > 1 ? `Python ${t + 1}` : "Python", 0));
  const cores = meta.cores.map((core) => group(`neuron:${core}`, 2, true));
  const [compile, fallback, copies] = [group("compile", 1), group("CPU fallback", 3), group("copies", 4)];
  for (let i = 0; i < events.count; i++) {
    const what = events.kind[i];
    if (what <= kind.empty) put(threads[events.thread[i]], i);
    if (what > kind.copy) put(compile, i);
    else if (what === kind.copy) put(copies, i);
    else if (what === kind.fallback) put(fallback, i);
    else if (events.device[i] > 0 && what === kind.compiled) put(cores[events.core[i]], i);
  }
  return [...threads, compile, ...cores, fallback, copies]
    .filter((lane) => lane.n)
    .map((lane) => ({ name: lane.name, order: lane.order, rows: layRows(data, lane) }))
    .sort(byPlace);
}

const byPlace = (a, b) => a.order - b.order || a.name.localeCompare(b.name, "en", { numeric: true });
const EMPTY_ROW = { index: new Uint32Array(0), begin: new Float64Array(0), end: new Float64Array(0) };

// These lanes with room for those of another recording, so that the same ones stand at the same height.
function joinLanes(own, others) {
  const lanes = new Map(own.map((lane) => [lane.name, lane]));
  for (const { name, order, rows } of others) {
    const mine = lanes.get(name) ?? { name, order, rows: [] };
    lanes.set(name, { ...mine, rows: mine.rows.concat(Array(Math.max(0, rows.length - mine.rows.length)).fill(EMPTY_ROW)) });
  }
  return [...lanes.values()].sort(byPlace);
}

function put(lane, i) {
  if (lane.n === lane.indices.length) {
    const grown = new Uint32Array(2 * lane.n);
    grown.set(lane.indices);
    lane.indices = grown;
  }
  lane.indices[lane.n++] = i;
}

// Nested and overlapping events stand below each other: each goes to the first row that is free by then.
function layRows({ events }, { indices, n, device }) {
  const begin = new Float64Array(n);
  const end = new Float64Array(n);
  let ascends = true;
  let apart = true;
  for (let k = 0; k < n; k++) {
    const i = indices[k];
    end[k] = events.end[i];
    begin[k] = device ? Math.max(events.begin[i], end[k] - events.device[i]) : events.begin[i];
    ascends &&= k === 0 || begin[k - 1] <= begin[k];
    apart &&= k === 0 || end[k - 1] <= begin[k];
  }
  if (apart) return [{ index: indices.subarray(0, n), begin, end }];
  const order = ascends ? null : sortedBy(begin);
  const free = [];
  const row = new Uint16Array(n);
  const sizes = [];
  for (let at = 0; at < n; at++) {
    const k = order ? order[at] : at;
    let r = 0;
    while (r < free.length && free[r] > begin[k]) r++;
    free[r] = end[k];
    sizes[r] = (sizes[r] ?? 0) + 1;
    row[k] = r;
  }
  const rows = sizes.map((n) => ({ index: new Uint32Array(n), begin: new Float64Array(n), end: new Float64Array(n), n: 0 }));
  for (let at = 0; at < n; at++) {
    const k = order ? order[at] : at;
    const target = rows[row[k]];
    target.index[target.n] = indices[k];
    target.begin[target.n] = begin[k];
    target.end[target.n++] = end[k];
  }
  return rows;
}

// The events of a row that match, as a row.
function filterRow(row, test) {
  const kept = [];
  for (let k = 0; k < row.index.length; k++) if (test(row.index[k])) kept.push(k);
  const pick = (Type, from) => Type.from(kept, (k) => from[k]);
  return { index: pick(Uint32Array, row.index), begin: pick(Float64Array, row.begin), end: pick(Float64Array, row.end) };
}

// One rectangle for each event, or for each pixel that has some: what ends inside a painted pixel is passed over by search, so a
// row costs at most its width, however many events are in view. `share`: how much of the pixel's time they take.
function eachBar(row, view, width, draw) {
  const scale = width / (view.end - view.begin);
  let k = firstAbove(row.end, view.begin);
  let painted = -1;
  while (k < row.begin.length && row.begin[k] < view.end) {
    const left = Math.max(0, (row.begin[k] - view.begin) * scale);
    const right = Math.min(width, (row.end[k] - view.begin) * scale);
    if (right - left >= 1) draw(row.index[k++], left, right - left, 1);
    else {
      painted = Math.max(Math.floor(left), painted + 1); // what began in a painted pixel ends in the next one
      const next = Math.max(k + 1, firstAbove(row.end, view.begin + (painted + 1) / scale, k + 1));
      row.spent ??= spentUntil(row); // when first asked for
      draw(row.index[k], painted, 1, (row.spent[next] - row.spent[k]) * scale);
      k = next;
    }
  }
}

function spentUntil({ begin, end }) {
  const spent = new Float64Array(begin.length + 1);
  for (let k = 0; k < begin.length; k++) spent[k + 1] = spent[k] + end[k] - begin[k];
  return spent;
}
