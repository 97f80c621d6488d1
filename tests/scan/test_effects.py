"""What lies behind an arm. Each source marks its lines by hand: R is compiled for the
reference only, T for the target only, - for neither; all others for both."""

from __future__ import annotations

import pytest

from patcher.cuda.effects.classify import Extent, Source, effect_of
from patcher.gates import Effect


def classify(text: str) -> tuple[Effect, str]:
    """The effect of the first arm, and the function it is in."""
    body, reference, target = [], bytearray(b"\1"), bytearray(b"\1")
    for line in text.strip("\n").split("\n"):
        code, _, mark = line.partition("//")
        body.append(code)
        reference.append(mark.strip() not in ("T", "-"))
        target.append(mark.strip() not in ("R", "-"))
    directives = [n for n, code in enumerate(body, 1)
                  if code.lstrip().startswith(("#if", "#else", "#endif"))]
    reference.append(1)
    target.append(1)
    first, last = directives[0], directives[-1]
    extent = Extent(first, directives[1], first, last)
    source = Source("\n".join(body).encode())
    found = effect_of(source, extent, bytes(reference), bytes(target))
    return found.effect, found.within


CASES = {
    "a kernel whose whole body goes": (
        """
template <int N = (1 > 0), typename T = Box<int>>
__global__ void __launch_bounds__(256) norm(T p) {
#if A
  int x = p[0];    // R
  write(p, x);     // R
#endif
}
""",
        Effect.KERNEL_BODY,
        "norm",
    ),
    "a kernel that keeps only declarations, static_assert and return": (
        """
__global__ void norm(float* p) {
  static_assert(sizeof(p) == 8);
  namespace cg = cooperative_groups;
  auto block = cg::this_thread_block();
  if (threadIdx.x > 3) return;
#if A
  p[0] = 1;    // R
#else
  return;      // T
#endif
}
""",
        Effect.KERNEL_BODY,
        "norm",
    ),
    "a kernel that keeps a statement": (
        """
__global__ void norm(float* p) {
#if A
  p[0] = 1;    // R
#endif
  p[1] = 1;
}
""",
        Effect.FEATURE,
        "norm",
    ),
    "programmatic launch": (
        """
__global__ void norm(float* p) {
#if A
  cudaGridDependencySynchronize();   // R
#endif
  p[1] = 1;
}
""",
        Effect.SYNC,
        "norm",
    ),
    "sync in assembler, and with a namespace": (
        """
__device__ void wait(float* p) {
#if A
  asm volatile("griddepcontrol.wait;\\n" ::: "memory");   // R
  ::cutlass::arch::launch_dependent_grids();             // R
  cg::this_cluster().sync();                             // R
#endif
  p[1] = 1;
}
""",
        Effect.SYNC,
        "wait",
    ),
    "sync beside something else is not sync": (
        """
__global__ void norm(float* p) {
#if A
  cudaGridDependencySynchronize();   // R
  p[2] = 1;                          // R
#endif
  p[1] = 1;
}
""",
        Effect.FEATURE,
        "norm",
    ),
    "assembler with an operand is not sync": (
        """
__global__ void norm(float* p) {
#if A
  asm volatile("fence.proxy.async; ld.global.b32 %0, [%1];" : "=r"(x) : "l"(p));   // R
#endif
  p[1] = 1;
}
""",
        Effect.FEATURE,
        "norm",
    ),
    "an unknown token is never sync": (
        """
__global__ void norm(float* p) {
#if A
  @ __syncthreads();   // R
#endif
  p[1] = 1;
}
""",
        Effect.FEATURE,
        "norm",
    ),
    "an unbalanced brace is never sync": (
        """
__global__ void norm(float* p) {
#if A
  if (p) {               // R
  __syncthreads();       // R
#else
  {                      // T
#endif
  p[1] = 1;
  }
}
""",
        Effect.ALTERNATIVE,
        "norm",
    ),
    "the target gets a trap": (
        """
struct enable_only : Kernel {
  template <typename... Args>
  __device__ void operator()(Args&&... args) {
#if A
    Kernel::operator()(std::forward<Args>(args)...);   // R
#else
    asm("trap;");                                      // T
#endif
  }
};
""",
        Effect.TRAP,
        "enable_only::operator()",
    ),
    "the target gets an assertion after a message": (
        """
__device__ void mma(float* d) {
#if A
  asm volatile("wgmma.fence;" ::"l"(d));   // R
#else
  printf("not here");                      // T
  (void)d;                                 // T
  assert(0);                               // T
#endif
}
""",
        Effect.TRAP,
        "mma",
    ),
    "the target gets an error": (
        """
#if A
constexpr int size = 1;   // R
#else
#error "no size"          // T
#endif
""",
        Effect.ERROR,
        "",
    ),
    "a device function whose body goes": (
        """
__device__ float f(float x) {
  float r;
#if A
  asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));   // R
#endif
  return r;
}
""",
        Effect.FUNCTION_BODY,
        "f",
    ),
    "a device function with a body of its own for the target": (
        """
__device__ float f(float x) {
#if A
  return fast(x);   // R
#else
  return slow(x);   // T
#endif
}
""",
        Effect.ALTERNATIVE,
        "f",
    ),
    "a definition that the target lacks": (
        """
namespace a {
#if A
struct Big { int x; };   // R
#endif
}
""",
        Effect.DEFINITION,
        "",
    ),
    "a macro that the target lacks": (
        """
#if A
#define HAS_IT 1   // R
#endif
""",
        Effect.DEFINITION,
        "",
    ),
    "the same names with other values": (
        """
#if A
constexpr int size = 128;   // R
#else
constexpr int size = 64;    // T
#endif
""",
        Effect.ALTERNATIVE,
        "",
    ),
    "a kernel of the same name in a comment or a string does not count": (
        """
/* __global__ void norm() { */
const char* text = "__global__ void norm() {";
__device__ void helper(float* p) {
#if A
  p[0] = f(1);    // R
#endif
  p[1] = 2;
}
""",
        Effect.FEATURE,
        "helper",
    ),
    "braces in arms that the reference skips do not count": (
        """
__global__ void norm(float* p) {
#pragma unroll
  if (p) {     // -
#if A
  p[0] = 1;    // R
#endif
}
""",
        Effect.KERNEL_BODY,
        "norm",
    ),
    "a file whose braces do not match": (
        """
__global__ void norm(float* p) {
#if A
  p[0] = 1;    // R
#endif
  p[1] = 2;
""",
        Effect.UNKNOWN,
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_ordered_definition(name: str) -> None:
    text, effect, within = CASES[name]
    assert classify(text) == (effect, within)
