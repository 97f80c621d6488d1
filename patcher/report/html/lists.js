// Long lists: the first rows now, the others when the browser has time; it lays out what is seen.
const CHUNK = 80;
let generation = 0;

function fill(place, items, makeRow, height) {
  const mine = ++generation;
  const chunk = (from) => {
    const part = items.slice(from, from + CHUNK);
    const group = h("div", { class: "chunk", role: "rowgroup" },
      part.map((item, index) => makeRow(item, from + index + 2)));
    group.style.containIntrinsicSize = `auto ${part.length * height}px`;
    place.append(group);
  };
  const later = (from) => {
    if (from >= items.length) return;
    const work = () => {
      if (mine !== generation) return;
      chunk(from);
      later(from + CHUNK);
    };
    if (window.requestIdleCallback) requestIdleCallback(work, { timeout: 400 });
    else setTimeout(work, 8);
  };
  if (items.length) chunk(0);
  later(CHUNK);
}

function grid(label, columns, heads, items, makeRow, height) {
  const head = h("div", { class: "row head", role: "row", "aria-rowindex": "1" }, heads);
  const table = h("div", { class: "table", role: "table", "aria-label": label,
    "aria-rowcount": String(items.length + 1) },
  h("div", { role: "rowgroup" }, head));
  const row = (item, index) => {
    const made = makeRow(item);
    made.classList.add("row");
    made.setAttribute("role", "row");
    made.setAttribute("aria-rowindex", String(index));
    made.style.gridTemplateColumns = columns;
    return made;
  };
  head.style.gridTemplateColumns = columns;
  fill(table, items, row, height);
  return h("div", { class: "scroll" }, table);
}

// Up and down go from row to row.
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape" && (current.gate || current.module)) {
    go({ gate: "", module: "" });
    event.preventDefault();
  } else if (event.key === "/" && !typing) {
    const box = document.getElementById("search");
    if (box) { box.focus(); event.preventDefault(); }
  } else if (["ArrowDown", "ArrowUp"].includes(event.key) && event.target.matches(".row .name")) {
    const names = [...document.querySelectorAll(".row .name")];
    const step = event.key === "ArrowDown" ? 1 : -1;
    const next = names[names.indexOf(event.target) + step];
    if (next) { next.focus(); event.preventDefault(); }
  }
});
