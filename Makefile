# `make` lists the targets. Everything is installed in .venv and written below build/ and site/.
# Another Python: make test PYTHON=python3.12. Another number of test workers: make test WORKERS=4.

PYTHON ?= python3
# Four for two cores: who waits for a process of its own leaves the core to others.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n + (n > 4 ? 4 : n))))
# When these are over, no test begins any more; 0: never.
MINUTES ?= 0
# What is drawn at random in the long targets; `make test` always draws the same.
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Nothing of the calling shell reaches the build: neither a module path nor options of another environment.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Daemons of the tests' clusters (slurmctld, sshd) are not on everybody's PATH.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
export GIT_TERMINAL_PROMPT := 0

VENV := .venv
BIN := $(VENV)/bin
# `$(VENV)/dev` compiles what is installed, on all cores.
INSTALL := $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --build-constraint constraints.txt
PYTEST := $(BIN)/python -m pytest -rs --summary --numprocesses=$(WORKERS)
# What one edit breaks most often; prompts, updates and the wheel take longer. One worker per core: each
# has torch to import.
QUICK := $(addprefix tests/,product/test_programs.py product/test_equality.py product/test_files.py \
    $(addprefix generator/test_,answers.py cli.py detect.py questions.py render.py))
SLOW := test_types or sigkill or parallel or signal or agrees or put_together or compiling_once or hanging_and \
    or closed or hides or comes_to
TEMPLATE := $(shell find ddpgen template -type f -not -path '*/__pycache__/*')

.PHONY: help
help:    ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: demo
demo: build/demo/.installed    ## generate a project, train it on two processes, show what it learnt
	@rm -rf build/demo/runs/demo
	@echo "--- python train.py --processes 2 run.name=demo"
	@cd build/demo && ../../$(BIN)/python train.py --processes 2 run.name=demo </dev/null
	@$(BIN)/python tests/quality/summary.py build/demo/runs/demo

.PHONY: test
test: prepared    ## lint, types, generator, every program trained, real clusters; of long tests a share, another at each commit
	$(PYTEST) -rsR --reruns=1 --turns --minutes=$(MINUTES) </dev/null

.PHONY: whole
whole: prepared    ## the same with all long tests; writes tests/seconds.json, which says what takes long
	$(PYTEST) -rsR --reruns=1 --page=tests/seconds.json </dev/null

.PHONY: prepared
prepared: $(VENV)/docs
	@$(MAKE) --no-print-directory --jobs=2 --output-sync worked-out $(VENV)/dev lint clusters-installed

.PHONY: quick
quick: lint $(VENV)/dev    ## after every change: lint, types, generator, one program of each model
	$(PYTEST) --numprocesses=auto --maxprocesses=8 $(QUICK) --programs=few -k "not ($(SLOW))" </dev/null

.PHONY: lint
lint: $(VENV)/installed    ## style and types of ddpgen itself
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict ddpgen

# Schedulers and a browser for the tests.
.PHONY: clusters-installed
clusters-installed:
	@if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then tests/clusters/install.sh; tests/web/install.sh; fi

# What every worker of the tests would wait for. Tests start ddpgen a thousand times, and let Python write no
# compiled files.
.PHONY: worked-out
worked-out: $(VENV)/installed
	@$(BIN)/python -m compileall -q ddpgen
	@cd tests && ../$(BIN)/python -m product

.PHONY: matrix
matrix: $(VENV)/dev    ## each program trained with each tracker and tool, every mistake put in; writes docs/matrix.md and mutants.md
	$(PYTEST) tests/product tests/clusters/test_files.py tests/check/test_rendered.py tests/mutants --seed=$(SEED) --thorough --programs=all \
	    --own-tests=pairs --mutants=all --page=docs/matrix.md --page=docs/mutants.md </dev/null

.PHONY: gpu-bundle
gpu-bundle: $(VENV)/dev    ## a folder of programs that any machine with GPUs, Python and PyTorch can train: build/gpu
	@cd tests && ../$(BIN)/python -m gpu ../build/gpu

.PHONY: gpu
gpu: gpu-bundle    ## train them on the GPUs of this machine, run projects' own tests; writes docs/gpu.json and docs/gpu.md
	@cd build/gpu && ../../$(BIN)/python run.py --own-tests --results=../../docs/gpu.json </dev/null
	@cd tests && ../$(BIN)/python -m gpu.page ../docs/gpu.json ../docs/gpu.md

.PHONY: clusters
clusters: $(VENV)/dev    ## real clusters: jobs preempted, nodes lost, networks cut, 64 nodes; writes docs/clusters.md
	@if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then tests/clusters/install.sh; fi
	$(BIN)/python -m pytest -rs --summary tests/clusters --thorough --page=docs/clusters.md </dev/null

.PHONY: update-tests
update-tests: $(VENV)/dev    ## updates from every release to every later one, and of 500 randomly edited projects
	$(PYTEST) tests/update --updates=all --edits=500 --seed=$(SEED) </dev/null

