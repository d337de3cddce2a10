// A table that draws only the rows in sight. `columns`: {title, value(row), text(row), left, hint, draw(row)}; it is sorted by value, and
// `draw` gives an element in place of the text.
const ROW = 22;
const TALLEST_SPACER = 8e6; // browsers limit the height of an element

function createTable({ label, columns, pick, chosen }) {
  let rows = [];
  let order = new Uint32Array(0);
  let sort = { column: columns.length - 1, down: true };
  const grid = columns.map((column) => column.width).join(" ");
  const heads = columns.map((column, at) =>
    make("button", { type: "button", class: `nx-th${column.left ? " nx-left" : ""}`, title: column.hint, onclick: () => sortBy(at) }, column.title));
  const head = make("div", { class: "nx-tr nx-head", role: "row", style: `grid-template-columns:${grid}` },
    ...heads.map((button) => make("div", { role: "columnheader" }, button)));
  const spacer = make("div", { class: "nx-spacer" });
  const body = make("div", { class: "nx-body", role: "rowgroup" });
  const scroller = make("div", { class: "nx-scroller", tabindex: 0, role: "group", "aria-label": `rows: ${label}`, onscroll: () => draw() }, spacer, body);
  const element = make("div", { class: "nx-table", role: "table", "aria-label": label }, head, scroller);
  let active = 0;

  const heightOf = () => Math.min(rows.length * ROW, TALLEST_SPACER);
  const firstInSight = () => {
    const hidden = Math.max(1, heightOf() - scroller.clientHeight);
    const last = Math.max(0, rows.length - Math.floor(scroller.clientHeight / ROW));
    return heightOf() < TALLEST_SPACER ? Math.floor(scroller.scrollTop / ROW) : Math.round((scroller.scrollTop / hidden) * last);
  };

  function sortBy(at) {
    sort = { column: at, down: sort.column === at ? !sort.down : !columns[at].left };
    arrange();
    scroller.scrollTop = 0;
    draw();
  }

  function arrange() {
    const begun = performance.now();
    const { value } = columns[sort.column];
    const texts = rows.length && typeof value(rows[0]) === "string" ? ranks(Array.from(rows, value)) : null;
    const keys = texts ? Float64Array.from(texts) : new Float64Array(rows.length);
    if (!texts) for (let i = 0; i < keys.length; i++) keys[i] = value(rows[i]);
    order = sortedBy(keys, sort.down);
    heads.forEach((button, at) => {
      button.parentElement.setAttribute("aria-sort", at !== sort.column ? "none" : sort.down ? "descending" : "ascending");
      button.textContent = columns[at].title + (at !== sort.column ? "" : sort.down ? " ▾" : " ▴");
    });
    element.dataset.sorted = (performance.now() - begun).toFixed(1);
  }

  function draw() {
    const first = firstInSight();
    const room = Math.ceil(scroller.clientHeight / ROW) + 1;
    const shown = [];
    for (let at = first; at < Math.min(rows.length, first + room); at++) {
      const row = rows[order[at]];
      shown.push(make("div", { class: `nx-tr${chosen(row) ? " nx-chosen" : ""}${at === active ? " nx-active" : ""}`, role: "row", "aria-rowindex": at + 2, "aria-selected": chosen(row), style: `grid-template-columns:${grid}`, onclick: () => { active = at; pick(row); } },
        ...columns.map((column) => make("div", { role: "cell", class: column.left ? "nx-left" : null, title: column.left ? column.text(row) : null }, column.draw ? column.draw(row) : column.text(row)))));
    }
    if (!rows.length) shown.push(make("div", { class: "nx-nothing", role: "row" }, make("div", { role: "cell" }, "nothing to show")));
    body.replaceChildren(...shown);
    head.style.paddingRight = `${6 + scroller.offsetWidth - scroller.clientWidth}px`; // beside the scroll bar
    body.style.top = `${heightOf() < TALLEST_SPACER ? first * ROW : scroller.scrollTop}px`;
  }

  scroller.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && rows.length) pick(rows[order[active]]);
    else if (event.key in moves) {
      active = Math.max(0, Math.min(rows.length - 1, active + moves[event.key]));
      if (active < firstInSight() || active >= firstInSight() + Math.floor(scroller.clientHeight / ROW)) scroller.scrollTop = (active / Math.max(1, rows.length)) * heightOf();
      draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    element,
    draw,
    // `found` is an array, typed or not.
    show(found) {
      rows = found;
      active = Math.min(active, Math.max(0, rows.length - 1));
      spacer.style.height = `${heightOf()}px`;
      scroller.style.height = `${ROW * Math.max(3, Math.min(11, rows.length))}px`;
      element.setAttribute("aria-rowcount", rows.length + 1);
      arrange();
      draw();
    },
  };
}
