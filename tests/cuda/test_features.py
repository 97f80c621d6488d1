"""Every feature of the preprocessor, in every world, against nvcc's own preprocessor calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuda.oracle import compare

pytestmark = [pytest.mark.nvcc, pytest.mark.slow]


def ladder(*conditions: str) -> str:
    """Each condition in an #if of its own, with an #else, so that either answer shows."""
    return "".join(f"#if {c}\nint a;\n#else\nint b;\n#endif\n" for c in conditions)


ARCH = [
    "__CUDA_ARCH__", "defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200",
    "__CUDA_ARCH_FEAT_SM90_ALL", "defined __CUDA_ARCH_FEAT_SM120_ALL", "__CUDA_ARCH_SPECIFIC__",
    "__CUDA_ARCH_SPECIFIC__ == 1210", "__CUDA_ARCH_FAMILY_SPECIFIC__ == 1200",
    "defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__)",
    "__CUDA_ARCH_HAS_FEATURE__(SM120_ALL)", "__CUDA_ARCH_HAS_FEATURE__(SM90_ALL)",
    "__CUDACC_VER_MAJOR__ >= 13 && __CUDACC_VER_MINOR__ == 0", "__CUDACC_VER_BUILD__ > 20",
    "__CUDACC__ + __NVCC__ == 2", "defined(CUDA_DOUBLE_MATH_FUNCTIONS)", "CUDART_VERSION >= 13000",
    "__cplusplus == 201703L", "__GNUC__ == 12", "defined(__STRICT_ANSI__)", "defined(linux)",
    "(defined(__CUDA_ARCH__) and (__CUDA_ARCH__ >= 1000)) or defined(__X__)",
    "not defined(__CUDA_ARCH__)", "__CUDA_ARCH__ not_eq 1200", "__CUDA_ARCH__ bitand 1024",
    "compl 0 == -1", "1 xor 3", "4 bitor 1 == 5",
]
ARITHMETIC = [
    "-1 > 0u", "-1 < 0", "(2 || 0u) - 2 > 0", "-1 / 2 == 0", "-7 % 3 == -1", "1 << 63 < 0",
    "1u << 63 > 0", "-8 >> 1 == -4", "1 << -1 == 0", "8 >> -1 == 16", "~0u > 0", "!0 == 1",
    "0x7fffffffffffffff + 1 < 0", "18446744073709551615 == -1", "0b101 == 5", "017 == 15",
    "1'000'000 == 1000000", "10 ? 1 : 0", "0 ? 1 : 0", "1 ? -1 : 0u", "(1 ? -1 : 0u) > 0",
    "1 ? 2 ? 0 : 1 : 1", "0 && (1 / 0)", "1 || (1 / 0)", "1 / 0", "0 == 0 == 0", "3 > 2 > 1",
    "1 | 2 & 4 ^ 7", "2 + 3 * 4 == 14", "(2 + 3) * 4 == 20", "1 - 1 - 1 == -1", "100 / 10 / 5 == 2",
    "'a' == 97", "'\\n' == 10", "'\\x41' == 65", "'\\101' == 65", "'\\xff' < 0", "'ab' == 24930",
    "'\\'' == 39", "L'a' == 97", "u'a' == 97", "U'\\xff' > 0", "u8'a' == 97", "true", "false",
    "true + true == 2", "undefined_name", "undefined_name == 0", "class", "1.0", "1e3", "",
    "1 2", "(1", "1)", "+", "\"a\"", "defined", "defined(", "defined(X", "1 +", "0x", "09", "1lu",
    "1ull", "1z", "0xffffffffffffffffu == 18446744073709551615u", "1, 0", "0, 1",
    "1 = 1", "A->b", "1 ? 2", "!defined(X) && !X", "----1 == 1", "- - 1", "1 <=> 2", "1 / 0",
    "0 / 0", "-3 % 0", "[1]", "@",
]
MACROS = """
#define OBJECT 1
#define EMPTY
#define ID(x) x
#define PLUS(a, b) a + b
#define CAT(a, b) a##b
#define XCAT(a, b) CAT(a, b)
#define STR(x) #x
#define NONE() 1
#define VARIADIC(...) PLUS(__VA_ARGS__)
#define NAMED(rest...) PLUS(rest)
#define COUNT(...) COUNT_(0, ## __VA_ARGS__, 3, 2, 1, 0)
#define COUNT_(z, a, b, c, n, ...) n
#define OPT(...) (0 __VA_OPT__(+ 1))
#define SELF SELF + 1
#define PING PONG
#define PONG PING
#define F(x) x + G
#define G(x) x * 2
#define LPAREN (
#define IS_DEFINED defined(OBJECT)
#define IS_UNDEFINED defined(NOT_THERE)
#define HAS(x) defined(x)
#define ONE_1 7
#define f(a) a*g
#define g(a) f(a)
#define LAZY(a) a
#define PARENS ()
#define AA BB
#define BB(x) x
"""
USES = [
    "OBJECT", "EMPTY 1", "EMPTY", "ID(1)", "ID (0)", "ID(ID(1))", "ID(ID)(1)", "PLUS(1, -1)",
    "PLUS(ID(1), (2, 3))", "CAT(1, 2) == 12", "CAT(OBJ, ECT)", "XCAT(ONE_, OBJECT) == 7",
    "CAT(ONE_, OBJECT)", "CAT(, 5) == 5", "CAT(5, ) == 5", "CAT(,) 1", "NONE()", "NONE( )",
    "VARIADIC(1, 2) == 3", "NAMED(1, 2) == 3", "COUNT() == 0", "COUNT(x) == 1", "COUNT(x, y) == 2",
    "OPT()", "OPT(1)", "SELF", "SELF == 1", "PING", "F(1)(2)", "F(1)(3) == 7", "ID LPAREN 1)",
    "IS_DEFINED", "IS_UNDEFINED", "HAS(NOT_THERE)", "HAS(OBJECT)", "ID", "ID + 1", "ID(",
    "ID(1, 2)", "PLUS(1)", "NOT_THERE(1)", "STR(1)", "CAT(&, &) 1",
    "1 CAT(&, &) 1", "1 CAT(|, &) 1",
    "LAZY(f)(2)(9)", "NONE PARENS", "AA(1)", "ID(AA)(1)", "ID(EMPTY) 1", "PLUS(,1)", "PLUS(,)",
    "ID((1))", "ID(\n1)".replace("\n", "\\\n"), "CAT(__CUDA_, ARCH__) >= 900",
    "XCAT(__CUDA_ARCH, __) == 1200", "defined CAT(OB, JECT)", "defined (OBJECT)", "defined EMPTY",
    "ID(defined(OBJECT))", "ID(defined)(OBJECT)", "VARIADIC()", "COUNT_(1,2,3,4,5)", "__LINE__ > 3",
    "__INCLUDE_LEVEL__ == 0", "defined(__COUNTER__)", "defined(__FILE__)", "defined(__has_include)",
    "defined(_Pragma)", "__FILE__", "__VA_ARGS__",
]
QUESTIONS = [
    "__has_include(<vector>)", "__has_include(<no/such>)", "__has_include(\"beside.h\")",
    "__has_include(<beside.h>)", "__has_include(HEADER)", "__has_include", "__has_include()",
    "__has_include(<cuda_fp4.h>) && __CUDA_ARCH__", "__has_include_next(<vector>)",
    "__has_builtin(__builtin_expect)", "__has_builtin(__builtin_nothing)",
    "__has_builtin(__builtin_ia32_addcarryx_u64)", "__has_builtin(BUILTIN)",
    "__has_cpp_attribute(nodiscard) >= 201603", "__has_cpp_attribute(gnu::packed)",
    "__has_cpp_attribute(clang::lifetimebound)", "__has_attribute(__noinline__)",
    "__has_attribute(visibility)", "__has_cpp_attribute(likely) == 201803", "__has_feature(x)",
    "defined(__has_feature) && __has_feature(x)", "__has_attribute(device)",
]
LEXING = r"""
/* a */ # /* b */ if /* c */ 1 // d
int a1;
#endif
#\
if 1 \
  && /* more
lines */ 0
int a2;
#el\
se
int a3;
#endif /* over
two lines */
const char *s = "/*"; // "
#if 1
int a4; char q = '"'; int sep = 1'000;
#endif
const char *r = R"x(
#if 0
)" )x";
#ifdef __CUDA_ARCH__ /* the device */
int a5;
%:else // digraph
int a6;
%:endif
#if 0
 it's "unbalanced /* here
 #if 1
 #else
 #endif
#endif
int a7;
// a comment that goes on \
#if 0
int a8;
/*
#if 0
*/
#define MULTI(x) \
  x \
  + 1
#if MULTI(1) == 2
int a9;
#endif
#ifdef
int b1;
#else
int b2;
#endif
#ifndef
int b3;
#endif
#if 1
int b4;
#elif garbage ( 1
int b5;
#else
int b6;
#endif extra tokens
#error don't stop here /* or there */
#if 0
#error never
#elif 1
int b7;
#endif
#undef MULTI
#ifdef MULTI
int b8;
#endif
# if 1 // indented
#	ifdef __CUDACC__
int b9;
#	endif
# endif
"""


