// The way from a unit to the guard, file by file; each box opens the line that includes the next.
function chainView(gate) {
  const steps = gate.via.length ? gate.via : [gate.path];
  const items = steps.map((path, index) => {
    const last = index === steps.length - 1;
    const line = last ? gate.line : gate.hops[index] || 0;
    const place = h("div", { id: `hop-${index}`, hidden: true });
    const others = gatesOf(path).length;
    const slash = path.lastIndexOf("/");
    const button = h("button", {
      type: "button", "aria-expanded": "false", "aria-controls": `hop-${index}`,
      click: () => {
        const shut = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!shut));
        place.hidden = shut;
        if (!shut && !place.childElementCount) put(place,
          line ? sourceView(path, [line], last ? 0 : 2)
            : h("p", { class: "sub" }, "The line of the include was not found."),
          others ? h("p", null, h("a", { href: address({ view: "gates", file: path, gate: "",
            q: "", topic: "", layer: "", severity: "", cause: "", state: "" }) },
          plural(others, "gate"), " in this file")) : null);
      },
    },
    index === 0 && gate.unitCount > 1
      ? h("small", null, `one of ${plural(gate.unitCount, "unit")}`) : null,
    h("strong", null, path.slice(slash + 1)),
    h("small", null, path.slice(0, Math.max(slash, 0))));
    return h("li", { class: index === 0 && gate.unitCount > 1 ? "first" : "" }, button, place,
      last ? null : h("span", { class: "hop" }, line ? `includes, line ${line}` : "includes"));
  });
  return h("ol", { class: "chain", "aria-label": "Include chain, from the unit to the guard" },
    items);
}
