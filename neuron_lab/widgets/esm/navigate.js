// Moving in time, by pointer and by keys.
const CLOSEST = 50; // nanoseconds on screen

function clampView(begin, end, full) {
  const span = Math.min(Math.max(end - begin, Math.min(CLOSEST, full)), full);
  const from = Math.min(Math.max(0, begin), full - span);
  return { begin: from, end: from + span };
}

function zoomed(view, factor, at, full) {
  const span = (view.end - view.begin) * factor;
  return clampView(at - (span * (at - view.begin)) / (view.end - view.begin), at + (span * (view.end - at)) / (view.end - view.begin), full);
}

function handlePointer(canvas, store, { width, full, ruler, hover, pick, leave }) {
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const inTime = (x) => Math.min(full, Math.max(0, timeAt(store.state.view, x, width())));

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = place(event);
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    drag = { x, y, view: store.state.view, from: inTime(x), selects: event.shiftKey || y < ruler, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) {
      hover(x, y);
      store.set({ cursor: x < GUTTER ? null : inTime(x) });
      return;
    }
    drag.moved ||= Math.abs(x - drag.x) > 3;
    if (!drag.moved) return;
    if (drag.selects) {
      const to = inTime(x);
      store.set({ range: { begin: Math.min(drag.from, to), end: Math.max(drag.from, to) } });
    } else {
      const shift = ((drag.x - x) / width()) * (drag.view.end - drag.view.begin);
      store.set({ view: clampView(drag.view.begin + shift, drag.view.end + shift, full) });
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) pick(...place(event));
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => {
    leave();
    store.set({ cursor: null });
  });
  // Until it was clicked into, the wheel scrolls the notebook, which would be caught otherwise.
  canvas.addEventListener("wheel", (event) => {
    if (canvas !== canvas.getRootNode().activeElement && !event.ctrlKey) return;
    event.preventDefault();
    const { view } = store.state;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = (event.deltaX / width()) * (view.end - view.begin);
      store.set({ view: clampView(view.begin + shift, view.end + shift, full) });
    } else store.set({ view: zoomed(view, Math.exp(event.deltaY * 0.0015), inTime(place(event)[0]), full) });
  }, { passive: false });
}

function handleKeys(canvas, store, full, say) {
  canvas.addEventListener("keydown", (event) => {
    const { view, range, focus } = store.state;
    const middle = (view.begin + view.end) / 2;
    const shift = (view.end - view.begin) / 5;
    const actions = {
      ArrowLeft: () => ({ view: clampView(view.begin - shift, view.end - shift, full) }),
      ArrowRight: () => ({ view: clampView(view.begin + shift, view.end + shift, full) }),
      "+": () => ({ view: zoomed(view, 0.7, middle, full) }),
      "=": () => ({ view: zoomed(view, 0.7, middle, full) }),
      "-": () => ({ view: zoomed(view, 1 / 0.7, middle, full) }),
      0: () => ({ view: { begin: 0, end: full } }),
      s: () => ({ range: { ...view } }),
      Escape: () => (range ? { range: null } : { focus: null }),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // the notebook has keys of its own
    store.set(action());
    const now = store.state.view;
    say(`${duration(now.begin)} to ${duration(now.end)}`);
  });
}
