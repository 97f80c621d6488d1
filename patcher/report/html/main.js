// Views, filters, and what is drawn when the address changes.
const main = document.getElementById("main");
const VIEWS = [
  SCAN && { name: "modules", label: "Modules", count: MODULES.length },
  SCAN && { name: "gates", label: "Gates", count: SCAN.gates.length },
  DOC.patches && DOC.patches.length && { name: "patches", label: "Patches", count: DOC.patches.length },
  DOC.proof && { name: "proof", label: "Proof", count: DOC.proof.units.length },
  SCAN && { name: "about", label: "About" },
].filter(Boolean);
let drawn = {};

function viewNow() {
  return (VIEWS.find((view) => view.name === current.view) || VIEWS[0] || { name: "none" }).name;
}

function drawViews() {
  put(document.getElementById("views"), VIEWS.map((view) => h("a", {
    href: address({ view: view.name, module: "", gate: "", file: "", patch: "", state: "" }),
    "aria-current": view.name === viewNow() ? "page" : null },
  view.label, " ", view.count === undefined ? null : h("span", { class: "n" },
    view.count.toLocaleString("en")))));
}

function choice(name, label, options) {
  const select = h("select", { change: () => go({ [name]: select.value }) },
    options.map(([value, words]) => h("option", { value, selected: current[name] === value }, words)));
  return h("label", null, label, select);
}

function filters() {
  const gates = viewNow() === "gates";
  const box = h("input", { type: "search", id: "search", "aria-label": "Search",
    placeholder: gates ? "Path, condition, function or id" : "Module or function", value: current.q,
    input: () => go({ q: box.value }, true) });
  const all = (values) => [["", "any"], ...values.map((value) => [value, value])];
  const states = gates ? [["", "any"], ["opens", "a shipped group opens it"], ["over", "too open"]]
    : [["", "any"], ...VERDICT_ORDER.map((name) => [name, WORDS[name]])];
  const topics = SCAN.topics.filter((topic) => MODULES.some((module) => isAbout(module, topic)));
  return h("search", null,
    h("div", { class: "filters" }, box,
      choice("state", "State", states),
      choice("layer", "Layer", all(LAYERS)),
      choice("severity", "Severity", all(["critical", "warning", "info"])),
      choice("cause", "Cause", all(["software", "unknown", "hardware", "intended", "binary"])),
      gates ? null : choice("columns", "Columns", [["", "near the target"], ["all", "all targets"]])),
    h("div", { class: "topics", role: "group", "aria-label": "Topics" }, topics.map((topic) =>
      h("button", { type: "button", "aria-pressed": String(current.topic === topic.name),
        click: () => go({ topic: current.topic === topic.name ? "" : topic.name, module: "",
          gate: "" }) }, topic.name))));
}

function drawBrowse(view) {
  if (view === "patches") return patchesView();
  if (view === "proof") return proofView();
  if (view === "about") return aboutView();
  if (view === "none") return h("p", { class: "empty", id: "list" }, "There is nothing to show.");
  const rows = h("div", { id: "list", tabindex: "-1" }, view === "gates" ? gatesView() : modulesView());
  return h("div", { class: "browse" }, filters(), rows);
}

const LIST_KEYS = ["view", "q", "topic", "layer", "severity", "cause", "state", "columns", "file",
  "patch"];

function changed(keys) {
  return !drawn.view && drawn.view !== "" || keys.some((key) => drawn[key] !== current[key]);
}

function renderAll() {
  const view = viewNow();
  const opened = Boolean(drawn.module || drawn.gate) !== Boolean(current.module || current.gate);
  const listChanged = changed(LIST_KEYS) || opened, detailChanged = changed(["module", "gate", "view"]);
  document.documentElement.dataset.theme = themeNow();
  document.getElementById("theme").textContent = themeNow() === "dark" ? "Light" : "Dark";
  drawViews();
  const scrolled = scrollY;
  if (listChanged) drawList(view);
  if (detailChanged) drawDetail(view);
  markCurrent();
  drawn = { ...current };
  if (listChanged && !detailChanged) scrollTo(0, scrolled);
}

function drawList(view) {
  const old = main.querySelector(".browse");
  const focused = document.activeElement && document.activeElement.id === "search";
  const pressed = document.activeElement && document.activeElement.closest(".topics")
    ? document.activeElement.textContent : null;
  const labelled = document.activeElement && document.activeElement.tagName === "SELECT"
    ? document.activeElement.parentElement.firstChild.textContent : null;
  if (focused && old && old.querySelector("#list")) {  // typing: leave the box as it is
    put(old.querySelector("#list"), view === "gates" ? gatesView() : modulesView());
    return;
  }
  const made = drawBrowse(view);
  if (old) old.replaceWith(made); else put(main, made);
  const again = pressed
    ? [...made.querySelectorAll(".topics button")].find((b) => b.textContent === pressed)
    : labelled ? [...made.querySelectorAll("label")].find((l) =>
      l.firstChild.textContent === labelled)?.querySelector("select") : null;
  if (again) again.focus();
}

function drawDetail(view) {
  const old = document.getElementById("detail");
  const made = SCAN && ["modules", "gates"].includes(view) ? detailView() : null;
  if (old) old.remove();
  main.classList.toggle("split", Boolean(made));
  if (!made) {
    const back = drawn.module ? rowFor(drawn.module) : null;
    if (back) back.focus({ preventScroll: true });
    return;
  }
  main.append(made);
  if (drawn.view !== undefined) made.focus({ preventScroll: innerWidth > 1050 });
}

function rowFor(key) {
  return [...document.querySelectorAll(".row .name")].find((link) => link.title === key);
}

function markCurrent() {
  for (const row of document.querySelectorAll(".row.current")) row.classList.remove("current");
  const wanted = viewNow() === "gates" ? address({}) : address({ gate: "" });
  for (const link of document.querySelectorAll(".row .name"))
    if (link.getAttribute("href") === wanted) link.closest(".row").classList.add("current");
}

function themeNow() {
  if (current.theme) return current.theme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

document.getElementById("theme").addEventListener("click", () =>
  go({ theme: themeNow() === "dark" ? "light" : "dark" }, true));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (document.getElementById("list") || main).focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renderAll);
addEventListener("hashchange", () => { current = readAddress(); renderAll(); });
if (SCAN) document.getElementById("context").textContent =
  `${SCAN.packages.map((one) => `${one.name} ${one.version || ""}`).join(", ")} · ` +
  `${plural(SCAN.counts.units, "unit")}, ${plural(SCAN.counts.files, "file")} · ` +
  `${SCAN.toolchain} · compared with ${SCAN.references.join(", ")}`;
renderAll();
document.documentElement.dataset.ready = "yes";
