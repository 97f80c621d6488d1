"""The commands that only compute: variables, lists, strings, arguments."""

from __future__ import annotations

import re
from collections.abc import Callable

from patcher.cmake.interpreter import Builtin, Interpreter, Stop, Values
from patcher.cmake.text import (
    HOLE,
    is_unknown,
    join_list,
    natural_key,
    pattern,
    search,
    split_list,
)

_DEFINE = re.compile(r"-D\s*(\w+)")
_CODE = re.compile(r"code=\[?((?:sm|compute)_\w+)")
_MAX_PADDING = 4096


def note(machine: Interpreter, values: Values) -> None:
    """Remember where a -D option, a code of -gencode or a CUDA source was named."""
    for value in values:
        if value.endswith(".cu"):
            machine.note_source(value)
        for name in _DEFINE.findall(value) + _CODE.findall(value):
            places = machine.flags.setdefault(name, [])
            if machine.place not in places:
                places.append(machine.place)


def _set(machine: Interpreter, values: Values) -> None:
    if not values or re.match(r"(ENV|CACHE)\{", values[0]):
        return
    name, rest = values[0], values[1:]
    note(machine, rest)
    if "CACHE" in rest:
        given = rest[:rest.index("CACHE")]
        if machine.get(name) is None or rest[-1:] == ["FORCE"]:
            machine.cache[name] = join_list(given)
        return
    above = rest[-1:] == ["PARENT_SCOPE"]
    given = rest[:-1] if above else rest
    machine.set(name, join_list(given) if given else None, above=above)


def _unset(machine: Interpreter, values: Values) -> None:
    if values:
        machine.set(values[0], None, above=values[1:] == ["PARENT_SCOPE"])


def _option(machine: Interpreter, values: Values) -> None:
    if values and machine.get(values[0]) is None:
        machine.cache[values[0]] = values[2] if len(values) > 2 else "OFF"


def _message(machine: Interpreter, values: Values) -> None:
    if values[:1] == ["FATAL_ERROR"]:
        raise Stop("".join(values[1:])[:300].replace(HOLE, "?"))


def _list(machine: Interpreter, values: Values) -> None:
    if len(values) < 2:
        return
    action, name, rest = values[0], values[1], values[2:]
    text = machine.get(name)
    if action in ("APPEND", "PREPEND"):
        note(machine, rest)
        added = join_list(rest)
        parts = [text or "", added] if action == "APPEND" else [added, text or ""]
        machine.set(name, join_list([p for p in parts if p]))
        return
    items = split_list(text or "")
    if action in _READERS:
        out = rest[-1] if rest else ""
        machine.set(out, HOLE if is_unknown(text or "") else _READERS[action](items, rest[:-1]))
    elif action in _CHANGERS and text is not None:
        try:
            machine.set(name, join_list(_CHANGERS[action](items, rest)))
        except (ValueError, IndexError):
            machine.set(name, HOLE)
    elif action == "TRANSFORM":
        machine.set(name, HOLE)


def _got(items: Values, rest: Values) -> str:
    chosen = [int(n) for n in rest if re.fullmatch(r"-?\d+", n)]
    return join_list([items[n] for n in chosen if -len(items) <= n < len(items)])


_READERS: dict[str, Callable[[Values, Values], str]] = {
    "LENGTH": lambda items, rest: str(len(items)),
    "GET": _got,
    "JOIN": lambda items, rest: (rest[0] if rest else "").join(items),
    "FIND": lambda items, rest: str(items.index(rest[0]) if rest[:1] and rest[0] in items else -1),
    "SUBLIST": lambda items, rest: join_list(
        items[int(rest[0]):] if rest[1] == "-1" else items[int(rest[0]):][:int(rest[1])]),
}


def _filtered(items: Values, rest: Values) -> Values:
    keep = rest[:1] == ["INCLUDE"]
    return [item for item in items if bool(search(rest[2], item)) is keep]


def _sorted(items: Values, rest: Values) -> Values:
    natural = "NATURAL" in rest
    return sorted(items, key=natural_key if natural else str, reverse="DESCENDING" in rest)


_CHANGERS: dict[str, Callable[[Values, Values], Values]] = {
    "REMOVE_ITEM": lambda items, rest: [item for item in items if item not in rest],
    "REMOVE_DUPLICATES": lambda items, rest: list(dict.fromkeys(items)),
    "REMOVE_AT": lambda items, rest: [item for n, item in enumerate(items)
                                      if n not in {int(r) % len(items) for r in rest}],
    "INSERT": lambda items, rest: items[:int(rest[0])] + rest[1:] + items[int(rest[0]):],
    "REVERSE": lambda items, rest: items[::-1],
    "POP_BACK": lambda items, rest: items[:-1],
    "POP_FRONT": lambda items, rest: items[1:],
    "FILTER": _filtered,
    "SORT": _sorted,
}


def _string(machine: Interpreter, values: Values) -> None:
    if len(values) < 2:
        return
    action, rest = values[0], values[1:]
    if action == "REGEX":
        _regex(machine, rest)
    elif action in ("APPEND", "PREPEND"):
        old, new = machine.get(rest[0]) or "", "".join(rest[1:])
        machine.set(rest[0], old + new if action == "APPEND" else new + old)
    elif action in ("CONCAT", "JOIN"):
        glue, out, parts = ("", rest[0], rest[1:]) if action == "CONCAT" else (
            rest[0], rest[1], rest[2:])
        machine.set(out, glue.join(parts))
    elif action in _STRINGS and len(rest) > _STRINGS[action][0]:
        out = rest[_STRINGS[action][0]]
        known = not any(map(is_unknown, rest))
        machine.set(out, _STRINGS[action][1](rest) if known else HOLE)
    else:
        for out in rest[-1:]:
            machine.set(out, HOLE)


