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
# On two cores: the tests wait more than they compute, for JVMs that start, sessions that end, drivers that are killed.
PROCESSES ?= 4
# Fewer where Apache Kafka runs: four of its clusters at once slow each other down more than they gain.
FULL_PROCESSES ?= 3

BIN := .venv/bin
LOCKED := .venv/.installed-lock
READY := .venv/.installed-semel
CLASSES := .venv/.archived-classes
OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# Caches of an outer environment must not leak in, and pip must not ask anything.
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

.PHONY: help setup demo test test-full soak check types tidy generate drill-results bench fuzz lock pin-jars clean distclean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(CLASSES)  ## Create .venv from the lock file (about two minutes the first time)

demo: $(READY)  ## Kill a pipeline in the middle and count what came out (a minute or two)
	@$(BIN)/semel demo $(DEMO_ARGS)

# The processes take what is left of each other's tests. One that hangs where no signal reaches it ends the run, with the
# stacks of all its threads.
# The order of the tests is shuffled, always in the same way: a run that turns red does so for what was changed.
# Another SEED finds tests that lean on each other.
SEED ?= 1
PYTEST := $(BIN)/python -m pytest -q --dist worksteal --randomly-seed=$(SEED) -o faulthandler_exit_on_timeout=true

# What the files are now: `make test-full` leaves out what `make test` has passed on the very same ones.
# Outside of a git checkout nobody knows what they are, and everything is run.
TREE = { git rev-parse HEAD && git diff HEAD && git ls-files --others --exclude-standard; } 2>/dev/null | git hash-object --stdin
PASSED := .venv/.quick-tier-passed
IS_WHOLE := $(if $(PYTEST_ARGS),false,git rev-parse --verify --quiet HEAD >/dev/null)

test: check $(CLASSES)  ## Every gate, then the quick tier of the tests (minutes)
	@rm -f $(PASSED)
	@$(PYTEST) -n $(PROCESSES) -m "not full and not soak" --ignore=tests/tidy -o faulthandler_timeout=420 $(PYTEST_ARGS)
	@if $(IS_WHOLE); then $(TREE) > $(PASSED); fi

test-full: $(CLASSES)  ## Every test but the soak, or what `make test` has left of them (about an hour)
	@marks="not soak"; \
	if $(IS_WHOLE) && [ "$$($(TREE))" = "$$(cat $(PASSED) 2>/dev/null)" ]; then \
	  marks="full and not soak"; echo "make test has passed on these files: its tests are left out" >&2; \
	fi; \
	$(PYTEST) -n $(FULL_PROCESSES) -m "$$marks" -o timeout=900 -o faulthandler_timeout=1500 $(PYTEST_ARGS)

soak: $(CLASSES)  ## Thousands of seeds, millions of steps, minutes of load: hours
	@$(PYTEST) -n $(FULL_PROCESSES) -m soak $(PYTEST_ARGS)

check: $(READY)  ## Every gate without the tests: lint, format, types, import arrows, tidiness
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory -j2 -Otarget types tidy

# In one process each: what has read every file once need not do so in each process of the tests.
types:
	@$(BIN)/python -m mypy

tidy:
	@$(BIN)/python -m pytest -q tests/tidy

drill-results: $(CLASSES)  ## Run every cell of the drill, on Apache Kafka too, and write docs/drill-results.md (an hour)
	@$(BIN)/python -m tools.drill_results

generate: $(READY)  ## Write again what is made from other files: Kafka's messages, docs/rules.md, docs/errors.md
	@$(BIN)/python -m tools.generate_messages
	@$(BIN)/python -m tools.generate_pages

bench: $(READY)  ## Measure on this machine; BENCH_ARGS names rows
	@$(BIN)/python -m bench $(BENCH_ARGS)

fuzz: $(READY)  ## Throw damaged record batches at the decoder; FUZZ_INPUTS says how many
	@$(BIN)/python tools/fuzz_columns.py --inputs $(FUZZ_INPUTS)

lock:  ## Resolve requirements/dev.lock again from pyproject.toml
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(PYTHON) -m venv "$$folder" && "$$folder/bin/pip" install --quiet uv && \
	"$$folder/bin/uv" pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	  --no-emit-index-url --no-header pyproject.toml -o requirements/dev.lock

pin-jars: $(READY)  ## Fetch every jar again and pin its SHA-256; look at what changed
	@$(BIN)/python -m tools.pin_jars

clean:  ## Remove caches and build results; keep .venv
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	@find src tests bench tools -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## Remove .venv as well
	@rm -rf .venv

$(READY): $(LOCKED) pyproject.toml
	@echo "setup: installing semel itself" >&2
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Hundreds of JVMs of Spark are started by the tests: what their classes look like in memory is worked out once.
$(CLASSES): $(LOCKED) | $(READY)
	@echo "setup: archiving the classes of Spark" >&2
	@rm -rf .venv/spark-home .venv/spark-classes.jsa
	@$(BIN)/python -m tests.support.spark_home
	@touch $@

# The stamp is written last: an interrupted install is simply done again.
$(LOCKED): requirements/dev.lock
	@$(PYTHON) -c '$(OLD_ENOUGH)' || { echo "setup: semel needs Python 3.11 or newer, but '$(PYTHON)' is" \
	  "$$($(PYTHON) -V 2>&1 || true); try: make setup PYTHON=python3.12" >&2; exit 4; }
	@$(BIN)/python -c '$(OLD_ENOUGH)' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@echo "setup: installing the locked dependencies" >&2
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@
