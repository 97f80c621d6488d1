"use strict";
// Elements are made here only. Text is always a text node: nothing of the data is ever markup.
function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

function put(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return place;
}

function plural(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many || one + "s"}`;
}

function chip(kind, text, title) {
  return h("span", { class: `chip ${kind}`, title }, text);
}

function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter((row) => row && row[1] !== "" && row[1] !== null)
    .map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

function listing(title, items, limit) {
  if (!items.length) return null;
  const shown = items.slice(0, limit || 200);
  const more = items.length - shown.length;
  return h("details", null,
    h("summary", null, `${title} (${items.length})`),
    h("ul", { class: "list" }, shown.map((item) => h("li", null, h("code", null, item)))),
    more > 0 ? h("p", { class: "sub" }, `and ${more} more`) : null);
}
