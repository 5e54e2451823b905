# The entry points of this repository, for developers and CI.
# The first `make check` installs Python packages and Java; later ones skip this.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
# Stamps: .venv matches the lock files.
READY := .venv/.ready-dev
READY_DEMO := .venv/.ready-demo
READY_RELEASE := .venv/.ready-release
READY_DOCS := .venv/.ready-docs
# Archive of Spark's classes, which halves the startup time of its processes.
ARCHIVE := .venv/share/binshift/classes/spark.jsa
COMPILED := .venv/share/binshift/classes/compiled
CLASSES := $(ARCHIVE) $(COMPILED)
# The Java runtime for Spark, independent of the PATH.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME &&
DEMO_SECONDS ?= 90
DEMO_ROWS ?= 336776
SOAK_SECONDS ?= 3600

##@ Daily use

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	     /^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) $(CLASSES) ## install pinned Python packages into .venv, and Java if it is missing

.PHONY: check
check: static test ## required before a commit: format, lint, types, imports, unit tests, and the core of those on a cluster

.PHONY: quick
quick: static ## the everyday loop, about a minute: static checks, and the tests that need neither Spark nor much time
	$(BIN)/python -m pytest -n $$(nproc) --dist worksteal -m "not spark and not slow and not oracle and not cluster and not chart"

.PHONY: format
format: $(READY) ## format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

##@ The parts of a check

.PHONY: static
static: format-check lint types imports ## format, lint, types, imports

.PHONY: format-check
format-check: $(READY)
	@$(BIN)/ruff format --check . || { echo "make format formats them" >&2; exit 1; }

.PHONY: lint
lint: $(READY) ## ruff
	$(BIN)/ruff check .

.PHONY: types
types: $(READY) ## mypy --strict over everything, tests included
	$(BIN)/mypy
	@# mypy accepts one module of a name at a time.
	@for each in $(wildcard conftest.py */conftest.py */*/conftest.py */*/*/conftest.py); do \
		echo "$$each" && $(BIN)/mypy "$$each" || exit 1; \
	done

.PHONY: imports
imports: $(READY) ## import contracts between the layers
	PYTHONPATH=runtime/examples/flights $(BIN)/lint-imports

.PHONY: test
test: test-unit test-core ## unit tests and the core of the tests on a local Spark cluster

.PHONY: test-unit
test-unit: $(READY) $(CLASSES) ## unit tests and doctests, two processes per core, with Spark in-process
	@scripts/libfuse.sh $(BIN)/python
	$(WITH_JAVA) $(BIN)/python -m pytest -n $$((2 * $$(nproc))) --dist worksteal -m "not oracle and not cluster and not chart"

.PHONY: coverage
coverage: $(READY) $(CLASSES) ## share of lines and branches that unit tests run; build/coverage/index.html (NAMES="routing planner": of some modules)
	@mkdir -p build/coverage
	$(WITH_JAVA) nice $(BIN)/python -m pytest -q -n $$(nproc) --dist loadfile -m "not oracle and not cluster and not chart and not page" \
		--cov --cov-report=term --cov-report=html $(wildcard $(NAMES:%=*/tests/test_%*.py))
	@echo "Unit tests run $$($(BIN)/coverage report --format=total) % of lines and branches." | tee -a "$${GITHUB_STEP_SUMMARY:-/dev/null}"

.PHONY: test-core
test-core: $(READY) $(CLASSES) ## the core of the tests on a small local Spark cluster
	@scripts/libfuse.sh $(BIN)/python
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests/cluster -v --durations=10 -m "core and not oracle and not campaign"

##@ Longer

.PHONY: test-cluster
test-cluster: $(READY) $(CLASSES) ## all tests on a small local Spark cluster, about 50 minutes (NAMES="sinks or stop"; STANDING=0)
	@scripts/libfuse.sh $(BIN)/python
	$(WITH_JAVA) $(if $(STANDING),BINSHIFT_STANDING=$(STANDING)) $(BIN)/python -m pytest runtime/tests/cluster -v --durations=10 \
		-m "cluster and not oracle and not campaign" $(if $(NAMES),-k "$(NAMES)")

