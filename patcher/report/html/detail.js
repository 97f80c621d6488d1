// One module, or one gate, beside the list.
function gateCard(gate, extra) {
  const count = gate.lines.length > 1 ? `${gate.lines.length} × ` : "";
  return h("a", { class: "gatecard", href: address({ gate: gate.id }) },
    h("span", null, chip(disposition(gate), gate.openedBy ? "can be opened" : gate.cause), " ",
      `${count}${gate.effect}`, gate.flags & OVER ? ", too open" : ""),
    h("code", null, gate.condition),
    h("small", { class: "sub" }, `${gate.path}:${gate.line}`, gate.within ? ` in ${gate.within}` : ""),
    extra || null);
}

function layerItem(module, name) {
  const [, closed, summary] = module.layers.find(([layer]) => layer === name) || [name, 0, ""];
  const gates = module.gates.map(gateAt).filter((gate) => gate.layer === name &&
    gate.flags & (COUNTS | OVER)).sort((one, other) => (other.flags & SHUTS) - (one.flags & SHUTS));
  const kinds = new Set(gates.filter((gate) => gate.flags & COUNTS).map(disposition));
  const kind = !closed ? "" : kinds.has("closed") ? "closed" : kinds.has("opens") ? "opens" : "design";
  const shown = gates.slice(0, 12);
  return h("li", { class: kind }, h("p", null, h("span", { class: "what" }, name), ": ", summary),
    shown.map((gate) => gateCard(gate)),
    gates.length > shown.length ? h("details", null,
      h("summary", null, `${gates.length - shown.length} more`),
      gates.slice(12, 212).map((gate) => gateCard(gate))) : null);
}

function aloneView(module) {
  if (!module.alone.length) return null;
  return [h("h3", null, "If one gate alone is opened"),
    h("ul", null, module.alone.map(([number, result, why, functions]) => {
      const gate = gateAt(number);
      const idle = why.startsWith("nothing changes");
      const kind = idle ? "design" : result === "ok" ? "open" : result === "unknown" ? "unknown"
        : "closed";
      return h("li", null, chip(kind, idle ? "no effect" : result), " ", h("a", { href: address({ gate: gate.id }) },
        `${gate.path.slice(gate.path.lastIndexOf("/") + 1)}:${gate.line}`), ": ",
      functions.join(", ") || "the module", ` (${why})`);
    }))];
}

function moduleDetail(module) {
  const openers = [...new Set(module.gates.map((number) => SCAN.gates[number][23]).filter(Boolean))];
  const quiet = module.gates.filter((number) => !(SCAN.gates[number][12] & (COUNTS | OVER))).length;
  return [h("h2", { id: "detail-title" }, module.key),
    h("p", null, `${WORDS[module.verdict]} on ${SCAN.targets.join(", ")}`),
    openers.length ? h("p", null, "Opened by ", openers.map((name, index) => [index ? ", " : "",
      h("a", { href: address({ view: "patches", patch: name, gate: "", module: "" }) }, name)])) : null,
    h("h3", null, "Layers, in the order in which they decide"),
    h("ol", { class: "layers" }, LAYERS.map((name) => layerItem(module, name))),
    quiet ? h("p", { class: "sub" }, `${plural(quiet, "row")} in vendored code, or explained by ` +
      "hardware, intent or an alternative, ", h("a", { href: address({ view: "gates", q: "",
      gate: "", module: "", topic: "" }) }, "are in the list of gates")) : null,
    aloneView(module),
    module.guessed ? h("p", { class: "warn" }, `Not exact: ${module.guessed}`) : null,
    listing("Public functions", module.functions),
    listing("Sources", module.sources)];
}

function evidenceView(gate) {
  if (!gate.evidence.length) return `${gate.cause}: nothing found that says why`;
  return [gate.cause, gate.evidence.slice(0, 6).map((item) => h("div", { class: "quote" },
    h("code", null, item.text), h("span", { class: "sub" }, item.line ? `${item.path}:${item.line}`
      : item.path)))];
}

function patchOf(gate) {
  const found = (DOC.patches || []).find((group) => group.name === gate.openedBy);
  if (!found) return null;
  const files = found.patches.flatMap((patch) => patch.files).filter((file) => file.path === gate.path);
  const width = document.getElementById("main").clientWidth / (innerWidth > 1050 ? 2 : 1);
  return files.length ? [h("h3", null, `What ${gate.openedBy} changes here`),
    files.map((file) => diffView(file, width))] : null;
}

function gateDetail(gate) {
  const rule = SCAN.rules[gate.rule];
  const inside = gate.names.length ? gate.names.slice(0, 8).join(", ") +
    (gate.names.length > 8 ? ` and ${gate.names.length - 8} more` : "") : gate.within;
  return [h("h2", { id: "detail-title" }, h("code", null, gate.condition)),
    h("p", null, chip(SEVERITY_CHIP[gate.severity], gate.severity), " ",
      gate.flags & OVER ? "too open" : gate.flags & CLOSED ? "closed" : "hidden behind another gate",
      ` for ${SCAN.targets.join(", ")} · ${gate.layer} · ${gate.id}`),
    worldStrip(gate),
    facts([["What it is", rule ? `${rule[0]}: ${rule[1]}` : ""], ["Behind it", gate.effect],
      ["Why", evidenceView(gate)], ["In", inside],
      ["Opened by", gate.openedBy ? h("a", { href: address({ view: "patches",
        patch: gate.openedBy, gate: "", module: "" }) }, gate.openedBy) : ""],
      ["Decided by", gate.decidedBy.join(", ")],
      ["Lines", gate.lines.length > 1 ? gate.lines.slice(0, 40).join(", ") +
        (gate.lines.length > 40 ? ` and ${gate.lines.length - 40} more` : "") : ""],
      ["Hides", gate.hides.length ? plural(gate.hides.length, "gate") : ""]]),
    h("h3", null, gate.lines.length > 1 ? "Source of the first of them" : "Source"),
    sourceView(gate.path, gate.lines.slice(0, 3)),
    gate.via.length > 1 ? [h("h3", null, "How a unit comes to it"), chainView(gate)] : null,
    patchOf(gate),
    listing("Modules", gate.modules),
    gate.unitCount ? listing(gate.unitCount > gate.units.length
      ? `Units: the first of ${gate.unitCount}` : "Units", gate.units) : null];
}

function detailView() {
  const module = moduleByKey.get(current.module);
  const gate = gateNumber.has(current.gate) ? gateAt(gateNumber.get(current.gate)) : null;
  if (!module && !gate) return null;
  const crumbs = [h("li", null, h("a", { href: address({ gate: "", module: "" }) },
    current.view === "gates" ? "Gates" : "Modules"))];
  if (module) crumbs.push(h("li", null, gate
    ? h("a", { href: address({ gate: "" }) }, module.key) : module.key));
  if (gate) crumbs.push(h("li", null, "gate"));
  return h("section", { class: "detail", id: "detail", tabindex: "-1",
    "aria-labelledby": "detail-title" },
  h("div", { class: "crumbs" }, h("ol", { "aria-label": "You are here" }, crumbs),
    h("a", { href: address({ gate: "", module: "" }) }, "close")),
  gate ? gateDetail(gate) : moduleDetail(module));
}
