# Two commands matter: `make demo` and `make test`. Both set everything up by themselves.
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
AWS_VENV := .venv-aws
CLI_VENV := .venv-cli
BIN := $(abspath $(VENV))/bin
PY := $(BIN)/python
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-emit-index-url --no-header --upgrade
# Distributions beside the library, each with its tests and a Makefile. To do without the kit, delete
# its folder and its name here. The demo and the deployed tests need the emulator.
BESIDE := emulator conformance
RUNTIME_LOCK := once/cdk/packaging/requirements.txt
UNIT := tests $(addprefix --ignore=tests/, e2e integration proof wheel demo/scenarios/test_soak.py)
# Files of tests/once that take over three CPU seconds by themselves: simulations of cost and of a switch.
SLOW := $(addprefix tests/once/, batch/test_group_size.py commit/test_former_records.py)
# Python compiles what is imported; to compile all that is installed takes half of an installation.
PIP_INSTALL := install --quiet --disable-pip-version-check --no-compile --require-hashes
# uv takes a tenth of pip's time. Where only pip's own configuration leads to the packages, pip installs.
INSTALL = $(BIN)/uv pip install --quiet --require-hashes --python $(1) -r $(2) || \
	$(PY) -m pip --python $(1) $(PIP_INSTALL) -r $(2)

# Many processes import the same packages: none may compile them anew each time.
unexport PYTHONDONTWRITEBYTECODE

# Node, npm and the CDK come from the virtual environment, before whatever the machine has.
export PATH := $(BIN):$(abspath node_modules)/.bin:$(PATH)
export JSII_RUNTIME_PACKAGE_CACHE_ROOT := $(abspath .cache/jsii)
export JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION := 1
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
# Nothing is compiled beforehand: with this set, each process would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup installed demo lab test types tests check docs coverage lint unit bench sim crashpoints fuzz soak mutants audit wheels synth bootstrap deploy lock clean verify redraw

help: ## what there is to run
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:
	@$(MAKE) --no-print-directory -j2 installed

installed: $(VENV)/.ready $(AWS_VENV)/.ready node_modules/.ready
	@:

demo: setup ## deploy into an embedded AWS, send 500 orders with faults, audit (SCENARIO=outage|hostile|fifo|webhooks|region, KEEP=1, SEED=… of the last three)
	@$(PY) -m demo run

lab: setup ## known ways to process an order once, under every fault (APPROACH=, FAULT=: one cell in words; LOAD=1000)
	@$(PY) -m lab

test: setup ## ruff, mypy --strict, and every test
	@echo "ruff"   && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory -j2 types tests  # pytest takes half a minute to begin on all cores

types: installed
	@echo "mypy"   && $(BIN)/mypy

tests: installed $(CLI_VENV)/.ready
	@$(BIN)/pytest --collect-only -qq $(TESTS) >/dev/null || :  # what all workers import is compiled once
	@$(BIN)/pytest -n 3 $(TESTS)

lint: setup ## ruff and mypy alone
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

check: setup ## ruff, mypy, the contracts of imports, and the tests of the library without the slow files: a minute, once warm
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pytest -q -n 2 tests/once tests/architecture/test_contracts.py $(SLOW:%=--ignore=%)

unit: setup ## the tests that need no sockets
	@$(BIN)/pytest $(UNIT)

coverage: setup ## the share of once/ that the tests without an embedded AWS run; writes reports/coverage.json
	@$(BIN)/pytest -n 2 --cov --cov-report= $(UNIT) --ignore=tests/demo --ignore=tests/benchmarks
	@mkdir -p reports
	@percent=$$($(BIN)/coverage report --format=total --precision=1) && \
	printf '{"percent": %s}\n' "$$percent" | tee reports/coverage.json

docs: setup ## the documentation site, into build/site; its links and anchors are checked (LINKS=1: those to other sites too)
	@$(PY) -m sphinx -q -W --keep-going -b html -d build/doctrees -c docs/site . build/site
	@$(if $(LINKS),$(PY) -m sphinx -q -W --keep-going -b linkcheck -c docs/site . build/links)
	@echo "build/site/index.html"

redraw: synth ## redraw what follows from code and templates: package map, costs, pictures; those of the console from a run of the demo
	@$(PY) -m docs.tools.package_map && $(PY) -m docs.tools.costs && $(PY) -m docs.tools.dashboard && $(PY) -m docs.site.settings_reference && $(PY) -m demo.pictures
	@$(PY) -m tests.stacks.test_declared
	@$(PY) -m demo run --pictures

