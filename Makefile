# make run    sets everything up and runs the main job: the universality table, with a report to look at
# make test   sets everything up and runs all checks, with the compiled kernels, without them, and with those for GPUs
# make gpu-test runs the checks of the operators on this machine's GPU
# make docs   builds the documentation into build/docs, with warnings as errors
# make bench  prints speed and memory as ratios          make clean  removes what the other targets made
PYTHON ?= python3
BIN := .venv/bin
# Of some 20,000 files few are ever imported: they are compiled then, not all at once, so Python must be allowed to keep them.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt
KERNELS := src/mimogc/ops/csrc

.PHONY: run test lint sanitize kernels reference triton gpu-test browser docs bench clean setup FORCE

setup: .venv/.installed

# The editable installation knows which modules there are, so it is renewed when one comes or goes.
.venv/.modules: FORCE
	@mkdir -p .venv
	@find src -name '*.py' | LC_ALL=C sort | cmp -s - $@ || find src -name '*.py' | LC_ALL=C sort > $@

.venv/.installed: pyproject.toml constraints.txt CMakeLists.txt .venv/.modules $(wildcard $(KERNELS)/*)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[experiments,explore,graphgym,pandas,tensorboard,notebooks,dev,docs]"
	@touch $@

run: setup
	$(BIN)/mimogc reproduce universality --jobs 2
	$(BIN)/mimogc report

test: setup
	$(MAKE) --jobs 2 --output-sync lint sanitize
	$(MAKE) kernels reference triton

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(KERNELS)/*.cpp $(KERNELS)/*.h tests/ops/*.cpp

sanitize: setup
	$(BIN)/python tests/ops/sanitize.py

# Two files of tests at a time, those that take longest first, each with one thread of its own unless a test asks for more.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

kernels: setup browser
	$(PYTEST)

# Everything that computes with the operators, in plain torch. Storage, scheduling, data and pages do not.
COMPUTING := tests/test_graph.py tests/test_testing.py tests/ops tests/nn tests/spectral tests/theory \
  tests/studies/test_universality.py tests/studies/test_heterophilic.py tests/studies/test_deep.py

reference: setup
	MIMOGC_BACKEND=reference $(PYTEST) -m "not kernels" $(COMPUTING)

# The operators as Triton kernels, in Triton's interpreter: no GPU is needed, and none is used.
# Where Triton cannot be installed (it is for Linux), its tests say so and are skipped.
INTERPRETED := tests/ops/test_propagate.py tests/ops/test_triton.py tests/ops/test_transforms.py tests/ops/test_safety.py \
  tests/ops/test_waiting.py tests/nn/test_func.py tests/nn/test_compile.py tests/nn/test_edge_features.py

triton: setup
	MIMOGC_BACKEND=triton TRITON_INTERPRET=1 $(PYTEST) -m "not kernels" $(INTERPRETED)

# The same on a real GPU, whose torch must be installed already: .venv is left alone.
gpu-test:
	MIMOGC_TEST_DEVICE=cuda $(PYTHON) -m pytest -m "not kernels" $(INTERPRETED)

# The report is tested in a real browser; where it is missing and may be installed, it is.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get -qq update && apt-get -qq install --yes chromium chromium-driver >/dev/null; } || \
	  echo "no chromium: the browser tests will be skipped"

docs: setup
	$(BIN)/sphinx-build -W --keep-going -n -b html docs build/docs

bench: setup
	$(BIN)/mimogc bench
	for part in zinc nodes universality waiting calls; do $(BIN)/python benchmarks/$$part.py || exit; done

clean:
	rm -rf .venv build dist results report .pytest_cache .mypy_cache .ruff_cache .hypothesis