_STRINGS: dict[str, tuple[int, Callable[[Values], str]]] = {
    # the number of the argument that names the result, and the result
    "REPLACE": (2, lambda rest: "".join(rest[3:]).replace(rest[0], rest[1])),
    "FIND": (2, lambda rest: str(rest[0].rfind(rest[1]) if "REVERSE" in rest[3:]
                                 else rest[0].find(rest[1]))),
    "TOUPPER": (1, lambda rest: rest[0].upper()),
    "TOLOWER": (1, lambda rest: rest[0].lower()),
    "STRIP": (1, lambda rest: rest[0].strip()),
    "LENGTH": (1, lambda rest: str(len(rest[0].encode()))),
    "SUBSTRING": (3, lambda rest: rest[0][int(rest[1]):] if rest[2] == "-1"
                  else rest[0][int(rest[1]):][:int(rest[2])]),
    "REPEAT": (2, lambda rest: rest[0] * min(int(rest[1]), _MAX_PADDING)),
}


def _regex(machine: Interpreter, values: Values) -> None:
    action, expression, *rest = values
    at = 1 if action == "REPLACE" else 0
    if len(rest) <= at:
        return
    out, text = rest[at], "".join(rest[at + 1:])
    try:
        if is_unknown(text) or is_unknown(expression):
            raise ValueError(text)
        machine.set(out, _matched(machine, action, expression, rest[0], text))
    except ValueError:
        machine.set(out, HOLE)


def _matched(machine: Interpreter, action: str, expression: str, new: str, text: str) -> str:
    first = search(expression, text)
    if first is None:
        machine.matched([])
        return text if action == "REPLACE" else ""
    compiled = pattern(expression)
    assert compiled is not None  # it has just matched
    found = [first] if action == "MATCH" else list(compiled.finditer(text))
    machine.matched([found[-1][0], *(group or "" for group in found[-1].groups())])
    if action != "REPLACE":
        return join_list([match[0] for match in found])
    return compiled.sub(lambda match: re.sub(
        r"\\(.)", lambda m: _group(match, m[1]), new), text)


def _group(match: re.Match[str], char: str) -> str:
    if char.isdigit():
        return (match[int(char)] or "") if int(char) <= match.re.groups else ""
    return {"n": "\n", "\\": "\\"}.get(char, char)


def _parse_arguments(machine: Interpreter, values: Values) -> None:
    """``cmake_parse_arguments`` in both of its forms."""
    if values[:1] == ["PARSE_ARGV"]:
        count = int(machine.get("ARGC") or 0)
        given = [machine.get(f"ARGV{n}") or "" for n in range(int(values[1]), count)]
        prefix, options, single, multiple = (values[2:] + [""] * 4)[:4]
    else:
        prefix, options, single, multiple = (values + [""] * 4)[:4]
        given = [item for value in values[4:] for item in split_list(value) if item]
    kinds = {**dict.fromkeys(split_list(options), 0), **dict.fromkeys(split_list(single), 1),
             **dict.fromkeys(split_list(multiple), 2)}
    found: dict[str, list[str]] = {}
    rest: list[str] = []
    current = ""
    for value in given:
        if value in kinds:
            found.setdefault(value, [])
            current = value if kinds[value] else ""
        elif current and kinds[current] == 2:
            found[current].append(value)
        elif current:
            found[current], current = [value], ""
        else:
            rest.append(value)
    for name, kind in kinds.items():
        held = found.get(name)
        text = str(held is not None).upper() if not kind else join_list(held) if held else None
        machine.set(f"{prefix}_{name}", text)
    machine.set(f"{prefix}_UNPARSED_ARGUMENTS", join_list(rest) if rest else None)


def _unknown(*, first: bool = False, named: tuple[str, ...] = ()) -> Builtin:
    """A command that asks the machine: its results are unknown."""

    def run(machine: Interpreter, values: Values) -> None:
        outs = values[:1] if first else []
        outs += [values[n + 1] for n, value in enumerate(values[:-1]) if value in named]
        for out in outs:
            if machine.get(out) is None or not first:
                machine.set(out, HOLE)

    return run


def _find_package(machine: Interpreter, values: Values) -> None:
    if values and machine.get(f"{values[0]}_FOUND") is None:
        machine.set(f"{values[0]}_FOUND", HOLE)


def _checked(machine: Interpreter, values: Values) -> None:
    """``check_*``: the last argument is the result."""
    if values and machine.get(values[-1]) is None:
        machine.set(values[-1], HOLE)


COMPUTING: dict[str, Builtin] = {
    "set": _set, "unset": _unset, "option": _option, "message": _message, "list": _list,
    "string": _string, "cmake_parse_arguments": _parse_arguments, "find_package": _find_package,
    "math": lambda machine, values: machine.set(values[1], HOLE) if len(values) > 1 else None,
    "execute_process": _unknown(named=("OUTPUT_VARIABLE", "ERROR_VARIABLE", "RESULT_VARIABLE",
                                       "RESULTS_VARIABLE")),
    "find_program": _unknown(first=True), "find_library": _unknown(first=True),
    "find_path": _unknown(first=True), "find_file": _unknown(first=True),
    "processorcount": _unknown(first=True), "cmake_host_system_information":
        _unknown(named=("RESULT",)), "check_cxx_compiler_flag": _checked,
    "check_include_file": _checked, "check_cxx_source_compiles": _checked,
    "check_language": _checked,
}
