"""Faults sown into the engine, one at a time: each must make a test fail.

Run as a program: ``python -m tests.engine.faults [WORD]`` sows all of them, or
those with the word in their name, into a copy of the sources. The tests named
beside a fault pass without it and fail with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str  # stands there exactly once
    new: str
    tests: tuple[str, ...]


E = "tests/engine/"
FAULTS = (
    Fault("writes through a hard link", "patcher/apply.py", "            os.replace(beside, place)",
          "            place.write_bytes(beside.read_bytes()); os.unlink(beside)",
          (E + "test_standings.py::test_hard_links_are_never_written_through",)),
    Fault("keeps the old time", "patcher/apply.py",
          "                os.utime(beside)", "                os.utime(beside, (1, 1))",
          (E + "test_transactions.py::test_times_are_now_and_modes_stay_on_apply_and_revert",)),
    Fault("leaves compiled copies", "patcher/apply.py",
          "            with suppress(FileNotFoundError):\n                os.unlink(compiled)",
          "            pass",
          (E + "test_transactions.py::test_compiled_copies_of_every_tag_go",)),
    Fault("does not look again before it writes", "patcher/apply.py",
          "if not step.drops_folder and not is_now(place, step.before):", "if False:",
          (E + "test_failures.py::test_a_file_that_changes_between_plan_and_write_stops_all",)),
    Fault("touches what is neither old nor new", "patcher/apply.py",
          "                foreign.append(step)", "                self._change(step, place)",
          (E + "test_failures.py::test_a_file_that_changes_between_plan_and_write_stops_all",)),
    Fault("forgets the mode", "patcher/apply.py",
          "    os.fchmod(handle, mode)", "    os.fchmod(handle, 0o600)",
          (E + "test_transactions.py::test_times_are_now_and_modes_stay_on_apply_and_revert",)),
    Fault("commits first", "patcher/transaction.py",
          "            writer.carry_out(staged.steps, begun)\n            home.commit()",
          "            home.commit()\n            writer.carry_out(staged.steps, begun)",
          (E + "test_failures.py::test_an_immutable_file_rolls_back_what_was_written",)),
    Fault("does not roll back", "patcher/transaction.py",
          "            _roll_back(home, before, writer, staged.steps, begun)",
          "            home.forget_intent()",
          (E + "test_failures.py::test_an_immutable_file_rolls_back_what_was_written",
           E + "test_crashes.py::test_a_kill_anywhere_leaves_all_old_or_all_new")),
    Fault("recovers forward always", "patcher/transaction.py",
          "record, forward = home.intent(), False", "record, forward = home.intent(), True",
          (E + "test_crashes.py::test_a_kill_anywhere_leaves_all_old_or_all_new",)),
    Fault("skips the caches after the commit", "patcher/transaction.py",
          "            caches.execute(actions)\n            _finish",
          "            _finish",
          (E + "test_crashes.py::test_a_kill_anywhere_leaves_all_old_or_all_new",)),
    Fault("takes no lock", "patcher/locks.py",
          "        while not _acquired(lock, path):\n            lock.release()", "        pass",
          (E + "test_failures.py::test_a_held_lock_is_refused_before_any_write",)),
    Fault("trusts a home that others may write", "patcher/state.py",
          "info.st_mode & 0o022", "info.st_mode & 0",
          (E + "test_failures.py::test_a_home_that_others_may_write_is_refused",)),
    Fault("does not verify originals", "patcher/state.py",
          "if hashlib.sha256(data).hexdigest() != sha256:", "if False:",
          (E + "test_standings.py::test_a_damaged_original_is_never_written",)),
    Fault("follows a link out of the root", "patcher/engine/target.py",
          "    if not real.startswith(home.rstrip(\"/\") + \"/\"):", "    if False:",
          (E + "test_standings.py::test_links_out_of_the_root_are_refused",)),
    Fault("replaces a file by a new one", "patcher/engine/merge.py",
          "            if shape.kind is not Kind.ABSENT:", "            if False:",
          (E + "test_transactions.py::test_a_new_file_never_replaces_one",)),
    Fault("does not compare with the plan", "patcher/engine/merge.py",
          "if data is not None and self.expected not in (None, sha256(data)):", "if False:",
          (E + "test_failures.py::test_a_plan_for_other_bytes_is_refused",)),
    Fault("drops foreign edits", "patcher/engine/merge.py",
          "new = transplant(found.expected, found.data, steps)",
          "new = transplant(found.expected, found.expected, steps)",
          (E + "test_standings.py::test_a_foreign_edit_elsewhere_is_kept_and_told",)),
    Fault("does not see drift", "patcher/engine/inspect.py",
          "    if not hit:\n        return found(Standing.FOREIGN)",
          "    return found(Standing.FOREIGN)",
          (E + "test_standings.py::test_a_foreign_edit_in_our_span_is_drift_and_shown",)),
    Fault("closes a neighbour, too", "patcher/operations/opening.py",
          "        return Table(self.atoms, tuple(row & ~asked.bits for row in self.rows))",
          "        return Table(self.atoms, tuple(row & ~(asked.bits | asked.bits >> 1)\n"
          "                                       for row in self.rows))",
          ("tests/plan/test_opening_laws.py::test_closing_closes_the_asked_worlds_and_no_other",)),
    Fault("adds a flag that is there", "patcher/operations/flag.py",
          "if operation.flag not in site.present]", "]",
          ("tests/operations/test_cmake.py",)),
)


def sown(fault: Fault) -> str:
    """What became of it: "" when its tests caught it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for folder in ("patcher", "tests", "corpus/golden", "patchsets"):
            shutil.copytree(ROOT / folder, place / folder,
                            ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        if _tests(place, fault):
            return "its tests fail without it"
        source = place / fault.file
        text = source.read_text("utf-8")
        if text.count(fault.old) != 1:
            return f"its place stands {text.count(fault.old)} times in {fault.file}"
        source.write_text(text.replace(fault.old, fault.new), "utf-8")
        return "" if _tests(place, fault) else "NOT CAUGHT"


def _tests(place: Path, fault: Fault) -> bool:
    """True when a test fails; one that is skipped proves nothing."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider",
         "-m", "not slow", *fault.tests],
        cwd=place, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert run.returncode in (0, 1), run.stdout + run.stderr
    assert " passed" in run.stdout or " failed" in run.stdout, f"{fault.name}: {run.stdout}"
    return run.returncode == 1


def main(word: str = "") -> int:
    missed = 0
    for fault in FAULTS:
        if word in fault.name:
            outcome = sown(fault)
            missed += bool(outcome)
            print(f"{fault.name}: {outcome or 'caught'}", flush=True)
    print(f"{missed} of {len(FAULTS)} not caught")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
