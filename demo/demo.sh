#!/usr/bin/env bash
# The tour of README.md: two real FlashInfer releases, fetched by hash, patched in a folder of
# this checkout. Nothing outside .demo is written. Offline it falls back to the miniature
# package in corpus/mini; under CI that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n%s\n' "$*"; }
# One stream, so that what a command says and what it prints stand in the order of events.
run() { printf '\n$ %s\n' "$*"; "$@" 2>&1; }

rm -rf .demo
mkdir -p .demo
say "Fetching by hash, without dependencies (nothing of it is run): two releases of FlashInfer,
and apache-tvm-ffi, whose headers they include"
if python corpus/fetch.py flashinfer-python==0.6.3 flashinfer-python==0.7.4 \
  apache-tvm-ffi==0.1.15.post2; then
  pristine=corpus/unpacked/flashinfer_python-
  headers=corpus/unpacked/apache_tvm_ffi-0.1.15.post2/.
elif [ -n "${CI:-}" ]; then
  echo "demo: the real wheels could not be fetched, and CI accepts no stand-in" >&2
  exit 1
else
  say "Offline: going on with the miniature package of corpus/mini"
  pristine=corpus/mini/
  headers=
fi
for version in 0.6.3 0.7.4; do
  cp -r "$pristine$version" ".demo/$version"
  if [ -n "$headers" ]; then cp -r "$headers" ".demo/$version"; fi
done

run sm-patch scan flashinfer --root .demo/0.6.3 --arch 5090
run sm-patch why flashinfer:trtllm_comm --root .demo/0.6.3 --arch 5090
run sm-patch diff flashinfer-sm120 --group trtllm-comm --root .demo/0.6.3 --arch 5090
run sm-patch apply flashinfer-sm120 --group trtllm-comm --root .demo/0.6.3 --arch 5090
run sm-patch status --root .demo/0.6.3
run sm-patch apply flashinfer-sm120 --group trtllm-comm --root .demo/0.6.3 --arch 5090
run sm-patch revert flashinfer-sm120 --root .demo/0.6.3
say "The files are as the wheel brought them:"
run diff -r "${pristine}0.6.3/flashinfer" .demo/0.6.3/flashinfer
run sm-patch scan flashinfer --root .demo/0.7.4 --arch 5090
rm -rf .demo
