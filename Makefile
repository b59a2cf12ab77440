# make run    sets everything up and runs the main job        make test   sets everything up and runs all checks
# make bench  prints speed and memory ratios                  make clean  removes what the other targets made
PYTHON ?= python3
BIN := .venv/bin
BUILD_INPUTS := pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/mimogc/ops/csrc/*)

.PHONY: run test bench sanitize lint clean setup

setup: .venv/.installed

.venv/.installed: $(BUILD_INPUTS)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[experiments,dev]"
	touch $@

run: setup
	$(BIN)/mimogc reproduce universality
	$(BIN)/mimogc report

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror src/mimogc/ops/csrc/*.cpp src/mimogc/ops/csrc/*.h

test: setup lint sanitize
	$(BIN)/pytest

sanitize: setup
	$(BIN)/python tests/ops/sanitize.py

bench: setup
	$(BIN)/mimogc bench

clean:
	rm -rf .venv build dist results report .pytest_cache .mypy_cache .ruff_cache .hypothesis
