// Findings jump to their place: the line is put into focus, and the timeline shows what it did.
function createFindings(data, store) {
  const { meta } = data;
  if (!meta.findings.length) return null;
  const items = meta.findings.map((finding) =>
    make("li", {}, make("button", { type: "button", class: "nx-finding", onclick: () => jump(finding) },
      make("span", {}, make("b", {}, finding.code), finding.where ? ` ${finding.where}: ` : " ", finding.message),
      make("span", { class: "nx-soft" }, [finding.cost ? `cost ${duration(finding.cost)}` : "", finding.fix].filter(Boolean).join(" · ")))));

  function jump(finding) {
    const focus = finding.line ? { line: finding.line } : finding.ops.length ? { label: finding.ops[0] } : null;
    if (!focus) return;
    const place = extent(data, (i) => matches(focus, data.events, i));
    const room = place ? Math.max(1000, (place.end - place.begin) * 0.1) : 0;
    store.set({ focus, range: null, ...(place ? { view: clampView(place.begin - room, place.end + room, meta.full) } : {}) });
  }

  return make("section", { class: "nx-findings", "aria-label": "findings" }, make("h4", {}, "Findings"), make("ul", {}, ...items));
}

function extent({ events }, test) {
  let begin = Infinity;
  let end = -Infinity;
  for (let i = 0; i < events.count; i++) {
    if (!test(i)) continue;
    begin = Math.min(begin, events.begin[i]);
    end = Math.max(end, events.end[i]);
  }
  return end >= begin ? { begin, end } : null;
}
