# Everything a person or a machine does with this repository. CI calls the same targets.
# A first `make check` sets the machine up (Python packages, Java) by itself; later ones find it done.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
# The stamps say that .venv holds what the lock files ask for.
READY := .venv/.ready-dev
READY_DEMO := .venv/.ready-demo
# Spark's classes in one file, which halves the start of its processes.
CLASSES := .venv/share/binshift/classes/spark.jsa
# Spark finds its Java here, whatever else is on the PATH.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME &&
DEMO_SECONDS ?= 90
DEMO_ROWS ?= 336776
SOAK_SECONDS ?= 3600

##@ Every day

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	     /^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) $(CLASSES) ## install what the checks need: pinned Python packages into .venv, Java if there is none

.PHONY: check
check: quick test-cluster ## all that must hold before a commit: format, lint, types, imports, all tests

.PHONY: quick
quick: static test-unit ## the same without the tests on a Spark cluster

.PHONY: format
format: $(READY) ## rewrite the code in the house's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

##@ The parts of a check

.PHONY: static
static: format-check lint types imports ## format, lint, types, imports

.PHONY: format-check
format-check: $(READY)
	$(BIN)/ruff format --check .

.PHONY: lint
lint: $(READY) ## ruff
	$(BIN)/ruff check .

.PHONY: types
types: $(READY) ## mypy --strict
	$(BIN)/mypy

.PHONY: imports
imports: $(READY) ## the layers: who may import whom
	$(BIN)/lint-imports

.PHONY: test
test: test-unit test-cluster ## all tests of a check

.PHONY: test-unit
test-unit: $(READY) $(CLASSES) ## unit tests and doctests; Spark runs inside their processes, two a core, as they mostly wait
	@scripts/libfuse.sh $(BIN)/python
	$(WITH_JAVA) $(BIN)/python -m pytest -n $$((2 * $$(nproc))) --dist worksteal -m "not oracle and not cluster and not chart"

.PHONY: test-cluster
test-cluster: $(READY) $(CLASSES) ## tests on a small local Spark cluster
	@scripts/libfuse.sh $(BIN)/python
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests/cluster -v --durations=10 -m "cluster and not oracle and not campaign"

##@ Longer

.PHONY: oracle
oracle: $(READY) $(CLASSES) ## random histories with faults against the reference: simulated, then on a real cluster
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests -m "oracle and not cluster"
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests/cluster -v --durations=10 -m "cluster and oracle"

.PHONY: faults
faults: $(READY) $(CLASSES) ## processes killed, or stopped and woken, at every named point of a running query; takes hours (FAULT="delta.before" for some)
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests/cluster/test_cluster_faults.py -v -m campaign $(if $(FAULT),-k "$(FAULT)")

.PHONY: soak
soak: $(READY) $(CLASSES) ## an hour of random moves, kills and loads on a real cluster; nothing may grow (SOAK_SECONDS=600, SOAK_SEED=7)
	$(WITH_JAVA) SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest runtime/tests/cluster/test_cluster_soak.py

.PHONY: chart
chart: $(READY) ## the chart by helm, its alerts by promtool; the first time, both are built from their Go modules
	@e2e/cluster/cluster.sh tool helm promtool >/dev/null
	$(BIN)/python -m pytest charts/tests -v -m chart

.PHONY: e2e
e2e: $(READY) $(if $(BINSHIFT_E2E_PICTURES),$(READY_DEMO)) ## stories on a real Kubernetes cluster: KUBECONFIG's, or a node built here (STORY=rescale for one)
	$(BIN)/python -m pytest e2e -v -o timeout=3600 $(if $(STORY),-k "$(STORY)",-m "not alarms")

.PHONY: bench
bench: $(READY_DEMO) $(CLASSES) ## measure; prints ratios, asserts nothing
	$(WITH_JAVA) $(BIN)/python runtime/benchmarks/run.py

.PHONY: demo
demo: $(READY_DEMO) $(CLASSES) ## a year of real flights as a stream on a local cluster, rescaled while it runs (DEMO_SECONDS=90)
	$(WITH_JAVA) $(BIN)/binshift demo --seconds $(DEMO_SECONDS) --rows $(DEMO_ROWS)

.PHONY: bare
bare: ## the checks without a cluster, and a short demo, in a fresh clone on a minimal Debian; needs root
	scripts/bare.sh quick demo DEMO_SECONDS=20

##@ Housekeeping

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url
.PHONY: lock
lock: $(READY) ## renew requirements/*.txt from pyproject.toml (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(UPGRADE) --group bootstrap -o requirements/bootstrap.txt
	$(COMPILE) $(UPGRADE) --group build -o requirements/build.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --all-extras --group dev -c requirements/build.txt -o requirements/dev.txt
	@# One answer for all: what the images and the demo get is what the checks ran with.
	$(COMPILE) $(UPGRADE) pyproject.toml --extra runtime -c requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra operator -c requirements/dev.txt -o requirements/operator.txt
	$(COMPILE) $(UPGRADE) --group demo -c requirements/dev.txt -o requirements/demo.txt

.PHONY: clean
clean: ## remove caches and build output; keeps .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db
	find operator runtime e2e scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): scripts/setup.sh pyproject.toml requirements/bootstrap.txt requirements/build.txt requirements/dev.txt
	scripts/setup.sh dev
	@touch $@

$(CLASSES): $(READY) runtime/binshift/cds.py runtime/binshift/spark/training.py
	$(WITH_JAVA) $(BIN)/python -m binshift.cds

$(READY_DEMO): $(READY) requirements/demo.txt
	scripts/setup.sh demo
	@touch $@
