// What all views share. `view` is the time on screen; `range` a selected span of time or null; `focus` an op or line or null;
// `cursor` the time under the pointer or null. Views hear of a change in the next frame, once.
function createStore(initial) {
  const listeners = new Set();
  let state = initial;
  let changed = new Set();
  let frame = 0;
  function tell() {
    frame = 0;
    const keys = changed;
    changed = new Set();
    for (const listener of listeners) listener(state, keys);
  }
  return {
    get state() {
      return state;
    },
    set(patch) {
      for (const key of Object.keys(patch)) if (state[key] !== patch[key]) changed.add(key);
      state = { ...state, ...patch };
      if (changed.size && !frame) frame = requestAnimationFrame(tell);
    },
    on(listener, ...keys) {
      listeners.add((now, which) => {
        if (keys.some((key) => which.has(key))) listener(now, which);
      });
    },
    stop() {
      cancelAnimationFrame(frame);
      listeners.clear();
    },
  };
}

const focusName = (focus, meta) => focus.name ?? (focus.label !== undefined ? (meta.labels[focus.label] ?? focus.label) : meta.places[focus.line]);

const matches = (focus, events, i) => !focus || (focus.label === undefined || focus.label === events.label[i]) && (focus.line === undefined || focus.line === events.line[i]);
