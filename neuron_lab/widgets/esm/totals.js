// What happened in a range of time, by op or by line of source.
const MEASURES = ["calls", "cold", "compile", "load", "device", "cpu", "copies", "bytes", "total"];

function totals(data, by, size, range) {
  const { events, kind, meta } = data;
  const keys = events[by];
  const isGraph = meta.labels.map((name) => name.startsWith("graph::"));
  const sums = Object.fromEntries(MEASURES.map((name) => [name, new Float64Array(size)]));
  const from = range ? range.begin : -1;
  const to = range ? range.end : Infinity;
  for (let i = 0; i < events.count; i++) {
    const begin = events.begin[i];
    if (begin > to) break; // they are in the order of their begin
    const end = events.end[i];
    if (end < from) continue;
    const key = keys[i];
    const spent = Math.max(0, Math.min(end, to) - Math.max(begin, from));
    const what = events.kind[i];
    if (what === kind.startup) continue;
    if (what === kind.compile || what === kind.load) {
      sums[what === kind.load ? "load" : "compile"][key] += spent;
      if (isGraph[events.label[i]]) sums.total[key] += spent; // an op's NEFF is made inside of a call, whose total has it
      continue;
    }
    sums.total[key] += spent;
    if (what === kind.copy) sums.copies[key]++;
    else sums.calls[key]++;
    if (begin >= from) sums.bytes[key] += events.bytes[i];
    if (what === kind.compiled) {
      sums.device[key] += Math.max(0, Math.min(end, to) - Math.max(end - events.device[i], from));
      sums.cold[key] += events.cold[i];
    } else if (what === kind.fallback) sums.cpu[key] += spent;
  }
  return sums;
}

// Rows of the op table: the report's exact ones for the whole span, else sums over the events in the range.
function opRows(data, range) {
  if (!range)
    return data.meta.ops.map(([label, calls, cold, compile, load, device, cpu, bytes, total]) => ({
      label, name: data.meta.labels[label] ?? label, calls, cold, compile, load, device, cpu, bytes, total,
    }));
  const sums = totals(data, "label", data.meta.labels.length, range);
  return data.meta.labels
    .map((name, label) => ({ label, name, ...Object.fromEntries(MEASURES.map((m) => [m, sums[m][label]])) }))
    .filter((row) => row.calls);
}

// By the number of the line: the same measures.
function lineRows(data, range) {
  if (!range) {
    const exact = new Map();
    for (const [line, [calls, cold, compile, load, device, cpu, copies, bytes, total]] of Object.entries(data.meta.lines))
      exact.set(Number(line), { calls, cold, compile, load, device, cpu, copies, bytes, total });
    return exact;
  }
  const sums = totals(data, "line", data.meta.places.length, range);
  const found = new Map();
  for (let line = 1; line < data.meta.places.length; line++)
    if (sums.calls[line] || sums.copies[line])
      found.set(line, Object.fromEntries(MEASURES.map((m) => [m, sums[m][line]])));
  return found;
}