.PHONY: oracle
oracle: $(READY) $(CLASSES) ## random histories with faults compared with the reference, simulated (NAMES=histories)
	$(WITH_JAVA) $(BIN)/python -m pytest -n $$(nproc) --dist worksteal runtime/tests -m "oracle and not cluster" \
		$(if $(NAMES),-k "$(NAMES)")

.PHONY: nightly
nightly: oracle test-cluster ## the oracle, all tests on a cluster, and random histories there; about three hours
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests/cluster -v --durations=10 -m "cluster and oracle"

.PHONY: conformance
conformance: $(READY) $(CLASSES) ## small PySpark programs on Spark and on binshift, calm and with moves, compared step by step (NAMES=session ENGINE=spark)
	$(WITH_JAVA) PYTHONPATH=runtime $(BIN)/python -m conformance $(foreach name,$(NAMES),-k "$(name)") $(if $(ENGINE),--engine $(ENGINE))

.PHONY: pyspark-tests
pyspark-tests: $(READY) $(CLASSES) ## PySpark's own streaming tests with state, on binshift and on Spark (NAMES=listener)
	$(WITH_JAVA) PYTHONPATH=runtime $(BIN)/python -m conformance.pyspark_tests $(NAMES)
	$(if $(NAMES),,PYTHONPATH=runtime $(BIN)/python -m conformance.tester_tests)

.PHONY: faults
faults: $(READY) $(CLASSES) ## fault injection at every failpoint of a running query: kill, stop, resume; takes hours (FAULT="delta.before" for one)
	$(WITH_JAVA) $(BIN)/python -m pytest runtime/tests/cluster/test_cluster_faults.py -v -m campaign $(if $(FAULT),-k "$(FAULT)")

.PHONY: soak
soak: $(READY) $(CLASSES) ## an hour of random moves, kills and loads on a local cluster; fails on leaks (SOAK_SECONDS=600, SOAK_SEED=7)
	$(WITH_JAVA) SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest runtime/tests/cluster/test_cluster_soak.py

.PHONY: chart
chart: $(READY) ## test the chart with helm and its alerts with promtool; the first run builds both from source
	@e2e/cluster/cluster.sh tool helm promtool >/dev/null
	$(BIN)/python -m pytest charts/tests -v -m chart

.PHONY: e2e
e2e: $(READY) $(if $(BINSHIFT_E2E_PICTURES),$(READY_DEMO)) ## end-to-end tests on Kubernetes: the KUBECONFIG's cluster, or a node built here (STORY=rescale for one)
	$(BIN)/python -m pytest e2e -v -o timeout=3600 $(if $(STORY),-k "$(STORY)",-m "not alarms")

.PHONY: page
page: $(READY) ## test the control port's page in headless Chromium (PICTURES=docs/images: draw those of the documentation)
	@scripts/chromium.sh
	$(if $(PICTURES),BINSHIFT_PAGE_PICTURES=$(PICTURES)) $(BIN)/python -m pytest runtime/tests/test_page.py runtime/tests/test_control_page.py

.PHONY: bench
bench: $(READY_DEMO) $(CLASSES) ## run benchmarks and print ratios (BENCH=move for one)
	$(WITH_JAVA) $(BIN)/python runtime/benchmarks/run.py

.PHONY: nexmark
nexmark: $(READY_DEMO) $(CLASSES) ## NEXMark's queries on Spark and binshift against DuckDB (NEXMARK="correct q5", or page)
	$(WITH_JAVA) PYTHONPATH=runtime/benchmarks:runtime $(BIN)/python -m nexmark $(or $(NEXMARK),correct)

