# Two commands set everything up on a machine with Python >= 3.11, make and a C library:
#   make demo   solves examples/attention.py for the H100 and prints the schedule
#   make test   linter, types and every test, with the oldest and the newest supported Triton
#   make quick  tests of the first rooms of the pipeline, in under a minute
#   make soak   front ends, workers and PostgreSQL under kill -9 for 20 minutes
#
# PYTHON=python3.12 make test    another interpreter
# TRITON=3.7.1 make test-triton  the frontend's tests with one version of Triton
# WORKERS=3 make unit            the tests in three processes

PYTHON ?= python3
OLDEST := 3.6.0
NEWEST := 3.9.0
TRITON ?= $(OLDEST)
WORKERS ?= auto

BIN := .venv/bin
# What the versions of Triton can differ in: everything from the kernel file to the dependence
# graph, and the way from there to a schedule. Commands that are about schedules, stores, services and
# machine files do the same with all of them.
ABOUT_OTHERS := calibrate check_and_show ci compare jobs killed machines options output progress serve store
COMMANDS := $(filter-out $(ABOUT_OTHERS:%=tests/cli/test_%.py), $(wildcard tests/cli/test_*.py))
FRONTEND := tests/kernel tests/tile/access tests/tile/rewrite tests/tile/translate tests/graph $(COMMANDS) tests/test_examples.py

# Files of tests go to as many processes as there are cores, in the order of tests/longest_first.py; what one
# file computed once, its tests share. For the whole suite it is one process more: one of them often waits for a service.
BY_FILE := --dist loadfile --no-loadscope-reorder --max-worker-restart=0
PARALLEL := -n $(WORKERS) $(BY_FILE)
MORE = $(if $(filter auto,$(WORKERS)),$(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)'),$(WORKERS))
# From the kernel file to the costed graph, and what is said of it: seconds.
QUICK := tests/kernel tests/machine tests/manifest tests/toml tests/zlp tests/schedule tests/show tests/codegen/warp

# Tests start some hundred processes that import Twill: none of them compiles what another one has, whoever asked for that.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test both soak quick lint types unit test-triton format clean

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

demo: .venv/demo.stamp
	$(BIN)/twill solve examples/attention.py --machine h100

# Types are checked on one core, so beside the tests, which are there much longer.
test: lint
	+$(MAKE) --no-print-directory --jobs=2 --output-sync=line types both

both:
	+$(MAKE) --no-print-directory test-triton
	+$(MAKE) --no-print-directory unit

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: .venv/test.stamp
	$(BIN)/mypy

quick: .venv/test.stamp
	$(BIN)/python -m pytest $(PARALLEL) $(QUICK)

soak: .venv/test.stamp
	$(BIN)/python -m tests.soak

unit: .venv/test.stamp
	$(BIN)/python -m pytest -n $(MORE) $(BY_FILE)

test-triton: .triton-$(TRITON)/test.stamp
	PYTHONPATH=$(CURDIR)/.triton-$(TRITON) $(BIN)/python -m pytest $(PARALLEL) $(FRONTEND)

format: .venv/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .triton-* .builds .import_linter_cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Twill needs Python 3.11 or newer; $(PYTHON) is older: PYTHON=python3.12 make ..." >&2; exit 1; }
	$(PYTHON) -m venv $*

.venv/demo.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . "triton==$(NEWEST)"
	touch $@

.venv/test.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]" "triton==$(NEWEST)"
	touch $@ .venv/demo.stamp

# Another Triton alone: it is found before that of .venv, with which it shares everything else.
.triton-%/test.stamp: .venv/test.stamp
	rm -rf .triton-$*
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .triton-$* "triton==$*"
	PYTHONPATH=.triton-$* $(BIN)/python -c 'import triton; assert triton.__version__ == "$*", triton.__version__'
	touch $@

.PRECIOUS: %/bin/python
