// Sorting by numbers that are not negative: their bits ascend as they do, and are counted sixteen at a time.
const DIGITS = 1 << 16;

// The indices of `keys` in the order of their values; equal ones stay in their order.
function sortedBy(keys, down = false) {
  const digits = new Uint16Array(keys.buffer, keys.byteOffset, 4 * keys.length);
  let order = new Uint32Array(keys.length);
  let next = new Uint32Array(keys.length);
  for (let i = 0; i < order.length; i++) order[i] = i;
  const flip = down ? DIGITS - 1 : 0;
  const starts = new Uint32Array(DIGITS);
  for (let digit = 0; digit < 4; digit++) {
    starts.fill(0);
    for (let i = digit; i < digits.length; i += 4) starts[digits[i] ^ flip]++;
    if (keys.length && starts[digits[digit] ^ flip] === keys.length) continue; // all the same
    for (let value = 0, start = 0; value < DIGITS; value++) {
      const found = starts[value];
      starts[value] = start;
      start += found;
    }
    for (const i of order) next[starts[digits[4 * i + digit] ^ flip]++] = i;
    [order, next] = [next, order];
  }
  return order;
}

// Numbers that sort as the texts do.
function ranks(texts) {
  const found = new Map();
  for (const text of texts) found.set(text, 0);
  [...found.keys()].sort().forEach((text, at) => found.set(text, at));
  return texts.map((text) => found.get(text));
}