.PHONY: demo
demo: $(READY_DEMO) $(CLASSES) ## stream a year of flights on a local cluster and rescale it while it runs (DEMO_SECONDS=90)
	$(WITH_JAVA) $(BIN)/python runtime/examples/flights/demo.py --seconds $(DEMO_SECONDS) --rows $(DEMO_ROWS)

.PHONY: bare
bare: ## check and a short demo in a fresh clone on a minimal Debian; needs root (BARE="test-unit" for other targets)
	scripts/bare.sh $(or $(BARE),check demo DEMO_SECONDS=20)

##@ Documentation

# Material warns of mkdocs 2.0, which pyproject.toml excludes.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: docs
docs: $(READY_DOCS) ## build the documentation as a site in build/site; a broken link is an error
	$(MKDOCS) build --strict

.PHONY: docs-serve
docs-serve: $(READY_DOCS) ## serve that site at a local address, and renew it after each change
	$(MKDOCS) serve

##@ Release

.PHONY: dist
dist: $(READY_RELEASE) ## build wheel and sdist of the last commit twice, compare, check and install them (EXTRA=runtime: with Spark)
	$(BIN)/python scripts/build_dist.py $(if $(EXTRA),--extra $(EXTRA))

.PHONY: images
images: $(READY_RELEASE) ## images for amd64 and arm64 as OCI layouts, and what is in them, in dist/images (PLATFORMS=linux/arm64)
	PLATFORMS="$(PLATFORMS)" scripts/images.sh dist/images "$$($(BIN)/python -c 'import binshift; print(binshift.__version__)')"
	$(BIN)/python scripts/image_sbom.py dist/images

.PHONY: release
release: $(READY_RELEASE) ## dist, chart, package lists and checksums in dist/, then publish to REGISTRY (DRY=1: print how; PART=build or publish)
	$(BIN)/python scripts/release.py $(if $(DRY),--dry) $(if $(PART),--part $(PART))

##@ Housekeeping

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url
.PHONY: lock
lock: $(READY) ## update requirements/*.txt from pyproject.toml (UPGRADE=--upgrade for newer versions)
	$(COMPILE) $(UPGRADE) --group bootstrap -o requirements/bootstrap.txt
	$(COMPILE) $(UPGRADE) --group build -o requirements/build.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --all-extras --group dev -c requirements/build.txt -o requirements/dev.txt
	@# Images and demo get the versions that the checks ran with.
	$(COMPILE) $(UPGRADE) pyproject.toml --extra runtime -c requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra operator -c requirements/dev.txt -o requirements/operator.txt
	$(COMPILE) $(UPGRADE) --group demo -c requirements/dev.txt -o requirements/demo.txt
	$(COMPILE) $(UPGRADE) --group release -c requirements/dev.txt -o requirements/release.txt
	$(COMPILE) $(UPGRADE) --group docs -c requirements/dev.txt -o requirements/docs.txt

.PHONY: clean
clean: ## remove caches and build output; keeps .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db
	find operator runtime e2e scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): scripts/setup.sh pyproject.toml requirements/bootstrap.txt requirements/build.txt requirements/dev.txt
	scripts/setup.sh dev
	@touch $@

$(COMPILED): $(READY) runtime/binshift/spark/session/java_classes.py $(wildcard runtime/binshift/spark/java/*.java)
	$(WITH_JAVA) $(BIN)/python -m binshift.spark.session.java_classes
	@mkdir -p $(@D) && touch $@

$(ARCHIVE): $(READY) runtime/binshift/cds.py runtime/binshift/spark/training.py
	$(WITH_JAVA) $(BIN)/python -m binshift.cds

$(READY_DEMO): $(READY) requirements/demo.txt
	scripts/setup.sh demo
	@touch $@

$(READY_RELEASE): $(READY) requirements/release.txt
	scripts/setup.sh release
	@touch $@

$(READY_DOCS): $(READY) requirements/docs.txt
	scripts/setup.sh docs
	@touch $@
