// Numbers and text as the report writes them.
function threeDigits(value) {
  if (value >= 99.95) return Math.round(value).toLocaleString("en-US");
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function duration(ns) {
  if (!ns) return "0";
  for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
    if (Math.abs(ns) >= factor * 0.9995) return `${threeDigits(ns / factor)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

function size(bytes) {
  let value = bytes;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 999.5) return unit === "B" ? `${Math.round(value)} B` : `${threeDigits(value)} ${unit}`;
    value /= 1000;
  }
  return `${threeDigits(value)} TB`;
}

function binarySize(bytes) {
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1023.5) return `${trimmed(value)} ${unit}`;
    value /= 1024;
  }
  return `${trimmed(value)} TiB`;
}

// HBM is told in round numbers: 24 GiB.
function trimmed(value) {
  const text = threeDigits(value);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

const count = (number) => number.toLocaleString("en-US");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const orDash = (value, write) => (value ? write(value) : "–");
const withoutAten = (op) => op.replace(/^aten::/, "");

// Round steps for an axis: 1, 2 or 5 times a power of ten, about `room` of them in `span`.
function step(span, room) {
  const rough = span / Math.max(1, room);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

// An element; text is text, never markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) element.setAttribute(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
