"""Ansible module: the patchsets of one environment, applied or reverted through ``sm-patch``."""

from __future__ import annotations

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: sm_patchset
short_description: Apply or revert sm-patch patchsets
description:
  - Runs C(sm-patch) on the host. One task is one transaction, over all packages it touches.
  - In check mode nothing is written, and the diff is the one that would be written.
options:
  patchsets:
    description: Names of shipped patchsets, or paths on the host. Not with O(lock).
    type: list
    elements: str
    default: []
  lock:
    description: A lock file on the host, written by C(sm-patch apply --write-lock).
    type: path
  groups:
    description: Only these groups; default are those that the patchset takes by itself.
    type: list
    elements: str
    default: []
  state:
    description: Whether the patchsets shall be there.
    choices: [applied, reverted]
    default: applied
    type: str
  arch:
    description: Devices, capabilities or targets, such as V(5090) or V(12.1).
    type: list
    elements: str
    default: []
  root:
    description: A folder to work on in place of site-packages.
    type: path
  python:
    description: The interpreter or the venv whose packages are meant.
    type: path
  state_dir:
    description: Where journals and originals are kept, if not beside the environment.
    type: path
  env_from:
    description: The server whose HOME and cache variables count, such as V(unit:sglang.service).
    type: str
  require_clean:
    description: Refuse files that somebody else has edited.
    type: bool
    default: false
  executable:
    description: The command, and what goes before its arguments.
    type: list
    elements: str
    default: [sm-patch]
attributes:
  check_mode: {support: full}
  diff_mode: {support: full}
author: [sm-patch maintainers]
"""

EXAMPLES = r"""
- name: Open the all-reduce kernels
  smpatch.core.sm_patchset:
    patchsets: [flashinfer-sm120]
    python: /opt/venv
    arch: ["12.0"]

- name: The same from one file, and what another machine has locked
  smpatch.core.sm_patchset:
    executable: [python3, /opt/sm-patch.pyz]
    lock: /etc/sm-patch.lock
    python: /opt/venv
"""

RETURN = r"""
digests:
  description: By package, the digest of what is patched afterwards; in check mode, would be.
  type: dict
  returned: success
packages:
  description: Name, version, root, digest_before and digest_after of each package.
  type: list
  returned: success
outcomes:
  description: By patchset and group, what became of it.
  type: dict
  returned: success
restart:
  description: Processes that still run what was there before.
  type: list
  returned: success
"""

DONE, WOULD_CHANGE = 0, 1
FROM_PARAMETERS = {"arch": "--arch", "groups": "--group"}
ONE_VALUE = {"root": "--root", "python": "--python", "state_dir": "--state",
             "env_from": "--env-from"}


def command(parameters: dict[str, Any], check: bool) -> list[str]:
    """The command line for the parameters of a task."""
    applying = parameters["state"] == "applied"
    words = [*parameters["executable"], "apply" if applying else "revert"]
    words += parameters["patchsets"]
    if applying and parameters["lock"]:
        words += ["--from-lock", parameters["lock"]]
    if not applying and not parameters["patchsets"]:
        words.append("--all")
    for name, option in FROM_PARAMETERS.items():
        if name == "arch" and not applying:
            continue  # a revert needs no target: the journal knows what was done
        for value in parameters[name]:
            words += [option, value]
    for name, option in ONE_VALUE.items():
        if parameters[name]:
            words += [option, parameters[name]]
    words += ["--require-clean"] * parameters["require_clean"]
    return [*words, *["--check"] * check, "--format", "json"]


def result(report: dict[str, Any], with_diff: bool) -> dict[str, Any]:
    """What the task returns for the JSON that sm-patch printed."""
    packages = report["packages"]
    answer = {
        "changed": report["changed"],
        "packages": packages,
        "digests": {package["name"]: package["digest_after"] for package in packages},
        "outcomes": {f"{patchset['name']}/{group['id']}": group["outcome"]
                     for patchset in report["patchsets"] for group in patchset["groups"]},
        "restart": report["restart"],
    }
    if with_diff:
        answer["diff"] = {"prepared": report["diff"]}
    return answer


def main() -> None:
    """Run one task."""
    text = {"type": "str"}
    path = {"type": "path"}
    many = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "patchsets": many, "groups": many, "arch": many,
            "lock": path, "root": path, "python": path, "state_dir": path, "env_from": text,
            "state": {"type": "str", "choices": ["applied", "reverted"], "default": "applied"},
            "require_clean": {"type": "bool", "default": False},
            "executable": {"type": "list", "elements": "str", "default": ["sm-patch"]},
        },
        mutually_exclusive=[("patchsets", "lock")],
        supports_check_mode=True,
    )
    if module.params["state"] == "applied" and not (
            module.params["patchsets"] or module.params["lock"]):
        module.fail_json(msg="say what to apply: patchsets or lock")
    words = command(module.params, module.check_mode)
    code, out, err = module.run_command(words)
    for line in err.splitlines():
        if line.startswith("warning: "):
            module.warn(line.removeprefix("warning: "))
    if code not in ((DONE, WOULD_CHANGE) if module.check_mode else (DONE,)):
        reason = next(iter(err.strip().splitlines()), "") or f"exit code {code}"
        module.fail_json(msg=reason, rc=code, stderr=err, cmd=words)
    module.exit_json(**result(json.loads(out), module._diff))


if __name__ == "__main__":
    main()
