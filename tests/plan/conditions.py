"""Strategies for conditions as people write them around the architecture."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = ["750", "800", "890", "900", "1000", "1030", "1100", "1200", "1210"]
ATOMS = ["defined(FEATURE)", "VERSION >= 12"]

_compare = st.builds(
    lambda operator, number, swapped: f"{number} {operator} __CUDA_ARCH__" if swapped
    else f"__CUDA_ARCH__ {operator} {number}",
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.sampled_from(NUMBERS), st.booleans())
_feature = st.sampled_from([
    "defined(__CUDA_ARCH__)", "defined __CUDA_ARCH_FEAT_SM90_ALL",
    "defined(__CUDA_ARCH_FEAT_SM120_ALL)", "defined(__CUDA_ARCH_SPECIFIC__)"])
_leaf = st.one_of(_compare, _compare, _feature, st.sampled_from(ATOMS))


def _joined(operator: str, parts: list[str], space: str) -> str:
    return "(" + f"{space}{operator}{space}".join(parts) + ")"


CONDITION = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.builds(_joined, st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3),
                  st.sampled_from(["", " ", " /* and */ "])),
        inner.map(lambda text: f"!({text})"),
        inner.map(lambda text: f"({text})")),
    max_leaves=5)
ASKED = st.sampled_from([["12.0", "12.1"], ["12.0"], ["12.1"], ["8.9"], ["10.0", "12.0"], ["11.0"]])

SHAPES = {  # what a condition is made of
    "==": r"==", "!=": r"!=", "<": r"<(?!=)", "<=": r"<=", ">": r">(?!=)", ">=": r">=",
    "number first": r"\d [<>=!]+ __CUDA_ARCH__", "arch defined": r"defined\(__CUDA_ARCH__",
    "feature of one arch": r"_FEAT_", "specific": r"_SPECIFIC_", "not": r"!(?!=)|\bnot\b",
    "and": r"&&|\band\b", "or": r"\|\||\bor\b", "both": r"&&.*\|\||\|\|.*&&",
    "a free atom": r"FEATURE|VERSION",
}