.PHONY: attack
attack: $(VENV)/dev    ## 10,000 hostile sets of answers; commands killed at random moments, full disks, races
	$(PYTEST) tests/attack --thorough --attacks=10000 --kills=40 --seed=$(SEED) </dev/null

.PHONY: faults
faults: $(VENV)/dev    ## put mistakes into ddpgen itself, one at a time: our own tests have to notice
	$(PYTEST) tests/faults --faults </dev/null

.PHONY: mutants
mutants: $(VENV)/dev    ## put every mistake of the catalogue, and 450 made by syntax, into projects; writes docs/mutants.md
	@cd tests && ../$(BIN)/python -m mutants.systematic 150 $(SEED) </dev/null
	$(PYTEST) tests/mutants --mutants=all --page=docs/mutants.md </dev/null

.PHONY: quality
quality: $(VENV)/dev    ## train the defaults of all model families, compare with the goals, write docs/quality.md
	@$(BIN)/python tests/quality/measure.py </dev/null

.PHONY: chaos
chaos: $(VENV)/dev    ## kill, stop and damage runs 1,000 times, resume each, compare; write docs/chaos.md
	@cd tests && ../$(BIN)/python -m chaos </dev/null

.PHONY: goodput
goodput: $(VENV)/dev    ## two hours of a job on four hosts with faults, and nobody there; writes docs/goodput.md
	@if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then tests/clusters/install.sh; fi
	@cd tests && ../$(BIN)/python -m goodput </dev/null

.PHONY: bench
bench: $(VENV)/bench    ## the generated project beside other loops and libraries, twenty minutes; writes docs/bench.md
	@rm -rf build/bench
	@cd tests && ../$(BIN)/python -m bench </dev/null

.PHONY: scaling
scaling: $(VENV)/dev    ## predict steps on other ranks, rates and sizes, then measure; writes docs/scaling.md
	@cd tests && ../$(BIN)/python -m scaling_lab </dev/null

.PHONY: scale
scale: $(VENV)/dev    ## count what ranks send in worlds of 4 to 64, ten minutes; writes docs/scale.md
	@cd tests && ../$(BIN)/python -m scale_lab </dev/null

.PHONY: docs
docs: $(VENV)/docs    ## build the documentation in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html; with search: $(PYTHON) -m http.server --directory site"

.PHONY: site
site: $(VENV)/docs    ## the documentation, and beside it the page of `ddpgen web` as static files: site/try (needs npm)
	@TRY=try NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@$(BIN)/python .ci/page.py site/try
	@echo "put site/ on any web server; here: $(PYTHON) -m http.server --directory site"

.PHONY: versions
versions: $(VENV)/torch    ## own tests with the oldest and the newest PyTorch, 16 GB of environments; writes docs/versions.md
	@WORKERS=$(WORKERS) $(BIN)/python .ci/versions.py </dev/null

.PHONY: release
release: $(VENV)/dev    ## make a release: VERSION=0.2.0; refused unless everything fits
	@$(BIN)/python .ci/release.py $(VERSION)

.PHONY: clean
clean:    ## remove everything that was built, the virtual environment too
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# --- What the targets stand on ------------------------------------------------------------------

build/demo/.installed: $(VENV)/ddpgen $(TEMPLATE)
	@rm -rf build/demo
	@$(BIN)/ddpgen new build/demo --defaults --data tools=predict
	@echo "--- pip install build/demo (what the project depends on)"
	@$(INSTALL) ./build/demo
	@touch $@

# The virtual environment with PyTorch. Where pip is not told where to look (index-url, find-links) and there is no
# GPU, uv finds the build for CPUs: the default one brings several gigabytes of CUDA. Where uv cannot reach it, pip
# takes what it finds.
$(VENV)/torch: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or later is needed: make PYTHON=python3.12 ..." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	    { [[ $$(id -u) == 0 ]] && apt-get update -qq && apt-get install -qq --yes python3-venv; } || \
	    { echo "Python's venv is incomplete: install the package python3-venv" >&2; exit 2; }
	@echo "--- virtual environment in $(VENV), with PyTorch"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --constraint constraints.txt pip
	@if command -v nvidia-smi >/dev/null || $(BIN)/pip config list | grep -qE 'index-url|find-links'; then \
	    $(INSTALL) torch; \
	else \
	    $(INSTALL) uv; \
	    $(BIN)/uv pip install --quiet --python $(BIN)/python --torch-backend=cpu --constraint constraints.txt torch || \
	        $(INSTALL) torch; \
	fi
	@touch $@

$(VENV)/ddpgen: $(VENV)/torch pyproject.toml
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/installed: $(VENV)/ddpgen
	@echo "--- what the tests need"
	@$(INSTALL) --group dev
	@touch $@

# Tests start Python many thousand times, and let Python write no compiled files. A library may hold files for other versions of Python.
$(VENV)/dev: $(VENV)/installed
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	@touch $@

$(VENV)/bench: $(VENV)/dev
	@$(INSTALL) --group bench
	@touch $@

$(VENV)/docs: $(VENV)/installed
	@$(INSTALL) --group docs
	@touch $@
