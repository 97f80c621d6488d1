"""Where SGLang and vLLM decide about devices, release by release, and for whom each is true.

Read by eye in the releases, from the definitions of the names in the conditions; nothing here is
what sm-patch says.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from tests.patchsets.reading import DEVICES, conditions, in_c, true_for

EVERY = {f"{major}.{minor}" for major, minor in DEVICES}
TWELVE, SPARK = {"12.0", "12.1"}, {"12.1"}
LAYERS = "sglang/srt/layers"
COMM = f"{LAYERS}/communicator.py"
NORM = f"{LAYERS}/layer_boundary/residual/add_norm.py"
FUSION = f"{LAYERS}/flashinfer_comm_fusion.py"
ARGS = "sglang/srt/server_args.py"
OVERRIDES = "sglang/srt/arg_groups/overrides.py"
DEEPGEMM = f"{LAYERS}/deep_gemm_wrapper/configurer.py"
QUANT = f"{LAYERS}/quantization/deep_gemm_wrapper/configurer.py"
MARLIN = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"


@dataclass(frozen=True)
class Place:
    """A condition of some releases: for whom it is true, and for whom it changes."""

    group: str
    versions: str
    path: str
    function: str
    mention: tuple[str, ...]
    true: frozenset[str]
    turns: frozenset[str]

    def read(self, text: Callable[[str], str]) -> set[str]:
        """The devices for which the condition is true in the file that ``text`` gives."""
        source = text(self.path)
        found = in_c(source, self.mention[0]) if self.path.endswith(".cu") \
            else conditions(source, self.function, *self.mention)
        (one,) = {ast.unparse(each): each for each in found}.values()
        return true_for(one)


def place(group: str, versions: str, path: str, where: str, true: str,
           turns: set[str] = TWELVE) -> Place:
    """``where`` is a function, then words of the condition; a ``not`` in ``true`` complements."""
    function, *mention = where.split(" | ")
    devices = set(true.removeprefix("not ").split())
    return Place(group, versions, path, function, tuple(mention), frozenset(
        EVERY - devices if true.startswith("not") else devices), frozenset(turns))


OLD = "9.0 10.0 10.3"  # majors 9 and 10
RUN = "_is_sm90_supported | _is_sm100_supported"
AUTO = "nnodes == 1 | sm90"
SGLANG = [
    place("allreduce-fusion", "<0.5.8", COMM, f"_gather_hidden_states_and_residual | {RUN}", OLD),
    place("allreduce-fusion", ">=0.5.8,<0.5.21", COMM,
           f"apply_flashinfer_allreduce_fusion | {RUN}", OLD),
    place("allreduce-fusion", ">=0.5.21", NORM, f" | {RUN}", OLD),
    place("allreduce-fusion", ">=0.5.14", FUSION, "_resolve_backend | sm90 | sm100", f"not {OLD}"),
    place("allreduce-fusion-auto", ">=0.5.8,<0.5.15", ARGS,
           f"_handle_model_specific_adjustments | {AUTO} | enable_dp_attention", OLD),
    place("allreduce-fusion-auto", ">=0.5.15", OVERRIDES,
           f"_flashinfer_allreduce_fusion_auto_enable | {AUTO}", OLD),
    place("symm-mem", ">=0.5.5,<0.5.14",
           "sglang/srt/distributed/device_communicators/torch_symm_mem.py",
           "__init__ | device_capability < 9", "8.0 8.9"),
    place("deepgemm", "<0.5.4", QUANT, "_compute_enable_deep_gemm | sm_version < 90", "8.0 8.9"),
    place("deepgemm", ">=0.5.4,<0.5.13", DEEPGEMM, "_compute_enable_deep_gemm | sm_version < 90",
           "8.0 8.9"),
    place("deepgemm", ">=0.5.13,<0.5.21", DEEPGEMM, "_compute_enable_deep_gemm | 120", "12.0",
           SPARK),
    place("pdmux", ">=0.5.5", "sglang/srt/multiplex/pdmux_context.py",
           "get_arch_constraints | major == 9", "9.0"),
]
FIXED = [  # what upstream changed itself, as it would be after the group
    place("deepgemm", ">=0.5.21", DEEPGEMM, "_compute_enable_deep_gemm | 120", "12.0", SPARK),
]
OFF = [place("allreduce-fusion-off", "==0.5.7", ARGS,
              f"_handle_model_specific_adjustments | {AUTO}", f"{OLD} 12.0 12.1")]
DEFAULT = [
    place("allreduce-default", ">=0.17.0,<0.19.0", "vllm/config/vllm.py",
           "enable_allreduce_rms_fusion | is_device_capability(90)", "9.0 10.0"),
    place("allreduce-default", ">=0.19.0", "vllm/config/vllm.py",
           "enable_allreduce_rms_fusion | is_device_capability(90)", OLD),
]

HOST = " | major_capability * 10 + minor_capability == 120"
W4A8 = [
    place("marlin-w4a8", "<0.22", MARLIN, "get_marlin_input_dtype | is_device_capability(89)",
           "not 8.9 12.0", SPARK),
    *(place("marlin-w4a8", versions, f"csrc/{folder}/generate_kernels.py", " | arch | 89",
             "8.9 12.0", SPARK)
      for versions, folder in (("<0.15", "quantization/gptq_marlin"),
                               (">=0.15,<0.22", "quantization/marlin"),
                               ("<0.22", "moe/marlin_moe_wna16"))),
    *(place("marlin-w4a8", versions, f"csrc/{file}", HOST, "8.9 12.0", SPARK)
      for versions, file in (("<0.15", "quantization/gptq_marlin/gptq_marlin.cu"),
                             (">=0.15", "quantization/marlin/marlin.cu"),
                             ("<0.22", "moe/marlin_moe_wna16/ops.cu"))),
]


def fits(version: str, places: Sequence[Place]) -> list[Place]:
    return [p for p in places if SpecifierSet(p.versions).contains(version)]


def rows(source: str, name: str) -> dict[str, str]:
    """The rows of a table of the file, as they are written."""
    (table,) = (node.value for node in ast.parse(source).body
                if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
                and name in ast.unparse(node).split("=")[0].split(":")[0].split())
    return {ast.unparse(key): ast.unparse(value)
            for key, value in zip(table.keys, table.values, strict=True) if key is not None}


def sizes_file(version: str) -> str:
    """The file of vLLM that holds the two tables of sizes."""
    return "vllm/compilation/passes/fusion/allreduce_rms_fusion.py" \
        if SpecifierSet(">=0.16").contains(version) else "vllm/compilation/collective_fusion.py"
