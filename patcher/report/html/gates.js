// The list of all gates.
function gatesShown() {
  const words = current.q.toLowerCase().split(/\s+/), topic = topicOf(current.topic);
  const names = topic && new Set(MODULES.filter((module) => isAbout(module, topic))
    .map((module) => module.name));
  const result = [];
  for (let number = 0; number < SCAN.gates.length; number++) {
    const row = SCAN.gates[number], text = (index) => SCAN.strings[row[index]];
    if (current.layer && text(1) !== current.layer) continue;
    if (current.severity && text(15) !== current.severity) continue;
    if (current.cause && text(14) !== current.cause) continue;
    if (current.file && text(3) !== current.file) continue;
    if (current.state === "opens" && !row[23]) continue;
    if (current.state === "over" && !(row[12] & OVER)) continue;
    if (names && !SCAN.lists[row[19]].some((index) => names.has(SCAN.strings[index]))) continue;
    if (current.q) {
      const all = `${row[0]} ${text(3)} ${text(6)} ${text(13)} ${text(24)}`.toLowerCase();
      if (!words.every((word) => all.includes(word))) continue;
    }
    result.push(number);
  }
  return result;
}

const SEVERITY_CHIP = { critical: "closed", warning: "unknown", info: "design" };

function gateRow(number) {
  const gate = gateAt(number);
  return h("div", { class: current.gate === gate.id ? "current" : "" },
    h("div", { role: "cell" }, chip(SEVERITY_CHIP[gate.severity], gate.severity)),
    h("div", { role: "rowheader" },
      h("a", { class: "name", href: address({ gate: gate.id }), title: gate.condition },
        h("code", null, gate.condition),
        h("small", null, `${gate.path}:${gate.line}`))),
    h("div", { role: "cell", class: "cell" }, LAYER_LABEL[gate.layer]),
    h("div", { role: "cell", class: "cell" }, gate.effect),
    h("div", { role: "cell", class: "cell" }, gate.openedBy ? chip("opens", "opens")
      : chip("faint", gate.cause)));
}

function gatesView() {
  const numbers = gatesShown();
  const total = numbers.reduce((sum, number) => sum + Math.max(1, SCAN.gates[number][22].length), 0);
  const heads = ["Severity", "Condition and place", "Layer", "Behind it", "Cause"].map((name, index) =>
    h("div", { role: "columnheader", class: index > 1 ? "cell" : "" }, name));
  const made = grid("Gates", "5.4rem minmax(13rem, 1fr) 5rem 7.5rem 6rem", heads, numbers, gateRow, 56);
  return [h("p", { class: "verdict", role: "status" },
    h("strong", null, plural(numbers.length, "row")),
    ` for ${plural(total, "gate")}`,
    current.file ? [" in ", h("code", null, current.file), " · ",
      h("a", { href: address({ file: "" }) }, "all files")] : ""),
  numbers.length ? made : h("p", { class: "empty" }, "No gate matches these filters.")];
}
