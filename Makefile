# Everything starts here. The first target that needs it sets up .venv; later ones use it as it is.
#   make demo         set up, then run the whole loop and write its report
#   make test         set up, then run the tests, two processes beside each other; make test-all: the slow ones too
#   make test-reach   set up a second environment with file formats, Gymnasium, OpenEnv, verifiers, Ray, TRL and
#                     trackers, and a third one with the gateway's clients, then run every test that needs them
#                     (ten minutes), and write the date into docs/results.md
#   make check        format, lint, types, import layers, size caps, generated docs
# Settings: PYTHON=python3.12 picks the interpreter; TORCH_INDEX=https://download.pytorch.org/whl/cpu takes torch
# from that index (a smaller build without CUDA) and everything else from where pip looks anyway.

VENV := .venv
READY := $(VENV)/.ready
REACH := .venv-reach
CLIENTS := .venv-clients
PYTHON ?= python3
TORCH_INDEX ?=
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install
TORCH := $(shell sed -n '/^torch==/p' requirements.lock)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-reach check format docs model clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@command -v "$(PYTHON)" > /dev/null || { \
	  echo "$(PYTHON) is not there. Install Python 3.11, 3.12 or 3.13 (Debian, Ubuntu: apt install python3 python3-venv)"; \
	  echo "or name one: make PYTHON=/path/to/python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { \
	  echo "$(PYTHON) is $$("$(PYTHON)" --version 2>&1), Upturn needs Python 3.11, 3.12 or 3.13."; \
	  echo "Install one and name it: make PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: apt install python3-venv"; exit 1; }
	@echo "setting up $(VENV) (once; a few minutes, mostly torch) ..."
	@test -x $(VENV)/bin/python || "$(PYTHON)" -m venv $(VENV)
	$(if $(TORCH_INDEX),$(PIP) --no-deps --index-url "$(TORCH_INDEX)" $(TORCH))
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --editable .
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null || { \
	  echo "PostgreSQL is missing, which half of the pool's tests need; installing it where this user may ..."; \
	  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql; } \
	    > /dev/null 2>&1 || echo "it is not installed, and those tests are skipped: apt install postgresql"; }
	@touch $(READY)

demo: $(READY)
	$(VENV)/bin/upturn demo

model: $(READY)
	$(VENV)/bin/upturn model build-nano
	$(VENV)/bin/upturn model build-tagger

test: $(READY)
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile

test-all: $(READY)
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile -m "" --hypothesis-profile=search

# What these bring does not go together with what is locked, so .venv only lies below it.
$(REACH)/.ready: requirements-reach.lock $(READY)
	$(VENV)/bin/python -m venv $(REACH)
	$(VENV)/bin/python tools/reach.py install $(REACH)
	@touch $@

# The clients of the gateway share nothing with what is locked: they are programs of their own.
$(CLIENTS)/.ready: requirements-clients.lock $(READY)
	$(VENV)/bin/python -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip --disable-pip-version-check install --no-deps -r requirements-clients.lock
	@touch $@

test-reach: $(REACH)/.ready $(CLIENTS)/.ready
	PYTHONPATH=src $(REACH)/bin/python tools/reach.py test

check: $(READY)
	$(VENV)/bin/ruff format --check src benchmarks tests tools
	$(VENV)/bin/ruff check src benchmarks tests tools
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python tools/check_sizes.py
	$(VENV)/bin/python tools/make_docs.py --check

format: $(READY)
	$(VENV)/bin/ruff format src benchmarks tests tools
	$(VENV)/bin/ruff check --fix src benchmarks tests tools

docs: $(READY)
	$(VENV)/bin/python tools/make_docs.py

clean:
	rm -rf $(VENV) $(REACH) $(CLIENTS) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
