"""The part of Python's library that build functions use, on partial values.

Only what is listed here is ever computed; any other call yields an unknown.
"""

from __future__ import annotations

import itertools
import json
import os.path
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from patcher.profiles.partial.values import (
    HOLE,
    MAX_TEXT,
    Raised,
    Stopped,
    Symbol,
    Template,
    Text,
    Unknown,
    Value,
    is_plain,
    show,
)

MAX_ITEMS = 100_000
MAX_JSON = 4 << 20  # characters; the largest manifest of 0.7.4 has 1.1 million
_PURE_METHODS = {
    str: {"lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace",
          "split", "rsplit", "splitlines", "removeprefix", "removesuffix", "isdigit", "isalpha",
          "partition", "rpartition", "count", "find", "title", "capitalize"},
    list: {"append", "extend", "insert", "remove", "pop", "index", "count", "copy", "sort",
           "reverse", "clear"},
    tuple: {"index", "count"},
    dict: {"get", "items", "keys", "values", "update", "setdefault", "pop", "copy"},
    set: {"add", "update", "discard", "remove", "union", "copy"},
    PurePosixPath: {"with_suffix", "with_name", "as_posix", "joinpath", "relative_to",
                    "is_absolute", "with_stem"},
}
_MUTATING = {"append", "extend", "insert", "update", "setdefault", "add"}
_BUILTINS: dict[str, Callable[..., Value]] = {
    "len": len, "int": int, "float": float, "bool": bool, "abs": abs, "min": min, "max": max,
    "sum": sum, "list": list, "tuple": tuple, "dict": dict, "set": set, "frozenset": frozenset,
    "sorted": sorted, "repr": repr, "round": round, "divmod": divmod, "ord": ord, "chr": chr,
    "shlex.split": shlex.split,
    "next": lambda items, *default: next(iter(items), *default),
}
_LAZY: dict[str, Callable[..., Iterable[Value]]] = {
    "zip": zip, "enumerate": enumerate, "reversed": reversed,
    "itertools.product": itertools.product,
    "itertools.chain": itertools.chain,
    "itertools.chain.from_iterable": itertools.chain.from_iterable, "iter": iter,
    "itertools.permutations": itertools.permutations,
    "itertools.combinations": itertools.combinations,
}
_TYPES = {"str": str, "int": int, "list": list, "tuple": tuple, "dict": dict, "bool": bool,
          "pathlib.Path": PurePosixPath, "pathlib.PurePath": PurePosixPath, "float": float}
_SIDE_EFFECTS = re.compile(
    r"os\.(makedirs|mkdir|remove|chmod)|print|warnings\.warn|logging\.|shutil\.rmtree|atexit\.")
EXCEPTIONS = re.compile(r"[A-Z]\w*(Error|Exception|Exit)$")
NAMES = frozenset({*_BUILTINS, *(n for n in [*_LAZY, *_TYPES] if "." not in n),
                   "any", "all", "isinstance", "print", "open", "range", "map", "filter", "str",
                   "getattr", "hasattr", "property", "staticmethod", "classmethod", "object",
                   "type", "super", "callable", "vars", "id", "hash", "bytes"})


