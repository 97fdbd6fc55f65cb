# One environment (.venv), made from requirements/dev.lock. Every path is relative, so the checkout may lie anywhere.
# Change the interpreter with `make setup PYTHON=python3.12`; pass options with `make test PYTEST_ARGS="-k errors"`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=
FUZZ_INPUTS ?= 1000000

BIN := .venv/bin
LOCKED := .venv/.installed-lock
READY := .venv/.installed-semel
OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# Caches of an outer environment must not leak in, and pip must not ask anything.
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

.PHONY: help setup demo test test-long check lint bench fuzz lock clean distclean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## Create .venv from the lock file (about a minute the first time)

demo: $(READY)  ## Kill a pipeline in the middle and count what came out (a minute or two)
	@$(BIN)/semel demo $(DEMO_ARGS)

# A test that hangs where no signal reaches it ends the run, with the stacks of all threads.
test: lint  ## Every gate, then every test but the long ones
	@$(BIN)/python -m pytest -m "not long" -o faulthandler_timeout=420 -o faulthandler_exit_on_timeout=true $(PYTEST_ARGS)

test-long: $(READY)  ## The tests that take minutes
	@$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

check: lint  ## Every gate without the tests: lint, format, types, import arrows, tidiness
	@$(BIN)/python -m pytest -q tests/tidy

lint: $(READY)
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-logo

bench: $(READY)  ## Measure on this machine; BENCH_ARGS names rows
	@$(BIN)/python -m bench $(BENCH_ARGS)

fuzz: $(READY)  ## Throw damaged record batches at the decoder; FUZZ_INPUTS says how many
	@$(BIN)/python tools/fuzz_columns.py --inputs $(FUZZ_INPUTS)

lock:  ## Resolve requirements/dev.lock again from pyproject.toml
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(PYTHON) -m venv "$$folder" && "$$folder/bin/pip" install --quiet uv && \
	"$$folder/bin/uv" pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	  --no-emit-index-url --no-header pyproject.toml -o requirements/dev.lock

clean:  ## Remove caches and build results; keep .venv
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	@find src tests bench tools -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## Remove .venv as well
	@rm -rf .venv

$(READY): $(LOCKED) pyproject.toml
	@echo "setup: installing semel itself" >&2
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# The stamp is written last: an interrupted install is simply done again.
$(LOCKED): requirements/dev.lock
	@$(PYTHON) -c '$(OLD_ENOUGH)' || { echo "setup: semel needs Python 3.11 or newer, but '$(PYTHON)' is" \
	  "$$($(PYTHON) -V 2>&1 || true); try: make setup PYTHON=python3.12" >&2; exit 4; }
	@$(BIN)/python -c '$(OLD_ENOUGH)' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@echo "setup: installing the locked dependencies" >&2
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@
