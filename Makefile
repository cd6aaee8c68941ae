# MirrorMQ's verbs. `make help` lists them; every one sets up what it needs first.

ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
VENV := $(ROOT)/.venv
RUN := $(VENV)/bin/python
# Two steps, each with a stamp: what a broker needs to run, and on top of it what tests, Spark and checks need.
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
PIP := $(RUN) -m pip install --disable-pip-version-check

NODES ?= 3
DATA ?= var
DIST ?= $(ROOT)/dist
AMQP_PORT ?= 5672
MANAGEMENT_PORT ?= 15672
ARGS ?=
# Two test processes per core: most tests wait for nodes, brokers and timers more than they compute.
WORKERS ?= $(shell expr 2 \* $$(nproc))
SEEDS ?= 100
JOBS ?= $(shell nproc)
FIRST ?= 1
MINUTES ?= 10

# The distribution's own interpreter first: Debian builds it with PGO, 25-45 % faster than a plain build.
CANDIDATES := /usr/bin/python3 python3 python3.13 python3.12 python3.11
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for candidate in $(CANDIDATES); do \
	if $$candidate -c '$(USABLE)' 2>/dev/null; then echo $$candidate; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help setup compile up wheel docs test test-quick test-compiled check format sim hunt acceptance demo bench bench-core clean

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(ROOT)/Makefile | while IFS="$$(printf '\t')" read -r verb text; do \
		printf '  make %-10s %s\n' "$$verb" "$$text"; done

# The message core runs compiled if a C compiler is present, pure otherwise; a failure here stops nothing.
COMPILE = cd $(ROOT) && $(RUN) compile_core.py $(1) || echo "make: the message core runs pure" >&2

setup: $(STAMP) ## create .venv with all pinned requirements, compile the message core (instant when nothing changed)
	@$(call COMPILE)

compile: $(RUNTIME) ## compile the message core with mypyc if one of its sources has changed
	@cd $(ROOT) && $(RUN) compile_core.py

$(RUNTIME): $(ROOT)/requirements/runtime.txt $(ROOT)/requirements/checkout.txt $(ROOT)/pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "make: no Python >= 3.11 with venv found; install one (Debian: apt install python3-venv) or say make PYTHON=..." >&2; \
		exit 1; fi
	@if [ ! -x $(RUN) ]; then echo "creating .venv with $(PYTHON)"; $(PYTHON) -m venv $(VENV); fi
	@echo "installing what the broker needs into .venv (75 MB)"
	@$(PIP) -q --require-hashes -r $(ROOT)/requirements/runtime.txt -r $(ROOT)/requirements/checkout.txt
	@$(PIP) -q --no-deps --no-build-isolation -e $(ROOT)
	@touch $(RUNTIME)

$(STAMP): $(RUNTIME) $(ROOT)/requirements/test.txt
	@echo "installing what tests, Spark and checks need into .venv (1.5 GB, a few minutes)"
	@$(PIP) --require-hashes -r $(ROOT)/requirements/test.txt
	@touch $(STAMP)

up: $(RUNTIME) ## run NODES nodes in the foreground, AMQP from port 5672, management from 15672; Ctrl-C stops
	@$(call COMPILE,--background)
	cd $(ROOT) && $(VENV)/bin/mirrormq cluster up --nodes $(NODES) --data $(DATA) \
		--amqp-port $(AMQP_PORT) --management-port $(MANAGEMENT_PORT) --mirror-all

