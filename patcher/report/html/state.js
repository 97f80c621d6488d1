// All that can be chosen stands in the address, so that a view can be sent to somebody.
const DEFAULTS = { view: "", q: "", topic: "", layer: "", severity: "", cause: "", state: "",
  columns: "", module: "", gate: "", file: "", patch: "", theme: "" };
let current = readAddress();

function readAddress() {
  const found = { ...DEFAULTS };
  for (const [name, value] of new URLSearchParams(location.hash.slice(1)))
    if (name in found) found[name] = value;
  return found;
}

function address(changes) {
  const next = { ...current, ...changes };
  const pairs = Object.entries(next).filter(([name, value]) => value !== DEFAULTS[name]);
  return "#" + new URLSearchParams(pairs).toString();
}

function go(changes, quietly) {
  const next = address(changes);
  if (quietly) {
    history.replaceState(null, "", next);
    current = readAddress();
    renderAll();
  } else location.hash = next;
}
