# Two commands matter to a newcomer: `make run` and `make test`. Every target sets up what it needs and is safe to repeat.
# `make quick` is for the minutes in between: a minute and a half, no root, nothing fetched or built beyond `setup`.
SHELL := /bin/sh
PY := .venv/bin/python
ARGS ?=
PEERS ?=
# Most tests wait for a process, a kernel or a packet: five at once keep two cores busy, and collect twelve thousand tests
# once less than six.
WORKERS ?= 5
PYTEST := $(PY) -m pytest
# with PEERS=1: where the real servers are, built if need be
BUILT = `$(PY) -m tools.gobuild $(1)`
PEER_PATHS = $(if $(filter 1,$(PEERS)),PEERS=1 TARMAC_PEER_APISERVER=$(call BUILT,kube-apiserver) TARMAC_PEER_ETCD=$(call BUILT,etcd) TARMAC_PEER_KUBECTL=$(call BUILT,kubectl) TARMAC_PEER_SCHEDULER=$(call BUILT,kube-scheduler) TARMAC_PEER_DEVICE_PLUGIN=$(call BUILT,sample-device-plugin),)

# Real containers need root; without it everything else works, and `run` simulates.
AS_ROOT := $(filter 0,$(shell id -u))

AS_ASKED = $(if $(findstring --registry,$(ARGS)),registry) \
    $(if $(findstring --with-kubernetes-controllers,$(ARGS)),kubernetes-controllers)

.PHONY: docs setup test-setup node-parts machine-images registry kubernetes-controllers run package image gpu-trial pictures quick test test-tools check bench conformance soak lock format

setup: ## everything `run` needs: system packages when root, virtual environment, generated tables
	@tools/setup.sh

test-setup: ## the same with the tools of checks and tests
	@tools/setup.sh --tests

node-parts: setup ## what real nodes are made of: containerd, runc, gVisor (built once), images, a small system for virtual machines
ifneq ($(AS_ROOT),)
	@$(PY) -m tools.node_parts >/dev/null
endif

machine-images: node-parts ## Debian 12 for virtual machines, made once in a minute or two (as root); the small one is a part of nodes
ifneq ($(AS_ROOT),)
	@tools/setup.sh mmdebstrap
	@$(PY) -m tools.machine_images >/dev/null
endif

registry: setup ## what `up --registry` runs, for those who are not root
	@$(PY) -m tools.fetch_registry >/dev/null

kubernetes-controllers: setup ## what `up --with-kubernetes-controllers` runs, built once in about 5 minutes
	@$(PY) -m tools.fetch_kubernetes_controllers >/dev/null

run: setup node-parts $(AS_ASKED) ## everything in the foreground; flags go into ARGS
	@.venv/bin/tarmac up $(ARGS)

check: test-setup ## formatting, lint, strict types, import direction, house rules
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/basedpyright
	.venv/bin/lint-imports
	$(PY) -m tools.house_rules
	$(PY) -m tools.words
	$(PY) -m tools.names
	$(PY) -m tools.dashboard --check

test-tools: test-setup node-parts machine-images
ifneq ($(AS_ROOT),)
	@tools/setup.sh chromium # the dashboard is tried in it
	@$(PY) -m tools.debian_roots >/dev/null # the package is installed into them
endif
	@$(PY) -m tools.fetch_etcd >/dev/null
	@$(PY) -m tools.fetch_prometheus >/dev/null
	@$(PY) -m tools.fetch_registry >/dev/null
	@$(PY) -m tools.previous >/dev/null # the version before this one, to upgrade from
	@$(PY) -m tools.fetch_zsh >/dev/null # the TAB key is pressed in it
	@$(PY) -m tools.gobuild kubectl >/dev/null # also where there is one: a newcomer without is offered it
	@test -d tests/__pycache__ || env -u PYTHONDONTWRITEBYTECODE $(PYTEST) --collect-only -qq >/dev/null || true # compiled once, not by each worker; the run itself reports errors
ifeq ($(PEERS),1)
	@$(PY) -m tools.gobuild kube-apiserver etcd kube-scheduler sample-device-plugin helm >/dev/null
	@$(PY) -m tools.charts traefik >/dev/null
	@$(PY) -m tools.site --tools >/dev/null
	@$(PY) -m tools.fetch_kubernetes_controllers >/dev/null
endif

docs: setup ## the documentation as a searchable site, in build/site; fails on any warning
	@$(PY) -m tools.site

pictures: test-tools ## screenshots of the dashboard, for docs/pictures
	$(PY) -m tests.dashboard.pictures

package: setup node-parts $(AS_ASKED) ## dist/tarmac_VERSION_SYSTEM_amd64.deb and tarmac-machines: for this system, or ARGS=--all
	@$(PY) -m tools.package $(ARGS)

image: setup ## as root: dist/tarmac-image_VERSION_amd64.tar, the controllers as a container image, without a container engine
	@tools/setup.sh mmdebstrap
	@$(PY) -m tools.image

# From the noble package in dist alone: nothing is set up or fetched, so that a bare Ubuntu 24.04 is enough.
gpu-trial: ## on a machine with an NVIDIA GPU, as root: the story of a GPU and one table; flags go into ARGS
	@python3 -m tools.gputrial $(ARGS)

# The packages that decide and those that speak to nothing but memory and loopback: 150 seconds of processor time on a busy machine.
QUICK := $(addprefix tests/,base api kubernetes tables decode openapi patch wire decide admission http client controllers cli tools)

quick: test-setup ## the inner loop: what needs no root, no containerd, no etcd and no program beside
	$(PYTEST) -n 2 -m "not serial and not root and not peers and not slow" $(QUICK) $(ARGS)

# At most so many tests that failed are run once more, by themselves; whichever pass then are named.
SECOND_LOOK ?= 0
# How long a whole run took here the last time, so that the next can say so beforehand.
TOOK := .venv/test$(if $(filter 1,$(PEERS)),-peers).took

test: test-tools ## every test; PEERS=1 adds those against a real kube-apiserver, kube-scheduler and etcd 3.6
	$(PEER_PATHS) $(PY) -m tools.every_test --workers $(WORKERS) --took $(TOOK) --second-look $(SECOND_LOOK) $(ARGS)

bench: test-tools ## a table of costs and ratios; PEERS=1 adds the column of the real thing
	$(PEER_PATHS) $(PY) -m benchmarks $(ARGS)

conformance: test-setup kubernetes-controllers ## Kubernetes' conformance specs of the server, about 45 minutes; flags go into ARGS
	@$(PY) -m tests.conformance $(ARGS)

# A part of it: make soak ARGS=tests/store.
soak: test-tools ## the long version of every test that kills, damages or draws at random; says first how long it takes
	TARMAC_SOAK=1 $(PEER_PATHS) $(PYTEST) -m "soak or hypothesis" $(ARGS)

format: test-setup
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

lock: test-setup ## renew requirements.lock, requirements-run.lock and requirements-docs.lock from pyproject.toml
	.venv/bin/uv pip compile pyproject.toml --all-extras --group dev --generate-hashes --no-header --no-annotate \
	    --python-version 3.11 --universal --upgrade -q -o requirements.lock
	.venv/bin/uv pip compile pyproject.toml --all-extras --group build --generate-hashes --no-header --no-annotate \
	    --python-version 3.11 --universal -q -c requirements.lock -o requirements-run.lock
	.venv/bin/uv pip compile --group docs --generate-hashes --no-header --no-annotate \
	    --python-version 3.11 --universal --upgrade -q -o requirements-docs.lock
