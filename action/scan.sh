#!/usr/bin/env bash
# The work of action.yml: a SARIF file, a summary, perhaps a page, then the verdict.
# The first scan is remembered, so that the others only write what it found.
set -euo pipefail

read -r -a packages <<< "$PACKAGES"
options=(--arch "$ARCH")
[ -z "$ROOT" ] || options+=(--root "$ROOT")
[ -z "$BASELINE" ] || options+=(--baseline "$BASELINE")

sm-patch scan "${options[@]}" --format sarif -o "$SARIF" -- "${packages[@]}"
sm-patch scan "${options[@]}" --format markdown -- "${packages[@]}" >> "$GITHUB_STEP_SUMMARY"
[ -z "$HTML" ] || sm-patch scan "${options[@]}" --format html -o "$HTML" -- "${packages[@]}"
{
  printf 'sarif=%s\n' "${SARIF//[$'\r\n']/}"
  printf 'findings=%s\n' "$(python -c 'import json, sys
print(len(json.load(open(sys.argv[1], encoding="utf-8"))["runs"][0]["results"]))' "$SARIF")"
} >> "$GITHUB_OUTPUT"
[ -z "$FAIL_ON" ] || options+=(--fail-on "$FAIL_ON")
sm-patch scan "${options[@]}" -- "${packages[@]}"
