"""What ``import patcher`` offers: scan, plan, apply and verify as functions.

They take what the command line takes, raise ``patcher.errors.PatcherError`` and its kin
where it would exit with 2 or 3, and print nothing: ``talk`` hears what the command line
says on stderr (which environment, what was assumed, warnings).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from patcher.commands.applying import Application, Applied, Options, chosen
from patcher.commands.options import Settings
from patcher.commands.planning import Planned, planned
from patcher.commands.proving import Proof, proved
from patcher.commands.scanning import Scanned, scanned

__all__ = ["Applied", "Planned", "Proof", "Scanned", "apply", "plan", "scan", "verify"]

Names = str | Sequence[str]
Talk = Callable[[str], None]
REFERENCES = ("sm_90a", "sm_100a")


def scan(*packages: str, arch: Names = "auto", reference: Names = REFERENCES,
         cuda: str | None = None, root: str | None = None, python: str | None = None,
         layers: Names = (), modules: Names = (), units: Names = (),
         talk: Talk | None = None) -> Scanned:
    """Find the gates that exclude a target from packages, or let it in too far.

    ``packages``: import or distribution names, folders, wheels. ``arch``: a device, a
    capability or targets. ``root`` stands for site-packages; ``python`` names an interpreter
    or a venv. ``layers``, ``modules`` and ``units`` narrow the scan.

    Raises PackageNotFound, InputError for unreadable files, UsageError for unknown targets.
    """
    from patcher.gates import Layer
    from patcher.scan import model

    options = model.Options(frozenset(map(Layer, _names(layers))), _names(modules), _names(units))
    return scanned(Settings(_names(arch), _names(reference), cuda, root, python,
                            talk=talk or _silent), packages, options)


def plan(*patchsets: str, groups: Names = (), arch: Names = "auto", cuda: str | None = None,
         root: str | None = None, python: str | None = None, state: str | None = None,
         talk: Talk | None = None) -> Planned:
    """What applying patchsets would do: outcomes and a diff that git takes. Writes nothing.

    ``patchsets``: names of shipped ones, or paths. Without ``groups`` those that are taken
    by default.

    Raises PackageNotFound, SchemaError for a wrong document, UsageError for an unknown group.
    """
    return planned(Settings(_names(arch), REFERENCES, cuda, root, python, _names(groups),
                            state=state, talk=talk or _silent), patchsets)


def apply(*patchsets: str, groups: Names = (), arch: Names = "auto", cuda: str | None = None,
          root: str | None = None, python: str | None = None, state: str | None = None,
          check: bool = False, keep_going: bool = False, require_clean: bool = False,
          aot: str | None = None, no_cache: bool = False, force: bool = False,
          lock_timeout: float = 30.0, talk: Talk | None = None) -> Applied:
    """Write patchsets, in full or not at all, and drop the builds they made stale.

    With ``check`` nothing is written. When a group cannot go through, nothing is written
    either (unless ``keep_going``) and ``plan.refused`` of the result names it.

    Raises Refused and its kin: Conflict, a lock that is held, an unsafe target.
    """
    settings = Settings(_names(arch), REFERENCES, cuda, root, python, _names(groups),
                        state=state, talk=talk or _silent)
    options = Options(check, keep_going, require_clean, aot, no_cache, force,
                      lock_timeout=lock_timeout)
    wanted = chosen(settings, patchsets, every=False, from_lock=None)
    return Application(settings, options, wanted).run()


def verify(*names: str, groups: Names = (), effort: str = "quick", units: Names = (),
           arch: Names = "auto", reference: Names = REFERENCES, cuda: str | None = None,
           root: str | None = None, python: str | None = None, state: str | None = None,
           jobs: int = 1, talk: Talk | None = None) -> Proof:
    """Compile what patchsets change, before and after, and say whether the kernels are real.

    ``names``: patchsets, or ``PACKAGE:MODULE`` for modules as they are on the disk.
    ``effort``: ``quick`` or ``full``. Needs nvcc, not a GPU.

    Raises ToolFailed without an nvcc that knows the targets, Refused for what would not be
    applied.
    """
    settings = Settings(_names(arch), _names(reference), cuda, root, python, _names(groups),
                        jobs=jobs, state=state, talk=talk or _silent)
    return proved(settings, names, effort=effort, units=_names(units))


def _names(value: Names) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _silent(text: str) -> None:
    """Nobody listens."""
