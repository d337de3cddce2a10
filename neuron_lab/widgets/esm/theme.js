// Canvas cannot read CSS variables: the text's colour is asked for, everything else is a mid tone that shows on light and dark.
function fit(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  context.fillStyle = style.color;
  context.font = `11px ${style.fontFamily}`;
  context.textBaseline = "middle";
  return { context, width, height, ink: style.color };
}

// Calls back when `root` is laid out first, and when it has another size or its pixels another density: a zoom may change only that.
function onLayout(root, callback) {
  const laidOut = () => root.clientWidth && callback();
  const resized = new ResizeObserver(laidOut);
  resized.observe(root);
  let density = null;
  function watch() {
    density = window.matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    density.addEventListener("change", changed, { once: true });
  }
  function changed() {
    watch();
    laidOut();
  }
  watch();
  return () => {
    resized.disconnect();
    density.removeEventListener("change", changed);
  };
}

// Calls back when the colours of the page may have changed.
function onTheme(callback) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const watcher = new MutationObserver(callback);
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "class"] });
  dark.addEventListener("change", callback);
  return () => {
    watcher.disconnect();
    dark.removeEventListener("change", callback);
  };
}
