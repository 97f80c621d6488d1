// Before and after, side by side; where there is no room for two columns, one below the other.
function paired(lines) {
  const rows = [];
  let old = [], added = [];
  const flush = () => {
    for (let i = 0; i < Math.max(old.length, added.length); i++) rows.push([old[i], added[i]]);
    old = []; added = [];
  };
  for (const line of lines) {
    if (line[0] === "-") old.push(line.slice(1));
    else if (line[0] === "+") added.push(line.slice(1));
    else { flush(); rows.push([line.slice(1), line.slice(1), true]); }
  }
  flush();
  return rows;
}

function marked(text, other) {
  if (text === undefined || other === undefined || text === other) return [text || ""];
  let from = 0;
  while (from < text.length && text[from] === other[from]) from++;
  let back = 0;
  while (back < Math.min(text.length, other.length) - from &&
    text[text.length - 1 - back] === other[other.length - 1 - back]) back++;
  return [text.slice(0, from), h("mark", null, text.slice(from, text.length - back)),
    text.slice(text.length - back)];
}

function side(kind, text, other) {
  if (text === undefined) return h("td", { class: "none" }, "");
  return h("td", { class: kind }, marked(text, other));
}

function hunkRows(hunk, wide) {
  let before = hunk.old, after = hunk.new;
  return paired(hunk.lines).flatMap(([old, added, same]) => {
    const one = old === undefined ? "" : String(before++);
    const two = added === undefined ? "" : String(after++);
    const number = (text) => h("td", { class: "no" }, text);
    if (wide) return [h("tr", null, number(one), side(same ? "" : "old", old, same ? undefined : added),
      number(two), side(same ? "" : "new", added, same ? undefined : old))];
    if (same) return [h("tr", null, number(one), h("td", null, old))];
    return [old === undefined ? null : h("tr", null, number(one), side("old", old, added)),
      added === undefined ? null : h("tr", null, number(two), side("new", added, old))]
      .filter(Boolean);
  });
}

function lineHead() {
  return h("th", { class: "no" }, h("span", { class: "hidden" }, "line"));
}

function diffView(file, width) {
  const wide = width > 640;
  const head = wide ? h("thead", null, h("tr", null, lineHead(), h("th", null, "before"),
    lineHead(), h("th", null, "after"))) : null;
  const rows = file.hunks.flatMap((hunk, index) => [
    index ? h("tr", { class: "gap" }, h("td", { colspan: wide ? 4 : 2 }, "…")) : null,
    ...hunkRows(hunk, wide)]).filter(Boolean);
  return h("div", { class: "source", tabindex: "0", role: "group", "aria-label": `Change of ${file.path}` },
    h("table", { class: wide ? "diff" : "diff unified" }, h("caption", null, file.path), head,
      h("tbody", null, rows)));
}
