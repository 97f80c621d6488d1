# Everything a newcomer needs: `make demo` and `make test` work on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n auto --dist loadgroup -q

.PHONY: help demo test test-slow test-real test-all corpus slices matrix trees lint docs zipapp bench clean
help:
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "sm-patch needs Python 3.10 or newer: make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV) || { echo 'no venv module: apt-get install python3-venv'; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.run  ## see it work on two real FlashInfer releases
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash demo/demo.sh

test: $(VENV)/.dev wheels  ## all tests but the slow ones
	@$(PYTEST) -m 'not slow'

test-slow: $(VENV)/.dev wheels  ## the slow ones only
	@$(PYTEST) -m slow

test-real: $(VENV)/.dev wheels  ## the slow ones on real wheels that every change should pass
	@$(PYTEST) -m 'slow and wheels' tests/patchsets/test_flashinfer_sm120.py \
		tests/scan/test_mutants.py tests/scan/test_real_wheels.py tests/engine/test_real_packages.py

test-all: $(VENV)/.dev wheels  ## every test
	@$(PYTEST)

# Without the network tests of real wheels are skipped, except under CI.
.PHONY: wheels
wheels: $(VENV)/.run
	@$(BIN)/python corpus/fetch.py > /dev/null || test -z "$$CI"

corpus: $(VENV)/.run  ## fetch the pinned real wheels, by hash
	@$(BIN)/python corpus/fetch.py

slices: $(VENV)/.dev  ## fetch what patchsets look at of every release from mid-2025 on, 1 GB
	@$(BIN)/python corpus/slices.py

matrix: $(VENV)/.dev slices  ## check every patchset on them: patchsets/matrix.json, docs/matrix.md
	@$(BIN)/python corpus/matrix.py

trees: $(VENV)/.run  ## build CUDA toolkits from real wheels: matching, skewed, incomplete
	@$(BIN)/python corpus/trees.py

lint: $(VENV)/.dev  ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: $(VENV)/.run  ## the documentation as a site in build/site; any warning is an error
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

zipapp: $(VENV)/.dev  ## dist/sm-patch.pyz: one file for Python 3.10 to 3.13, x86_64 and aarch64
	@$(BIN)/python -m uv build --quiet --wheel --out-dir build/wheel
	@$(BIN)/python fleet/zipapp/build.py build/wheel/*.whl -o dist/sm-patch.pyz

bench: $(VENV)/.dev wheels  ## measure, and write docs/benchmarks.md
	@$(BIN)/python -m bench.bench $(if $(LARGE),--large) $(if $(STACK),--stack $(STACK))

clean:  ## remove what the targets above made, but not the corpus
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache
