# Two commands to know: `make demo` and `make test`. Both make what they need in .venv and touch nothing else.

VENV := .venv
BIN := $(VENV)/bin
# The first Python that is new enough. `make PYTHON=/path/to/python test` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)

# The inner loop: tests of every package without servers, clusters, sandboxes, demos, crashes and long random stories.
QUICK := $(addprefix tests/,api architecture artifacts evidence graph log planning snapshot workflow) \
	$(addprefix tests/actions/test_,action_classes.py fingerprint.py dynamic_imports.py nested_parameters.py \
		registry.py typed_parameters.py uncounted_parameters.py) \
	$(addprefix tests/cli/test_cli_,actions.py init.py listing.py parameters.py validate.py arguments.py) \
	$(addprefix tests/composition/test_composition_,compile.py json.py refusals.py workflow_files.py) \
	$(addprefix tests/connections/test_connections_,file.py redact_files.py resolve.py text.py) \
	tests/console/test_console_paths.py \
	$(addprefix tests/execution/test_,bundle.py local_tickets.py message_limits.py safe_files.py \
		scratch.py sections_language.py step_states.py)
# Files of these folders that take seconds, because they start processes or try many cases.
SLOWER := artifacts/test_artifacts_stat_cache.py artifacts/test_artifacts_damaged.py artifacts/test_compare_comparers.py \
	log/test_log_repair.py planning/test_planning_delivery.py workflow/test_workflow_all_at_once.py
# Much of the time tests wait: for servers, clusters, processes that are to die.
TESTERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2)))
CORES := $(shell getconf _NPROCESSORS_ONLN)
# Tests that share an expensive fixture run in one process: see `MADE_ONCE` in tests/conftest.py.
PYTEST := $(BIN)/pytest -q --dist loadgroup
# Where bytecode may not be written, each process of pytest rewrites every test module anew: 10 s of CPU each.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo example-causal example-panel example-etl test test-quick lint soak soak-crash soak-data fuzz mutation bench docs frontend dist clean tools test-tools example-etl-tools

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-14s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.images | demo-tools ## the example, run for real and explained step by step
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/then-and-now/demo.sh "$(CURDIR)/.demo"

example-causal: $(VENV)/.causal ## causal discovery: 158 jobs with a real library, grown, changed and compared
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/causal-discovery/demo.sh "$(CURDIR)/.demo"

example-panel: $(VENV)/.panel ## a firm-year panel: files merged and checked, a regression chosen by a diagnostic, all on record
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/firm-panel/demo.sh "$(CURDIR)/.demo"

example-etl: $(VENV)/.etl | example-etl-tools ## MariaDB to PostgreSQL: ten steps between two real servers, here and in a sandbox
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/etl/demo.sh "$(CURDIR)/.demo"

test: $(VENV)/.dev $(VENV)/.npm | test-tools ## everything: style, types, layers, tests
	sh tests/in_memory.sh $(PYTEST) -n $(TESTERS)

test-quick: $(VENV)/.dev ## the inner loop, in less than a minute: the tests of every package that need no servers or sandboxes
	$(PYTEST) -n $(CORES) $(QUICK) $(addprefix --ignore=tests/,$(SLOWER))

lint: $(VENV)/.dev ## ruff, mypy (strict) and the import layers
	$(PYTEST) -n 3 tests/lint

soak: $(VENV)/.dev ## the oracle at length: new random stories for MINUTES=30 on every core
	$(BIN)/python tests/property/soak.py --minutes $(or $(MINUTES),30)

soak-crash: $(VENV)/.dev ## every fault point at every one of its calls, 20,000 power cuts, kills by the clock; takes hours
	WHYRUN_SOAK=1 $(BIN)/pytest -q -n auto --timeout 0 tests/crash

soak-data: $(VENV)/.dev ## random tables for the data actions, also beside pandas, polars and DuckDB; takes minutes
	WHYRUN_SOAK=1 $(PYTEST) -n auto --timeout 0 -rP tests/actions/test_data_merge_property.py \
		tests/actions/test_data_stack.py tests/actions/test_trial_differential.py

fuzz: $(VENV)/.fuzz ## readers given random bytes, guided by coverage: SECONDS=60 for each, TARGET=events for one of them
	$(BIN)/python tests/fuzz/fuzz.py $(TARGET) --seconds $(or $(SECONDS),60)

mutation: $(VENV)/.dev ## does a test fail when planning, log or snapshot is changed a little? AREA=planning for one of them
	$(BIN)/python tests/mutation/run.py $(AREA)

bench: $(VENV)/.dev ## speed, beside ninja, make, snakemake, doit and DVC; see bench/README.md
	$(BIN)/python bench/run.py

docs: $(VENV)/.dev | test-tools ## regenerate the generated parts of docs/: help, error codes, what commands print, pictures
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/picture.py
	if command -v tmux >/dev/null; then $(BIN)/python docs/progress_capture.py; fi
	if command -v chromium >/dev/null; then $(BIN)/python frontend/screenshots.py --gallery; fi
	UPDATE_DOCS=1 $(BIN)/pytest -q -n auto tests/docs

frontend: ## build the assets of the viewer and the report from frontend/; needs node
	cd frontend && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs

dist: $(VENV)/.dev ## build the sdist and the wheel in dist/, and check their metadata
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean: ## remove what make and the tests made; .venv stays
	rm -rf .demo .bench .mutation .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ------------------------------------------------------------------------------------------------

# What Python cannot install: bash runs the `shell` action, and some systems ship Python without `venv`.
tools:
	@if [ -z "$(PYTHON)" ]; then echo "error: Python 3.11 or newer is needed" >&2; exit 1; fi
	@missing=; command -v bash >/dev/null || missing="$$missing bash"; \
	"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -n "$$missing" ]; then \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
			apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; \
		else echo "error: please install:$$missing" >&2; exit 1; fi; fi

# What some tests need, as program:package. promtool checks exported metrics, tmux is the terminal in which the progress display is looked at, strace
# sees what programs read, R is one of these, bubblewrap makes the sandboxes, podman and runc make the containers, the servers are those
# that data is moved between, and SLURM is that of a cluster of one node. Where one cannot be had, its tests are skipped.
ETL_TOOLS := bwrap:bubblewrap mariadbd:mariadb-server pg_ctlcluster:postgresql
DEMO_TOOLS := strace:strace
CONTAINER_TOOLS := podman:podman runc:runc
TEST_TOOLS := $(DEMO_TOOLS) $(CONTAINER_TOOLS) tmux:tmux zsh:zsh fish:fish chromium:chromium promtool:prometheus munged:munge \
	slurmctld:slurm-wlm Rscript:r-base-core $(ETL_TOOLS)
example-etl-tools: TOOLS = $(ETL_TOOLS)
demo-tools: TOOLS = $(DEMO_TOOLS)
test-tools: TOOLS = $(TEST_TOOLS)
test-tools example-etl-tools demo-tools:
	@missing=; for tool in $(TOOLS); do \
		command -v "$${tool%%:*}" >/dev/null || missing="$$missing $${tool#*:}"; done; \
	[ -z "$$missing" ] || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; } \
		|| echo "note: not installed, and what needs it is skipped:$$missing" >&2

$(BIN)/pip: | tools
	"$(PYTHON)" -m venv $(VENV)

# Stamps: nothing is installed again until pyproject.toml changes. The developers' set contains those of the examples.
# Where atheris cannot be had, the fuzzing goes on without it, and says so.
$(VENV)/.fuzz: $(VENV)/.dev
	-$(BIN)/pip install -q -e '.[fuzz]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install -q -e '.[dev]'
	@touch $(VENV)/.images $(VENV)/.causal $(VENV)/.panel $(VENV)/.etl $@

# What the page of the viewer is built and tested with. Where npm is not to be had, two of its tests are skipped.
$(VENV)/.npm: frontend/package-lock.json | $(BIN)/pip
	@if command -v npm >/dev/null; then \
		(cd frontend && npm ci --ignore-scripts --no-audit --no-fund --silent) \
			|| echo "note: npm installed nothing, and what needs it is skipped" >&2; \
	else echo "note: npm is not installed, and what needs it is skipped" >&2; fi
	@touch $@

$(VENV)/.images: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install -q -e '.[images]'
	@touch $@

$(VENV)/.causal: pyproject.toml examples/causal-discovery/requirements.txt | $(BIN)/pip
	$(BIN)/pip install -q -e . -r examples/causal-discovery/requirements.txt
	@touch $@

$(VENV)/.panel: pyproject.toml examples/firm-panel/requirements.txt | $(BIN)/pip
	$(BIN)/pip install -q -e '.[data]' -r examples/firm-panel/requirements.txt
	@touch $@

$(VENV)/.etl: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install -q -e '.[data,db]'
	@touch $@
