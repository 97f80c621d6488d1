// The targets, and which of them pass a gate.
const SIGN = { open: "✓", closed: "✕", unreached: "–", unknown: "?" };

function stateOf(gate, world) {
  return ["open", "closed", "unknown"].find((name) => gate[name].includes(world)) || "unreached";
}

function split(name) {
  const match = /^sm_(\d+)([af]?)$/.exec(name);
  return { number: match[1], suffix: match[2] };
}

function worldStrip(gate) {
  const groups = new Map();
  SCAN.worlds.forEach((name, world) => {
    const { number, suffix } = split(name);
    const box = h("span", {
      class: `world ${stateOf(gate, world)}${SCAN.targets.includes(name) ? " target" : ""}`,
      title: `${name}: ${stateOf(gate, world)}` },
    h("span", { "aria-hidden": "true" }, suffix || "·"),
    h("span", { class: "hidden" }, `${name} ${stateOf(gate, world)}`));
    if (!groups.has(number)) groups.set(number, []);
    groups.get(number).push(box);
  });
  const rows = [...groups].map(([number, boxes]) =>
    h("li", null, h("span", { class: "cap", "aria-hidden": "true" },
      `${number.slice(0, -1)}.${number.slice(-1)}`), boxes));
  rows.push(h("li", null, h("span", { class: "cap" }, "host"),
    h("span", { class: `world ${gate.host}` }, SIGN[gate.host],
      h("span", { class: "hidden" }, gate.host))));
  return h("div", null,
    h("ul", { class: "worlds", "aria-label": "Who passes this gate" }, rows),
    h("ul", { class: "legend" }, [["open", "passes"], ["closed", "does not pass"],
      ["unreached", "decided before"], ["unknown", "unknown"]].map(([kind, words]) =>
      h("li", null, h("span", { class: `world ${kind}`, "aria-hidden": "true" }, SIGN[kind]), " ",
        words)),
    h("li", null, "· plain, a and f are the suffixes; outlined is the target asked for")));
}

// A set in a few letters for the margin: 90a 100 100a ... as ranges of whole devices.
function shortSet(indices) {
  if (!indices.length) return "none";
  const names = indices.map((index) => SCAN.worlds[index].replace("sm_", ""));
  if (names.length > 6) return `${names[0]} … ${names[names.length - 1]} (${names.length})`;
  return names.join(" ");
}
