"""What the conditions of a package mean for a device, read without sm-patch's own evaluator.

``WORDS`` says what the names of SGLang and vLLM stand for, from their definitions. What is not
among them is not known, and an unknown part of a condition never decides it.
"""

from __future__ import annotations

import ast
import operator
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Device = tuple[int, int]
DEVICES: tuple[Device, ...] = ((8, 0), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1))
_MAJOR = {"is_sm90_supported": (9,), "is_sm100_supported": (10,), "is_sm120_supported": (12,),
          "is_blackwell_supported": (10, 12), "is_sm90": (9,), "is_sm100": (10,), "is_sm120": (12,)}
_NUMBER = ("sm_version", "arch", "major_capability * 10 + minor_capability")
_ASKED = re.compile(r"current_platform\.is_device_capability(_family)?\((\d+)\)")
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many}


def true_for(condition: ast.expr) -> set[str]:
    """The devices for which a condition can be true."""
    return {f"{major}.{minor}" for major, minor in DEVICES
            if _value(condition, (major, minor)) is not False}


def _value(node: ast.expr, device: Device) -> Any:
    text = ast.unparse(node)
    known = _word(text, device)
    if known is not None:
        return known
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = [_value(part, device) for part in node.elts]
        return None if None in parts else parts
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _value(node.operand, device)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        values = [_value(part, device) for part in node.values]
        decisive = isinstance(node.op, ast.Or)
        if any(value is not None and bool(value) is decisive for value in values):
            return decisive
        return None if None in values else not decisive
    if isinstance(node, ast.Compare):
        sides = [_value(part, device) for part in (node.left, *node.comparators)]
        if None in sides:
            return None
        return all(_COMPARE[type(how)](left, right) for how, left, right in
                   zip(node.ops, sides[:-1], sides[1:], strict=True))
    return None


def _word(text: str, device: Device) -> Any:
    major, minor = device
    name = text.removeprefix("get_platform().").removeprefix("_").removesuffix("()")
    if name in _MAJOR:
        return major in _MAJOR[name]
    if text in _NUMBER:
        return major * 10 + minor
    if text in ("major", "self.device_capability"):
        return major
    if text == "minor":
        return minor
    if text in ("_is_cuda", "_is_musa"):
        return text == "_is_cuda"
    asked = _ASKED.fullmatch(text)
    if asked:
        number = int(asked[2])
        return major == number // 10 if asked[1] else major * 10 + minor == number
    return None


def conditions(source: str, function: str = "", *mention: str) -> list[ast.expr]:
    """The conditions of a function, or of a file, in which all of these words stand."""
    tree: ast.AST = ast.parse(source)
    if function:
        (tree,) = (node for node in ast.walk(tree)
                   if isinstance(node, ast.FunctionDef) and node.name == function)
    found = list(_conditions(tree))
    return [each for each in found if all(word in ast.unparse(each) for word in mention)]


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def in_c(source: str, mention: str) -> list[ast.expr]:
    """The conditions of the TORCH_CHECKs of a C++ file, as Python reads them."""
    found = re.findall(r"TORCH_CHECK\(([^\",]+),", source)
    return [ast.parse(" ".join(each.split()).replace("||", "or").replace("&&", "and"),
                      mode="eval").body for each in found if mention in each]


def changed(before: str, after: str) -> tuple[Counter[str], Counter[str]]:
    """The conditions of a file that went away, and those that came."""
    old, new = (Counter(map(ast.unparse, conditions(text))) for text in (before, after))
    return old - new, new - old


def unbound(source: str) -> set[str]:
    """Names of gates that a file uses without importing or assigning them."""
    tree = ast.parse(source)
    used = {node.id for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.id.strip("_").startswith("is_sm")}
    bound = {alias.asname or alias.name for node in ast.walk(tree)
             if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    bound |= {target.id for node in ast.walk(tree) if isinstance(node, ast.Assign)
              for target in node.targets if isinstance(target, ast.Name)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return used - bound


def live_lines(source: str, number: int) -> Counter[str]:
    """The lines, as texts, that gcc keeps with this ``__CUDA_ARCH__``; 0 stands for none.

    Only the conditions are given to it, so that nothing else of the file matters.
    """
    kept, continued = [], False
    for line, text in enumerate(source.splitlines(), 1):
        directive = continued or re.match(r"\s*#\s*(?:if|ifdef|ifndef|elif|else|endif)\b", text)
        kept.append(text if directive else f"@{line}")
        continued = bool(directive) and text.endswith("\\")
    define = [f"-D__CUDA_ARCH__={number}"] if number else []
    done = subprocess.run(["gcc", "-E", "-P", "-x", "c", *define, "-"], input="\n".join(kept),
                          capture_output=True, text=True, check=True)
    lines = source.splitlines()
    return Counter(lines[int(word[1:]) - 1] for word in done.stdout.split() if word[0] == "@")


def lists_of(source: str, word: str) -> dict[str, str]:
    """The lists that a function's decorator or a keyword of a call in it has, by function."""
    found = {}
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.keyword) and node.arg == word:
                found[function.name] = ast.unparse(node.value)
            elif isinstance(node, ast.Call) and node in function.decorator_list \
                    and ast.unparse(node.func).endswith(word):
                found[function.name] = ast.unparse(node.args[0])
    return found