wheel: $(RUNTIME) ## build the wheel for pip into DIST (dist/)
	@rm -rf $(ROOT)/build $(DIST)
	@$(RUN) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w $(DIST) $(ROOT)
	@ls $(DIST)/*.whl

$(VENV)/.docs: $(RUNTIME) $(ROOT)/requirements/docs.txt
	@echo "installing what the documentation needs into .venv (120 MB)"
	@$(PIP) -q --require-hashes -r $(ROOT)/requirements/docs.txt
	@touch $(VENV)/.docs

docs: $(VENV)/.docs ## build the documentation as a site in build/docs/site, with search, in English and Chinese
	cd $(ROOT) && $(RUN) docs/site.py

# tests/scheduling.py puts the longest files first; xdist alone would put those with the most tests there.
PYTEST := $(RUN) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(STAMP) ## run the whole test suite (ARGS="tests/wire -k heartbeat" narrows it)
	cd $(ROOT) && $(PYTEST) $(ARGS)

test-quick: $(STAMP) ## run the tests of all short files, in under three minutes
	cd $(ROOT) && $(PYTEST) -m "not long" $(ARGS)

# Test processes run the pure core, so that tests may patch it, and the nodes that they start the compiled one.
CORE_TESTS := $(addprefix tests/,wire channels queues storage broker exchanges hostile dedup leases wakeups mirrored)

test-compiled: $(STAMP) ## run the message core's tests on the compiled core
	cd $(ROOT) && $(RUN) compile_core.py --required
	cd $(ROOT) && MIRRORMQ_BUILD=compiled $(PYTEST) $(CORE_TESTS) $(ARGS)

check: $(STAMP) ## format, lint and types, changing nothing
	cd $(ROOT) && $(RUN) -m ruff format --check .
	cd $(ROOT) && $(RUN) -m ruff check .
	cd $(ROOT) && $(RUN) -m mypy

format: $(STAMP) ## let ruff format the code and mend what it safely can
	cd $(ROOT) && $(RUN) -m ruff format . && $(RUN) -m ruff check --fix .

sim: $(STAMP) ## simulate SEEDS clusters with faults, from seed FIRST on, in JOBS processes (SEEDS=1000 FIRST=1 ARGS="--kinds forks --nodes 2")
	cd $(ROOT) && $(RUN) -m mirrormq.simulator --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS) $(ARGS)

hunt: $(STAMP) ## simulate fresh seeds for MINUTES at idle priority, and append a row to benchmarks/HUNT.md (JOBS=1)
	cd $(ROOT) && exec $(RUN) -m benchmarks.hunt --minutes $(MINUTES) --jobs $(JOBS) $(ARGS)

acceptance: $(STAMP) ## run the long trials, about an hour, and record them in benchmarks/ACCEPTANCE.md (ARGS="--only chaos")
	cd $(ROOT) && $(RUN) -m benchmarks.acceptance $(ARGS)

demo: $(STAMP) ## load a cluster, kill masters under it, let it heal, and have Spark audit what happened
	@rm -rf $(ROOT)/var/demo && mkdir -p $(ROOT)/var/demo
	@echo "Three nodes, two mirrored queues, three publishers with confirms and three consumers for 20 seconds."
	@echo "Nodes are killed (SIGKILL) and started again meanwhile. A publisher whose node dies"
	@echo "goes on at another node; publishes that got no answer are counted, not repeated."
	cd $(ROOT) && $(VENV)/bin/mirrormq chaos --nodes 3 --duration 20 --fault kill --history var/demo/history
	@echo "Spark compares what was sent, confirmed and delivered, message by message (about a minute)."
	cd $(ROOT) && $(VENV)/bin/mirrormq pipeline audit --history var/demo/history --report var/demo/report.html
	@echo "lost: confirmed and never delivered, must be 0. duplicated: delivered again, marked as redelivered."
	@echo "recovered: delivered although its confirm was never received. 'the whole cluster' is the outage;"
	@echo "a killed node itself is silent as long as it is dead, and until publishers come back to it."

# A part that fails does not stop the others; each writes its own table.
PARTS ?= $(if $(ARGS),run,run cluster_run spark_run shovels)

bench: $(STAMP) ## measure beside RabbitMQ, write benchmarks/RESULTS.md, CLUSTER.md, SPARK.md, BRIDGES.md (PARTS=cluster_run ARGS="--rounds 2")
	@$(COMPILE)
	cd $(ROOT) && failed=; for part in $(PARTS); do $(RUN) -m benchmarks.$$part $(ARGS) || failed="$$failed $$part"; done; \
		$(RUN) -m benchmarks.readme_figures || failed="$$failed readme_figures"; \
		if [ -n "$$failed" ]; then echo "bench: failed:$$failed" >&2; exit 1; fi

bench-core: $(STAMP) ## CPU per message in process, without sockets (ARGS="--base ../old": against that checkout; ARGS=--instructions)
	@$(COMPILE)
	cd $(ROOT) && $(RUN) -m benchmarks.core_path $(ARGS)

clean: ## remove .venv and what tests and builds left behind (never var/)
	cd $(ROOT) && rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