def take(items: Iterable[Value]) -> list[Value]:
    """A bounded list; raises Stopped for more than MAX_ITEMS."""
    found = list(itertools.islice(items, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise Stopped(f"more than {MAX_ITEMS} items")
    return found


def call_function(name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    """Call a builtin or library function by its dotted name."""
    if special := _SPECIAL.get(name):
        return special(args, keywords)
    if name in _LAZY:
        return _lazy(name, args, keywords)
    if name in _BUILTINS:
        if name in ("list", "tuple", "len", "dict") or (is_plain(args) and is_plain(keywords)):
            return _guard(_BUILTINS[name], name, args, keywords)
        return Unknown(f"{name}({', '.join(map(_label, args))})")
    if _SIDE_EFFECTS.match(name):
        return None
    return Unknown(f"{name}({', '.join(map(_label, args))})")


def _label(value: Value) -> str:
    return value.name if isinstance(value, Unknown | Symbol) else show(value)[:40]


def _lazy(name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    if any(isinstance(a, Unknown | Symbol) for a in args):
        return Unknown(f"{name}()")
    return _guard(lambda *a, **k: take(_LAZY[name](*a, **k)), name, args, keywords)


def _guard(function: Callable[..., Value], name: str, args: list[Value],
           keywords: dict[str, Value]) -> Value:
    try:
        return function(*args, **keywords)
    except (TypeError, ValueError, LookupError, StopIteration, ArithmeticError):
        return Unknown(f"{name}()")


def _range(args: list[Value], keywords: dict[str, Value]) -> Value:
    numbers = [a for a in args if isinstance(a, int)]
    if not 0 < len(args) == len(numbers) < 4:
        return Unknown("range()")
    return take(range(*numbers))


def _quantifier(name: str, neutral: bool) -> Callable[[list[Value], dict[str, Value]], Value]:
    def evaluate(args: list[Value], keywords: dict[str, Value]) -> Value:
        items = args[0] if args else None
        if not isinstance(items, list | tuple | set):
            return Unknown(f"{name}()")
        unknown = [i for i in items if isinstance(i, Unknown | Symbol)]
        if any(bool(i) is not neutral for i in items if not isinstance(i, Unknown | Symbol)):
            return not neutral
        return Unknown(f"{name}({_label(unknown[0])})") if unknown else neutral

    return evaluate


def _isinstance(args: list[Value], keywords: dict[str, Value]) -> Value:
    value, kinds = args[0], args[1]
    names = [k.name if isinstance(k, Symbol) else "" for k in (
        kinds if isinstance(kinds, tuple) else (kinds,))]
    if isinstance(value, Unknown) or not all(n in _TYPES for n in names):
        return Unknown(f"isinstance({_label(value)}, {'|'.join(names)})")
    return isinstance(value, tuple(_TYPES[n] for n in names))


def _path(args: list[Value], keywords: dict[str, Value]) -> Value:
    return PurePosixPath(*[show(a) for a in args])


def _environment(args: list[Value], keywords: dict[str, Value]) -> Value:
    """An environment variable of the process that builds: taken as not set."""
    return args[1] if len(args) > 1 else None


def _template(args: list[Value], keywords: dict[str, Value]) -> Value:
    source = args[0] if args else None
    if isinstance(source, str):
        return Template(source, getattr(source, "origin", ""))
    return Unknown("jinja2.Template()")


def _str(args: list[Value], keywords: dict[str, Value]) -> Value:
    if args and isinstance(args[0], Unknown):
        return Unknown(f"str({args[0].name})")
    return show(args[0]) if args else ""


def _join_path(args: list[Value], keywords: dict[str, Value]) -> Value:
    return os.path.join(*map(show, args)) if args else ""


def _first(args: list[Value], keywords: dict[str, Value]) -> Value:
    return args[0] if args else None


def _json(args: list[Value], keywords: dict[str, Value]) -> Value:
    """The data of a JSON text of the package; unknown when it is none, or too large."""
    text = args[0] if args else None
    if not isinstance(text, str) or HOLE in text or len(text) > MAX_JSON:
        return Unknown("json.loads()")
    try:
        data: Value = json.loads(text)
    except (ValueError, RecursionError):
        return Unknown("json.loads()")
    return data


def _from_keys(args: list[Value], keywords: dict[str, Value]) -> Value:
    """``dict.fromkeys``: how Python drops what comes twice from a list."""
    if not args or not isinstance(args[0], list | tuple | set | dict):
        return Unknown("dict.fromkeys()")
    return _guard(dict.fromkeys, "dict.fromkeys", args, keywords)


_SPECIAL: dict[str, Callable[[list[Value], dict[str, Value]], Value]] = {
    "range": _range, "any": _quantifier("any", False), "all": _quantifier("all", True),
    "isinstance": _isinstance, "str": _str,
    "pathlib.Path": _path, "pathlib.PurePath": _path, "pathlib.PurePosixPath": _path,
    "os.environ.get": _environment, "os.getenv": _environment, "jinja2.Template": _template,
    "os.path.join": _join_path, "os.path.abspath": _first, "os.path.realpath": _first,
    "json.loads": _json, "dict.fromkeys": _from_keys,
    "functools.cache": _first, "functools.lru_cache": _first, "copy.deepcopy": _first,
    "typing.cast": lambda args, keywords: args[-1] if args else None,
    "os.path.dirname": lambda args, keywords: os.path.dirname(show(args[0])),
    "os.path.basename": lambda args, keywords: os.path.basename(show(args[0])),
}


def call_method(owner: Value, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    """Call a method of a plain value; raises Raised for a missing dictionary key."""
    if isinstance(owner, Template) and name == "render":
        values = dict(keywords)
        for arg in args:
            values.update(arg if isinstance(arg, dict) else {})
        return owner.render(values)
    if isinstance(owner, str):
        return _text_method(owner, name, args, keywords)
    if isinstance(owner, PurePosixPath) and name in ("resolve", "absolute", "expanduser"):
        return owner
    for kind, allowed in _PURE_METHODS.items():
        if isinstance(owner, kind) and name in allowed:
            return _plain_method(owner, name, args, keywords)
    return Unknown(f"{_label(owner)}.{name}()")


def _plain_method(owner: Value, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    if name in ("extend", "update") and args and isinstance(args[0], Unknown):
        if isinstance(owner, list):
            owner.append(args[0])
        return None
    if name not in _MUTATING and any(isinstance(a, Unknown) for a in args):
        return Unknown(f"{_label(owner)}.{name}()")
    if name == "sort" and not is_plain(owner):
        return None
    if isinstance(owner, PurePosixPath):
        args = [show(a) for a in args]
    try:
        result = getattr(owner, name)(*args, **keywords)
    except KeyError as error:
        raise Raised(str(error)) from error
    except (TypeError, ValueError, LookupError):
        return Unknown(f"{_label(owner)}.{name}()")
    if name in ("items", "keys", "values"):
        return list(result)
    return result


def _text_method(owner: str, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    if name == "join" and args:
        if isinstance(args[0], list | tuple | set):
            return bounded(owner.join(show(a) for a in args[0]))
        return HOLE
    if name == "format":
        if re.search(r":[^}]*\d{4}", owner):
            raise Stopped("a format width over 999")
        try:
            shown = {k: show(v) for k, v in keywords.items()}
            return bounded(owner.format(*map(show, args), **shown))
        except (ValueError, LookupError, AttributeError):
            return HOLE
    if name not in _PURE_METHODS[str] or not is_plain(args):
        return Unknown(f"{_label(owner)}.{name}()")
    if name == "replace" and len(owner) * len(show(args[-1])) > 64 * MAX_TEXT:
        raise Stopped("a replacement without bound")
    result = _guard(getattr(owner, name), name, args, keywords)
    if isinstance(owner, Text) and isinstance(result, str):
        return Text(bounded(result), owner.origin)  # replacing text keeps its origin
    return result


def bounded(text: str) -> str:
    """The text, if it has a sane length; raises Stopped otherwise."""
    if len(text) > MAX_TEXT:
        raise Stopped(f"a string over {MAX_TEXT} characters")
    return text
