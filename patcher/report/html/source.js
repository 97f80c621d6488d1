// Source with the arch sets of its gates in the margin.
const CODE = /(\/\/.*$|\/\*.*?(?:\*\/|$))|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\b(if|else|elif|for|while|return|raise|def|class|import|from|constexpr|static|inline|template|typename|void|const|struct|using|namespace|__global__|__device__|__host__|assert|not|and|or|in|is|True|False|None)\b/g;

function coloured(text) {
  if (/^\s*#\s*(if|ifdef|ifndef|elif|else|endif|include|define|undef|error|pragma)\b/.test(text))
    return [h("span", { class: "p" }, text)];
  if (/^\s*#/.test(text)) return [h("span", { class: "c" }, text)];
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(CODE)) {
    if (match.index > last) parts.push(text.slice(last, match.index));
    parts.push(h("span", { class: match[1] ? "c" : match[2] ? "s" : "k" }, match[0]));
    last = match.index + match[0].length;
  }
  parts.push(text.slice(last));
  return parts;
}

// What stands in the margin of each line of a file: the gate there, and the arm a line is in.
function margins(path) {
  const target = worldIndex.get(SCAN.targets[0]);
  const marks = new Map(), inside = [];
  for (const number of gatesOf(path)) {
    const gate = gateAt(number);
    for (const line of gate.lines) marks.set(line, gate);
    if (gate.lines.length === 1 && gate.end > gate.line)
      inside.push([gate.line, gate.end, stateOf(gate, target)]);
  }
  inside.sort((one, other) => one[1] - one[0] - (other[1] - other[0]));
  return { marks, arm: (line) => (inside.find(([from, to]) => line > from && line < to) || [])[2] };
}

function sourceView(path, wanted, near) {
  const windows = (SCAN.files[path] || []).filter(([start, text]) =>
    wanted.some((line) => line >= start - 12 && line <= start + text.split("\n").length + 12));
  if (!windows.length)
    return h("p", { class: "sub" }, "The source is not in this report: the file was not found, " +
      "is made at run time, or the report had no room left for it.");
  const { marks, arm } = margins(path);
  const rows = [];
  windows.forEach(([start, text], index) => {
    if (index) rows.push(h("tr", { class: "gap" }, h("td", null, ""), h("td", null, "…"),
      h("td", null, "")));
    text.split("\n").forEach((line, offset) => {
      const number = start + offset, gate = marks.get(number);
      if (near && !wanted.some((at) => Math.abs(at - number) <= near)) return;
      const label = gate ? h("a", { href: address({ gate: gate.id, file: "" }),
        title: `open: ${shortSet(gate.open)}\nclosed: ${shortSet(gate.closed)}` },
      gate.open.length ? `${shortSet(gate.open)} ✓` : "none ✓") : "";
      const kind = arm(number);
      rows.push(h("tr", { class: [wanted.includes(number) ? "here" : "",
        kind === "closed" ? "in-closed" : kind === "open" ? "in-open" : ""].join(" ") },
      h("td", { class: "margin" }, label), h("td", { class: "no" }, String(number)),
      h("td", null, coloured(line))));
    });
  });
  return h("div", { class: "source", tabindex: "0", role: "group", "aria-label": `Source of ${path}` },
    h("table", null, h("caption", null, path,
      " · margin: targets that pass; red bar: left out for ", SCAN.targets[0]), h("tbody", null, rows)));
}