def test_architectures(tmp_path: Path) -> None:
    assert compare({"unit.cu": ladder(*ARCH)}, tmp_path) == []


def test_arithmetic(tmp_path: Path) -> None:
    assert compare({"unit.cu": ladder(*ARITHMETIC)}, tmp_path, worlds=["host", "sm_120a"]) == []


def test_macros(tmp_path: Path) -> None:
    worlds = ["host", "sm_90a", "sm_120f"]
    assert compare({"unit.cu": MACROS + ladder(*USES)}, tmp_path, worlds=worlds) == []


def test_questions(tmp_path: Path) -> None:
    source = "#define HEADER <array>\n#define BUILTIN __builtin_expect\n" + ladder(*QUESTIONS)
    files = {"unit.cu": source, "beside.h": "\n"}
    assert compare(files, tmp_path, worlds=["host", "sm_121a"]) == []


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lexing(tmp_path: Path, ending: str) -> None:
    source = LEXING.replace("\n", ending)
    assert compare({"unit.cu": source}, tmp_path, worlds=["host", "sm_120"]) == []


@pytest.mark.parametrize("std", ["c++14", "c++17", "c++20"])
def test_standards(tmp_path: Path, std: str) -> None:
    source = ladder("__cplusplus > 201703L", "defined(__cpp_concepts)", "__cpp_constexpr >= 201603",
                    "defined(__cpp_lib_span)", "__has_cpp_attribute(nodiscard) == 201907")
    source += "#ifdef A\nint a;\n#elifdef __CUDA_ARCH__\nint b;\n#elifndef A\nint c;\n#endif\n"
    assert compare({"unit.cu": source}, tmp_path, worlds=["host", "sm_90a"], std=std) == []


@pytest.mark.parametrize("text", ["#x", "!#x", "#x + 1", "!#x(a b)", "compl !!#x", "!#x(", "!#x()",
                                  "!#1", "!#"])
def test_an_assertion_that_nobody_made_is_zero(tmp_path: Path, text: str) -> None:
    unit = f"#define C {text}\n#if C\nint a;\n#else\nint b;\n#endif\n"
    assert compare({"unit.cu": unit}, tmp_path, worlds=["sm_80"]) == []
