"""A small installed package, patchsets written as YAML, and the real engine around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patcher.cli import main
from patcher.commands.options import Settings
from patcher.commands.planning import Planner, requests
from patcher.engine.asked import request_of
from patcher.package.environment import find_environment
from patcher.plan import GroupPlan, Plan
from patcher.session import reading, writing
from patcher.state import find_home
from patcher.transaction import NoCaches

GUARD = "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)\n"
OPEN = "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)\n"
FILES = {
    "mini/__init__.py": "",
    "mini/jit.py": "def gen():\n    return build(supported_major_versions=[9, 10])\n",
    "mini/kernel.cuh": f"__global__ void body() {{\n{GUARD}  work();\n#endif\n}}\n",
    "mini/unit.cu": '#include "kernel.cuh"\nvoid launch(int n) { stride(n); }\n',
    "mini-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mini\nVersion: 1.0\n",
    "mini-1.0.dist-info/RECORD": "mini/__init__.py,,\nmini-1.0.dist-info/RECORD,,\n",
}
PATCHSET = """\
sm-patch: 1
name: mini-sm120
package: mini
archs: [sm_120a]
groups:
  - id: main
    versions: "<2"
    fixed-in: "2"
    patches:
      - id: gate
        python-gate: {file: mini/jit.py, within: gen, gate: supported_major_versions,
                      open: ["12.0", "12.1"]}
      - id: guard
        cuda-guard:
          file: mini/kernel.cuh
          condition: defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
          open: ["12.0", "12.1"]
      - id: stride
        affects: all
        reason: every architecture reads it so
        text: {file: mini/unit.cu, find: stride(n), replace: stride(8)}
"""


@dataclass(frozen=True)
class Site:
    """A folder that stands for site-packages."""

    root: Path

    @classmethod
    def make(cls, root: Path, version: str = "1.0", **changed: str) -> Site:
        """``changed`` replaces files: ``jit`` is mini/jit.py, ``kernel`` mini/kernel.cuh."""
        names = {"jit": "mini/jit.py", "kernel": "mini/kernel.cuh", "unit": "mini/unit.cu"}
        files = {**FILES, **{names[key]: text for key, text in changed.items()}}
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        site = cls(root)
        site.label(version)
        return site

    def label(self, version: str) -> None:
        """What the metadata says."""
        (self.root / "mini-1.0.dist-info/METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mini\nVersion: {version}\n")

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)

    def patchset(self, text: str = PATCHSET, name: str = "mini-sm120") -> str:
        path = self.root.parent / f"{name}.yaml"
        path.write_text(text.replace("name: mini-sm120", f"name: {name}"))
        return str(path)

    def planner(self) -> Planner:
        # a named release without headers: the small package needs none, and walks are short
        settings = Settings(root=str(self.root), arch=("sm_120a",), cuda="12.8")
        environment = find_environment(None, str(self.root))
        home = find_home(prefix=None, root=self.root, state=None)
        return Planner(settings, environment, reading(home).view)

    def plan(self, *names: str, groups: tuple[str, ...] = ()) -> Plan:
        return self.planner().plan(requests(names or (self.patchset(),), groups))

    def group(self, *names: str) -> GroupPlan:
        """The one group of the one patchset."""
        (patchset,) = self.plan(*names).patchsets
        (group,) = patchset.groups
        return group

    def apply(self, *names: str) -> None:
        """Carry the plan out with the real engine."""
        planner = self.planner()
        plan = planner.plan(requests(names or (self.patchset(),), ()))
        assert not plan.refused, plan.refused
        home = find_home(prefix=None, root=self.root, state=None)
        with writing(home, NoCaches()) as session:
            request = request_of(plan, lambda name: session.view(planner(name).package), {})
            staged = session.stage(request, planner.targets)
            assert not staged.refusals
            session.commit(staged, NoCaches())

    def run(self, *arguments: str, arch: str = "sm_120a") -> int:
        """The command line, on this folder."""
        return main([*arguments, "--root", str(self.root), "--arch", arch, "--cuda", "12.8"])
