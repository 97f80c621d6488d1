// The compact document, unpacked on demand: a gate is read from its row when it is asked for.
const DOC = JSON.parse(document.getElementById("data").textContent);
const SCAN = DOC.scan || null;
const [CLOSED, OVER, COUNTS, SHUTS] = [1, 2, 4, 8];
const LAYERS = ["python", "build", "preprocessor", "host", "binary"];
const LAYER_LABEL = { python: "python", build: "build", preprocessor: "#if", host: "host",
  binary: "binary" };
const known = new Map();

function gateAt(number) {
  if (known.has(number)) return known.get(number);
  const row = SCAN.gates[number];
  const text = (index) => SCAN.strings[index];
  const list = (index) => SCAN.lists[index].map(text);
  const gate = {
    number, id: row[0], layer: text(row[1]), rule: text(row[2]), path: text(row[3]),
    line: row[4], end: row[5], condition: text(row[6]),
    open: SCAN.sets[row[7]], closed: SCAN.sets[row[8]], unreached: SCAN.sets[row[9]],
    unknown: SCAN.sets[row[10]], host: text(row[11]), flags: row[12], effect: text(row[13]),
    cause: text(row[14]), severity: text(row[15]),
    evidence: row[16].map(([path, line, words]) => ({ path: text(path), line, text: text(words) })),
    unitCount: row[17], units: list(row[18]), modules: list(row[19]), via: list(row[20]),
    hops: row[21], lines: row[22].length ? row[22] : [row[4]], openedBy: row[23],
    within: text(row[24]), names: list(row[25]), decidedBy: list(row[26]), hides: row[27],
  };
  known.set(number, gate);
  return gate;
}

const gateNumber = new Map(SCAN ? SCAN.gates.map((row, number) => [row[0], number]) : []);
const worldIndex = new Map(SCAN ? SCAN.worlds.map((name, index) => [name, index]) : []);
const byPath = new Map();
if (SCAN) SCAN.gates.forEach((row, number) => {
  if (!byPath.has(row[3])) byPath.set(row[3], []);
  byPath.get(row[3]).push(number);
});
const pathString = new Map();
if (SCAN) for (const key of byPath.keys()) pathString.set(SCAN.strings[key], key);

function gatesOf(path) {
  return byPath.get(pathString.get(path)) || [];
}

// What a gate means for the reader: opens (a shipped group does it), design (nothing to open),
// or closed.
function disposition(gate) {
  if (gate.openedBy) return "opens";
  if (["hardware", "intended", "binary"].includes(gate.cause)) return "design";
  return "closed";
}

// Modules of the same name get a number behind it, so that each has an address.
const MODULES = [];
if (SCAN) {
  const seen = new Map();
  SCAN.modules.forEach((module, number) => {
    const count = (seen.get(module.name) || 0) + 1;
    seen.set(module.name, count);
    MODULES.push({ ...module, number, key: count > 1 ? `${module.name} (${count})` : module.name });
  });
}
const moduleByKey = new Map(MODULES.map((module) => [module.key, module]));

// The layers that close a module for one target, first the one that is met first.
function closing(module, world) {
  const found = new Map();
  let doubtful = false;
  for (const number of module.gates) {
    const row = SCAN.gates[number];
    if (!(row[12] & COUNTS)) continue;
    if (SCAN.sets[row[8]].includes(world)) {
      const gate = gateAt(number);
      const check = gate.layer === "python" && !(gate.flags & SHUTS);
      const name = check ? "check" : gate.layer;
      const kinds = found.get(name) || new Set();
      found.set(name, kinds.add(disposition(gate)));
    } else if (SCAN.sets[row[10]].includes(world)) doubtful = true;
  }
  const layers = [...LAYERS, "check"].filter((name) => found.has(name)).map((name) => {
    const kinds = found.get(name);
    const kind = kinds.has("closed") ? "closed" : kinds.has("opens") ? "opens" : "design";
    return { name, label: LAYER_LABEL[name] || name, kind };
  });
  return { layers, doubtful };
}

function verdictOf(module) {
  const cells = SCAN.targets.map((name) => closing(module, worldIndex.get(name)));
  const layers = cells.flatMap((cell) => cell.layers);
  if (layers.some((layer) => layer.kind === "opens")) return "opens";
  if (module.closed) return layers.some((layer) => layer.kind === "closed") ? "closed" : "design";
  if (layers.some((layer) => layer.name !== "check")) return "partly";
  if (cells.some((cell) => cell.doubtful)) return "unknown";
  return layers.length ? "checks" : "open";
}
const VERDICT_ORDER = ["opens", "closed", "design", "partly", "checks", "unknown", "open"];
for (const module of MODULES) {
  module.verdict = verdictOf(module);
  module.search = [module.key, ...module.functions].join(" ").toLowerCase();
}
MODULES.sort((one, other) => VERDICT_ORDER.indexOf(one.verdict) -
  VERDICT_ORDER.indexOf(other.verdict) || one.number - other.number);
