# `make demo` and `make test` do everything from a fresh checkout; nothing needs to be installed first
# but Python 3.11-3.13 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT ?= reports/demo
DEMO_BUDGET ?= 5m
# Runtimes and BLAS never guess their number of threads in tests: what they find differs by machine.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup demo lab lab-openvino lab-test test check style types format benchmarks wheel clean

help: ## say what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[search,report,zoo,dev]'
	@touch $@

setup: $(VENV)/.installed ## create the environment

demo: setup ## fetch a real model, optimize it on this machine, say where the report is
	$(BIN)/edgeopt zoo get ppocr-cls
	$(BIN)/edgeopt run ppocr-cls --device local --budget $(DEMO_BUDGET) --out $(DEMO_OUT)
	@echo "The report is $(DEMO_OUT)/report.html"

check: style types ## format, lint, types, import contracts

style: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: setup # a minute on one processor: beside it `make test` does the rest and fetches
	$(BIN)/pyright

lab: setup ## fetch a real sshd and an arm64 userland into .lab (Debian; tests skip what it lacks)
	$(BIN)/python tests/lab/fetch.py
	$(BIN)/python tests/gate/fetch_actionlint.py

lab-openvino: ## fetch a runtime whose provider compiles, into a venv of its own in .lab
	$(PYTHON) -m venv .lab/openvino
	.lab/openvino/bin/python -m pip install --quiet --disable-pip-version-check \
		onnxruntime-openvino==1.24.1 numpy

lab-test: lab ## all lab tests, the slow ones too
	$(BIN)/python -m pytest -m lab -rs

# Most tests may share the processors; those marked `alone` judge what they measured, and do not.
# Files keep their order: the slow rooms come first, so that no worker is left over with one of them.
test: setup ## check, one fetched model, and all tests that need no fetching
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check lab
	$(BIN)/python -m pytest -m zoo -k "ppocr-cls"
	$(BIN)/python -m pytest -m "not (zoo or slow or alone)" -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m "alone and not slow" --durations=10

format: setup ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

zoo-check: setup ## every model of the zoo on its own data (fetches 220 MB)
	$(BIN)/python -m pytest -m zoo
	$(BIN)/python models/check.py

benchmarks: setup ## reproduce the figures that the documentation claims
	$(BIN)/python benchmarks/build.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/noise_floor.py

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove the environment and what tools left behind
	rm -rf $(VENV) .lab dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
