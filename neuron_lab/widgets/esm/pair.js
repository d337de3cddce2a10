// Two explorers that move together: the same time scale, and an op or line in focus in one is so in the other.
async function mountPair(el, { head, sides }, buffers) {
  const span = Math.max(...sides.map((side) => side.wall));
  const top = make("div");
  top.innerHTML = head; // the renderer's, which escapes
  const boxes = sides.map(() => make("div"));
  const root = make("div", { class: "nx-both" }, make("style", {}, STYLE), top, make("div", { class: "nx-pair" }, ...boxes));
  el.append(root);
  const stops = [];
  for (const [i, side] of sides.entries()) stops.push(await mount(boxes[i], { ...side, span }, [buffers[i]]));
  const [one, other] = boxes.map((box) => box.firstElementChild.explorer);
  const linked = new WeakSet(); // a focus that came from the other side goes no further
  const lanes = one.timeline.lanes;
  one.timeline.align(other.timeline.lanes);
  other.timeline.align(lanes);
  link(one, other, linked);
  link(other, one, linked);
  root.dataset.ready = "both";
  return () => {
    for (const stop of stops) stop();
    root.remove();
  };
}

function link(from, to, linked) {
  from.store.on(({ view }) => to.store.set({ view }), "view");
  from.store.on(({ focus }) => {
    if (focus === null) to.store.set({ focus: null });
    else if (!linked.has(focus)) {
      const same = translated(focus, from.data.meta, to.data.meta);
      linked.add(same);
      to.store.set({ focus: same });
    }
  }, "focus");
}

// What is not there is -1, which matches nothing.
function translated(focus, from, to) {
  const found = { name: focusName(focus, from) };
  if (focus.label !== undefined) found.label = to.labels.indexOf(from.labels[focus.label]);
  if (focus.line !== undefined) found.line = to.places.indexOf(from.places[focus.line]);
  return found;
}
