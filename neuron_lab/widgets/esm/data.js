// From the bytes of the kernel to typed arrays. Times become nanoseconds from the start of the span.
const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

async function unpack(meta, packed) {
  const buffer = await inflated(packed, meta.layout.reduce((sum, { type, length }) => sum + length * TYPES[type].BYTES_PER_ELEMENT, 0));
  const tables = { events: {}, memory: {} };
  let offset = 0;
  for (const { table, name, type, length, delta } of meta.layout) {
    const Type = TYPES[type];
    const end = offset + length * Type.BYTES_PER_ELEMENT;
    const array = new Type(buffer.slice(offset, end)); // a copy, aligned
    tables[table][name] = delta ? summed(array) : array;
    offset = end;
  }
  const { events, memory } = tables;
  events.count = events.start.length;
  memory.count = memory.start.length;
  events.begin = inTime(events.start, meta.tick);
  events.took = inTime(events.duration, meta.tick);
  events.device = inTime(events.device, meta.tick);
  events.end = new Float64Array(events.count);
  // From whole ticks: what ends when the next one begins must not seem to overlap it.
  for (let i = 0; i < events.count; i++) events.end[i] = (events.start[i] + events.duration[i]) * meta.tick;
  memory.at = inTime(memory.start, meta.tick);
  return { meta, events, memory, kind: Object.fromEntries(meta.kinds.map((name, i) => [name, i])) };
}

async function inflated(packed, length) {
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  const written = writer.write(new Uint8Array(packed.buffer, packed.byteOffset, packed.byteLength)).then(() => writer.close());
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const reader = stream.readable.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes.set(value, at);
    at += value.length;
  }
  await written;
  return bytes.buffer;
}

function summed(differences) {
  const values = new Float64Array(differences.length);
  let value = 0;
  for (let i = 0; i < values.length; i++) values[i] = value += differences[i];
  return values;
}

function inTime(ticks, tick) {
  const times = new Float64Array(ticks.length);
  for (let i = 0; i < times.length; i++) times[i] = ticks[i] * tick;
  return times;
}

// The part of the split that an event of a kind belongs to, by the kind's number.
function partOf(kinds) {
  const parts = { compiled: "device", fallback: "fallback", copy: "copies", compile: "compile", load: "load", startup: "startup" };
  return kinds.map((name) => parts[name] ?? "rest");
}

// The first index from `from` on whose value is above `limit`; values ascend. What is near is found first.
function firstAbove(values, limit, from = 0) {
  let low = from;
  let stride = 1;
  while (low + stride < values.length && values[low + stride] <= limit) {
    low += stride;
    stride *= 2;
  }
  let high = Math.min(values.length, low + stride);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
