// The matrix: modules by architecture, with the layer that closes each.
const WORDS = { opens: "can be opened", closed: "closed", design: "closed with a reason",
  partly: "built, but parts are left out", checks: "built; some functions check", open: "open",
  unknown: "unknown" };

function columnsShown() {
  if (current.columns === "all") return SCAN.worlds;
  if (innerWidth < 620) return [...SCAN.targets, SCAN.references[0]].filter(Boolean);
  const near = new Set([...SCAN.references, ...SCAN.targets]);
  for (const name of SCAN.targets) {
    const { number } = split(name);
    for (const other of SCAN.worlds)
      if (split(other).number.slice(0, -1) === number.slice(0, -1) &&
        (split(other).number === number || split(other).suffix === "a")) near.add(other);
  }
  return SCAN.worlds.filter((name) => near.has(name));
}

function topicOf(name) {
  return SCAN.topics.find((topic) => topic.name === name);
}

function isAbout(module, topic) {
  return topic.words.some((word) => module.search.includes(word));
}

function modulesShown() {
  const topic = topicOf(current.topic), words = current.q.toLowerCase().split(/\s+/);
  return MODULES.filter((module) =>
    (!topic || isAbout(module, topic)) &&
    (!current.state || module.verdict === current.state) &&
    (!current.layer || module.layers.some(([name, closed]) => name === current.layer && closed)) &&
    words.every((word) => module.search.includes(word)) &&
    ((!current.severity && !current.cause) || module.gates.some((number) => {
      const row = SCAN.gates[number];
      return (!current.severity || SCAN.strings[row[15]] === current.severity) &&
        (!current.cause || SCAN.strings[row[14]] === current.cause);
    })));
}

function cellOf(module, name) {
  const { layers, doubtful } = closing(module, worldIndex.get(name));
  const asked = SCAN.targets.includes(name);
  if (!layers.length) {
    if (doubtful) return chip("unknown", "unknown");
    return asked ? chip("open", "open") : h("span", { class: "more" }, "·",
      h("span", { class: "hidden" }, "nothing known to be closed"));
  }
  const [first, ...rest] = layers;
  const kind = asked ? `${first.kind}${first.name === "check" ? " check" : ""}` : "faint";
  return [chip(kind, first.label, layers.map((layer) => layer.name).join(", ")),
    rest.length && asked ? h("span", { class: "more", title: rest.map((l) => l.label).join(", ") },
      ` +${rest.length}`) : null];
}

function moduleRow(shown) {
  return (module) => h("div", { class: current.module === module.key ? "current" : "" },
    h("div", { role: "rowheader", class: "first" },
      h("a", { class: "name", href: address({ module: module.key, gate: "" }),
        title: module.key }, module.key,
      h("small", null, WORDS[module.verdict]))),
    shown.map((name) => h("div", { role: "cell",
      class: SCAN.targets.includes(name) ? "cell target" : "cell" }, cellOf(module, name))));
}

function verdictLine(modules) {
  const counts = new Map();
  for (const module of modules)
    counts.set(module.verdict, [...(counts.get(module.verdict) || []), module.key]);
  const parts = VERDICT_ORDER.filter((name) => counts.has(name)).map((name) =>
    `${counts.get(name).length} ${WORDS[name]}`);
  const by = new Map();
  for (const module of modules.filter((one) => ["closed", "opens", "design"].includes(one.verdict)))
    for (const name of SCAN.targets) {
      const [first] = closing(module, worldIndex.get(name)).layers;
      if (first) by.set(first.label, (by.get(first.label) || 0) + 1);
    }
  const layers = [...by].map(([label, count]) => `${label} ${count}`).join(", ");
  return h("p", { class: "verdict", role: "status" },
    h("strong", null, `${current.topic || "All"} on ${SCAN.targets.join(", ")}: `),
    `${plural(modules.length, "module")}; ${parts.join(", ") || "none"}`,
    layers ? `. First closed by: ${layers}.` : ".");
}

function modulesView() {
  const shown = columnsShown(), modules = modulesShown();
  const heads = [h("div", { role: "columnheader", class: "first" }, "Module"), shown.map((name) =>
    h("div", { role: "columnheader", class: SCAN.targets.includes(name) ? "cell target" : "cell" },
      name))];
  const many = shown.length > 12;
  const wide = many ? 4.4 : current.module || current.gate ? 4.7 : 5.6;
  const columns = `${many ? "17rem" : "minmax(9rem, 1fr)"} repeat(${shown.length}, ${wide}rem)`;
  const made = grid("Modules by architecture", columns, heads, modules, moduleRow(shown), 56);
  made.classList.toggle("wide-table", many);
  return [verdictLine(modules),
    h("ul", { class: "legend" },
      h("li", null, chip("opens", "layer"), " a shipped group opens it"),
      h("li", null, chip("closed", "layer"), " closed here first"),
      h("li", null, chip("design", "layer"), " hardware, intent, or only prebuilt code"),
      h("li", null, chip("closed check", "check"), " only some functions check"),
      h("li", null, "grey: another target, as far as these gates tell; scan with --arch to judge it")),
    modules.length ? made : h("p", { class: "empty" }, "No module matches these filters.")];
}
