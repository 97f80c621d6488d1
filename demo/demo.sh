#!/usr/bin/env bash
# The tour of README.md: two real FlashInfer releases, fetched by hash, patched in a folder of
# this checkout. Nothing outside .demo is written. Offline it falls back to the miniature
# package in corpus/mini; under CI that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n%s\n' "$*"; }
run() { printf '\n$ %s\n' "$*"; "$@"; }

rm -rf .demo
mkdir -p .demo
say "Fetching flashinfer-python 0.6.3 and 0.7.4 (no dependencies; nothing of them is run)"
if python corpus/fetch.py flashinfer-python==0.6.3 flashinfer-python==0.7.4; then
  pristine=corpus/unpacked/flashinfer_python-
elif [ -n "${CI:-}" ]; then
  echo "demo: the real wheels could not be fetched, and CI accepts no stand-in" >&2
  exit 1
else
  say "Offline: going on with the miniature package of corpus/mini"
  pristine=corpus/mini/
fi
for version in 0.6.3 0.7.4; do
  cp -r "$pristine$version" ".demo/$version"
done

run sm-patch scan flashinfer --root .demo/0.6.3 --arch 5090
run sm-patch why flashinfer:trtllm_comm --root .demo/0.6.3 --arch 5090
run sm-patch diff flashinfer-sm120 --group trtllm-comm --root .demo/0.6.3 --arch 5090
run sm-patch apply flashinfer-sm120 --group trtllm-comm --root .demo/0.6.3 --arch 5090
run sm-patch status --root .demo/0.6.3
run sm-patch apply flashinfer-sm120 --group trtllm-comm --root .demo/0.6.3 --arch 5090
run sm-patch revert flashinfer-sm120 --root .demo/0.6.3
say "The files are as the wheel brought them:"
run diff -r "${pristine}0.6.3" .demo/0.6.3
run sm-patch scan flashinfer --root .demo/0.7.4 --arch 5090
rm -rf .demo