bench: setup ## what each way of handling a batch costs; writes reports/bench.json (ten minutes; WRITE=1: docs/performance.md too)
	@$(PY) -m benchmarks

sim: setup ## the handlers explored in small scopes, and run by seeds; writes reports/sim.json (REPLAY=file)
	@$(PY) -m proof sim

crashpoints: setup ## a fault at every call site, and at every two; writes reports/crashpoints.json
	@$(PY) -m proof crashpoints

fuzz: setup ## a million inputs for the parsers; writes reports/fuzz.json (REPLAY=file)
	@$(PY) -m proof fuzz

soak: setup ## 5,000 sends, processes killed, answers dropped; writes reports/soak.json (SEED=…)
	@$(PY) -m demo run --scenario soak

mutants: setup ## small faults in the code, which tests must notice; writes reports/mutants.json
	@$(PY) -m proof mutants

audit: setup ## vulnerabilities, licences and secrets, and bills of materials in reports/sbom; writes reports/audit.json
	@$(PY) -m proof audit

wheels: setup ## the wheels of a release, into dist (TAG=v1.2.3 must be their version)
	@$(PY) -m proof wheels

verify: setup ## on real AWS, in your own account: deploy, observe, delete (ACCOUNT=, YES=1, CLEAN=prefix); writes reports/verify.json
	@ACCOUNT="$(ACCOUNT)" YES="$(YES)" CLEAN="$(CLEAN)" $(PY) -m proof verify

synth: setup ## the CloudFormation templates, into cdk.out
	@cdk synth --quiet

bootstrap: setup ## prepare the AWS account that your credentials name, once
	cdk bootstrap

deploy: setup ## into the AWS account your credentials name; records names in stacks/deployed.json (STACK=name: that one alone)
	cdk deploy $(if $(STACK),$(STACK) --exclusively,--all) --outputs-file cdk.out/outputs.json
	@$(PY) app.py record cdk.out/outputs.json

lock: setup ## resolve the requirements anew, and lock them with hashes
	@$(LOCK) pyproject.toml -o $(RUNTIME_LOCK)
	@$(BIN)/once lock --upgrade
	@for own in tests/e2e/functions/*/requirements.in; do $(LOCK) $$own -o $${own%.in}.txt; done
	@$(LOCK) pyproject.toml --extra cdk --extra ops functions/*/requirements.in \
		-c $(RUNTIME_LOCK) -o requirements.txt
	@$(LOCK) pyproject.toml --all-extras functions/*/requirements.in requirements-dev.in \
		tests/e2e/functions/*/requirements.in -c requirements.txt -o requirements-dev.txt
	@$(LOCK) emulator/requirements.in -o emulator/requirements.txt
	@$(LOCK) tests/e2e/requirements.in -o tests/e2e/requirements.txt
	@npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund

clean: ## everything that was generated
	rm -rf $(VENV) $(AWS_VENV) $(CLI_VENV) node_modules .cache build cdk.out dist reports

$(VENV)/.ready: requirements-dev.txt $(BESIDE:%=%/pyproject.toml)
	@echo "installing Python packages ($(VENV))"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Once needs Python 3.11 or newer: make PYTHON=python3.x")'
	@$(PYTHON) -m venv --clear $(VENV)
	@awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements-dev.txt | $(PY) -m pip $(PIP_INSTALL) -r /dev/stdin
	@$(call INSTALL,$(PY),requirements-dev.txt)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . $(BESIDE:%=-e %)
	@touch $@

$(AWS_VENV)/.ready: emulator/requirements.txt | $(VENV)/.ready
	@echo "installing the embedded AWS ($(AWS_VENV))"
	@$(PYTHON) -m venv --clear --without-pip $(AWS_VENV)
	@$(call INSTALL,$(AWS_VENV)/bin/python,emulator/requirements.txt)
	@touch $@

$(CLI_VENV)/.ready: tests/e2e/requirements.txt | $(VENV)/.ready
	@echo "installing the command lines of AWS and SAM, for tests ($(CLI_VENV))"
	@$(PYTHON) -m venv --clear --without-pip $(CLI_VENV)
	@$(call INSTALL,$(CLI_VENV)/bin/python,tests/e2e/requirements.txt)
	@touch $@

node_modules/.ready: package-lock.json $(VENV)/.ready
	@echo "installing the CDK's command line (node_modules)"
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $@
