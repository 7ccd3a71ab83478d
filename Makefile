# Two commands matter to a newcomer: `make run` and `make test`. Every target sets up what it needs and is safe to repeat.
# `make quick` is for the minutes in between: a minute and a half, no root, nothing fetched or built beyond `setup`.
SHELL := /bin/sh
PY := .venv/bin/python
ARGS ?=
PEERS ?=
# Tests that may share the machine run side by side; the others (timing, kill -9, root) run after them, one at a time.
WORKERS ?= 2
PYTEST := $(PY) -m pytest
# with PEERS=1: where the real servers are, built if need be
BUILT = `$(PY) -m tools.gobuild $(1)`
PEER_PATHS = $(if $(filter 1,$(PEERS)),PEERS=1 TARMAC_PEER_APISERVER=$(call BUILT,kube-apiserver) TARMAC_PEER_ETCD=$(call BUILT,etcd) TARMAC_PEER_KUBECTL=$(call BUILT,kubectl) TARMAC_PEER_SCHEDULER=$(call BUILT,kube-scheduler) TARMAC_PEER_DEVICE_PLUGIN=$(call BUILT,sample-device-plugin),)

# Real containers need root; without it everything else works, and `run` simulates.
AS_ROOT := $(filter 0,$(shell id -u))

AS_ASKED = $(if $(findstring --registry,$(ARGS)),registry)

.PHONY: setup node-parts registry run quick test test-tools check bench soak lock format

setup: ## everything `run` needs: system packages when root, virtual environment, generated tables
	@tools/setup.sh

node-parts: setup ## what real nodes are made of: containerd, runc, gVisor (built once), images
ifneq ($(AS_ROOT),)
	@$(PY) -m tools.node_parts >/dev/null
endif

registry: setup ## what `up --registry` runs, for those who are not root
	@$(PY) -m tools.fetch_registry >/dev/null

run: setup node-parts $(AS_ASKED) ## everything in the foreground; flags go into ARGS
	@.venv/bin/tarmac up $(ARGS)

check: setup ## formatting, lint, strict types, import direction, house rules
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/basedpyright
	.venv/bin/lint-imports
	$(PY) -m tools.house_rules

test-tools: setup node-parts
	@$(PY) -m tools.fetch_etcd >/dev/null
	@$(PY) -m tools.fetch_prometheus >/dev/null
	@$(PY) -m tools.fetch_registry >/dev/null
	@$(PY) -m tools.gobuild kubectl >/dev/null # also where there is one: a newcomer without is offered it
ifeq ($(PEERS),1)
	@$(PY) -m tools.gobuild kube-apiserver etcd kube-scheduler sample-device-plugin >/dev/null
endif

# The packages that decide and those that speak to nothing but memory and loopback: 150 seconds of processor time on a busy machine.
QUICK := $(addprefix tests/,base api kubernetes tables decode openapi patch wire decide admission http client controllers cli tools)

quick: setup ## the inner loop: what needs no root, no containerd, no etcd and no program beside
	$(PYTEST) -n $(WORKERS) --dist loadfile -m "not serial and not root and not peers and not slow" $(QUICK) $(ARGS)

# How long a whole run took here the last time, so that the next can say so beforehand.
TOOK := .venv/test$(if $(filter 1,$(PEERS)),-peers).took

test: test-tools ## every test; PEERS=1 adds those against a real kube-apiserver, kube-scheduler and etcd 3.6
	@echo "every test: `cat $(TOOK) 2>/dev/null || echo 'about 45 minutes on two quiet processors'`; make quick takes less than two"
	@date +%s > $(TOOK).began
	$(PEER_PATHS) $(PYTEST) -n $(WORKERS) --dist loadfile -m "not serial" $(ARGS)
	$(PEER_PATHS) $(PYTEST) -m serial $(ARGS)
	@$(if $(ARGS),,echo "$$(( (`date +%s` - `cat $(TOOK).began` + 59) / 60 )) minutes the last time" > $(TOOK))

bench: test-tools ## a table of costs and ratios; PEERS=1 adds the column of the real thing
	$(PEER_PATHS) $(PY) -m benchmarks $(ARGS)

# The long versions: 1,000 kills of the server, 1,000 flipped bits, 100 killed leaders of etcd, 5,000 watches over a
# restart, every field of every kind at its largest, 10,000 seeds, 300 kills on nodes and 300 while volumes are mounted,
# 1,000,000 mutated requests, frames and packets.
SOAKED := tests/faults tests/sim tests/cost tests/fuzz/test_soak.py tests/node/test_chaos.py tests/volumes/test_kills.py

soak: test-tools ## the long version of everything that is killed or drawn at random
	TARMAC_SOAK=1 $(PEER_PATHS) $(PYTEST) -m "serial" $(SOAKED) $(ARGS)

format: setup
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lock: setup ## renew requirements.lock from pyproject.toml
	.venv/bin/uv pip compile pyproject.toml --all-extras --group dev --generate-hashes --no-header --no-annotate \
	    --python-version 3.11 --universal --upgrade -q -o requirements.lock
