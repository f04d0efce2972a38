# The verbs of the project. Every one works on a fresh clone with Python 3.11 or later and make.
#
#   make demo       show rebalances of real consumers, and why they happened (ARGS=--keep)
#   make serve      run a server (ARGS="--dev --listen 127.0.0.1:0" for more)
#   make test       the tests of a change: every layer, in some minutes (ARGS="tests/observe -k http" for fewer)
#   make test-all   every test: more client libraries, seeds, Pythons and sizes, too
#   make check      lint, format, types, import contracts, house limits, links, generated docs
#   make bench      measure, and write benchmarks/RESULTS.md
#   make bench-guard  speed, processor time and memory against a pinned commit (some ten minutes)
#   make parity     the transcripts of tests/parity, on Apache Kafka and on this server, compared
#   make simulate   an hour of a group under virtual time, for seeds 1 to N (ARGS="100", "seats 10000")
#   make mutants    small mistakes in the code, and the test that notices each (ARGS="tombstone", "--hour")
#   make suites     other projects' tests against a server (ARGS="franz-go sarama", or --help)
#   make fuzz       random and damaged requests for a minute (ARGS="600 SEED": seconds, seed; "logins 1000000")
#   make chaos      attacks on a server and damage to its files (ARGS="metadata-all", "damage", or --help)
#   make kills      kill -9 and restart under real clients, 200 times (ARGS="20", --seats, or --help)
#   make docs       regenerate the generated pages
#   make docs-site  the pages as a site in site/; a broken link is an error
#   make structure  files, lines and imports of each folder, cycles (ARGS="PATH" for another checkout)
#   make lock       resolve the lock files anew
#   make clean      remove the virtual environment and the tools' caches

PYTHON ?= $(firstword $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p; done) python3)
VENV ?= .venv
ARGS ?=
JOBS ?= $(shell nproc)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCK := $(BIN)/pip-compile --quiet --no-header --no-emit-index-url --no-emit-trusted-host \
	--no-emit-find-links --no-emit-options --strip-extras --generate-hashes --allow-unsafe --upgrade
# Nothing is installed or run that the lock files do not name with its hashes. The pip that looks at them
# comes with the interpreter.
INSTALL := $(PIP) install --require-hashes --no-build-isolation

# Stamps record what is installed, so that a second run starts at once.
CREATED := $(VENV)/.created
SERVER := $(VENV)/.server
DEV := $(VENV)/.dev
SITE_VENV := $(VENV)-docs

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-all check format bench bench-guard parity simulate mutants fuzz chaos kills suites docs docs-site structure lock clean

help:
	@sed -n '3,22s/^# *//p' $(firstword $(MAKEFILE_LIST))

demo: $(SERVER)
	@exec $(BIN)/groupkeeper demo $(ARGS)

serve: $(SERVER)
	@exec $(BIN)/groupkeeper serve $(ARGS)

test: $(DEV)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --short $(ARGS)

test-all: $(DEV)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest --quiet tests/test_tidy.py tests/test_docs.py
	@set -e; for generator in $(wildcard docs/generate_*.py); do \
		echo "$$generator --check"; $(BIN)/python $$generator --check; done

# Formatted first, as a line that is too long is an error that `check` cannot mend; and again, as mended
# imports may fit on fewer lines.
format: $(DEV)
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python -m benchmarks $(ARGS)

bench-guard: $(DEV)
	@$(BIN)/python -m benchmarks.guard $(ARGS)

parity: $(DEV)
	$(BIN)/python -m tests.parity $(ARGS)

simulate: $(DEV)
	$(BIN)/python -m tests.simulation.seeds $(ARGS)

mutants: $(DEV)
	$(BIN)/python -m tests.mutants $(ARGS)

suites: $(DEV)
	@$(BIN)/python -m tests.suites $(ARGS)

fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz $(ARGS)

chaos: $(DEV)
	@$(BIN)/python -m tests.chaos $(ARGS)

kills: $(DEV)
	@$(BIN)/python -m tests.kills $(ARGS)

docs: $(DEV)
	@set -e; for generator in $(wildcard docs/generate_*.py); do \
		echo "$$generator"; $(BIN)/python $$generator; done

docs-site: $(SITE_VENV)/.installed
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict

structure: $(DEV)
	@$(BIN)/python tools/structure.py $(ARGS)

lock: $(DEV)
	$(LOCK) --extra sasl --extra oauth --extra tls -o requirements/server.txt pyproject.toml
	$(LOCK) -c requirements/server.txt -o requirements/build.txt requirements/build.in
	$(LOCK) --extra analytics --extra dev -c requirements/server.txt -c requirements/build.txt \
		-o requirements/dev.txt pyproject.toml
	$(LOCK) -o requirements/docs.txt requirements/docs.in

clean:
	rm -rf $(VENV) $(SITE_VENV) site .bench .clients .suites .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(CREATED):
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
		f"Groupkeeper needs Python 3.11 or later, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(SERVER): requirements/build.txt requirements/server.txt pyproject.toml | $(CREATED)
	$(INSTALL) -r requirements/build.txt -r requirements/server.txt
	$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(DEV): requirements/dev.txt | $(SERVER)
	$(INSTALL) -r requirements/dev.txt
	@touch $@

$(SITE_VENV)/.installed: requirements/docs.txt
	$(PYTHON) -m venv $(SITE_VENV)
	$(SITE_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes \
		--only-binary :all: -r requirements/docs.txt
	@touch $@
