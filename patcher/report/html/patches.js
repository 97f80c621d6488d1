// What patchsets change, and what a compiler said of it.
const OUTCOME_CHIP = { applicable: "opens", "already-applied": "open", "not-needed": "open" };

function patchesView() {
  const width = document.getElementById("main").clientWidth;
  const groups = DOC.patches.filter((group) => !current.patch || group.name === current.patch);
  return h("div", { class: "browse", id: "list" },
    current.patch ? h("p", null, h("a", { href: address({ patch: "" }) }, "All groups")) : null,
    groups.map((group) => h("section", { class: "detail" },
      h("h2", null, group.name, " ", chip(OUTCOME_CHIP[group.outcome] || "closed", group.outcome)),
      h("p", null, group.summary),
      facts([["Why", group.why], ["Outcome", group.reason], ["Risk", group.risk],
        ["Warning", group.warning ? h("span", { class: "warn" }, group.warning) : ""],
        ["Needs", group.needs.join(", ")], ["References", group.references.join(", ")],
        ["Command", group.outcome === "applicable" ? h("code", null, group.command) : ""]]),
      group.patches.map((patch) => [h("h3", null, patch.id, patch.summary ? `: ${patch.summary}` : ""),
        patch.affects === "all" ? h("p", { class: "warn" },
          `Affects every architecture: ${patch.reason}`) : null,
        patch.files.map((file) => diffView(file, width))]))),
    groups.length ? null : h("p", { class: "empty" }, "No group of that name is in this report."));
}

const PROOF_CHIP = { ok: "open", hollow: "closed", failed: "closed", unchanged: "design" };

function sideText(half) {
  if (!half) return "–";
  if (half.error) return half.error;
  return `${plural(half.kernels, "kernel")}, ${half.hollow.length} hollow`;
}

function proofView() {
  const rows = DOC.proof.units.map((row) => h("tr", null,
    h("td", null, chip(PROOF_CHIP[row.verdict], row.verdict)),
    h("td", null, row.arch), h("th", { scope: "row" }, h("code", null, row.unit),
      row.reasons.length ? h("ul", null, row.reasons.slice(0, 20).map((text) => h("li", null, text)))
        : null),
    h("td", null, sideText(row.before)), h("td", null, sideText(row.after))));
  return h("div", { class: "browse", id: "list" },
    h("div", { class: "detail proof scroll", tabindex: "0", role: "region", "aria-label": "Proof" },
      h("h2", null, DOC.proof.answer),
      h("table", null, h("thead", null, h("tr", null, ["Verdict", "Target", "Unit", "Before", "After"]
        .map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows))));
}

function aboutView() {
  const missing = SCAN.missing;
  return h("div", { class: "browse", id: "list" }, h("section", { class: "detail" },
    h("h2", null, "About this scan"),
    facts([["Packages", SCAN.packages.map((one) =>
      h("div", null, `${one.name} ${one.version || "(no version)"} in `, h("code", null, one.root)))],
    ["Targets", SCAN.targets.join(", ")], ["Compared with", SCAN.references.join(", ")],
    ["Toolkit", SCAN.toolchain],
    ["Read", `${plural(SCAN.counts.units, "unit")}, ${plural(SCAN.counts.files, "file")}`]]),
    h("p", null, "Keys: ", h("kbd", null, "/"), " search, ", h("kbd", null, "↑"), " ",
      h("kbd", null, "↓"), " row by row, ", h("kbd", null, "Enter"), " open, ",
      h("kbd", null, "Esc"), " close. The address keeps every filter."),
    h("p", null, "A module that no gate concerns is not listed. Cells of targets that were not " +
      "asked for show only what the gates found here say about them."),
    listing("Libraries with GPU code", SCAN.libraries), listing("Notes", SCAN.notes), listing("Warnings", SCAN.warnings),
    listing("Headers that were not found", missing)));
}
