# `make demo` and `make test` need only Python 3.11+ and git: each sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SHARED ?=
FUZZ_MINUTES ?= 10
COVERED ?= 95

.PHONY: demo demo-team test test-all shape fuzz check fix docs docs-check docs-site packages lint types imports bench bench-operations bench-hook bench-scale bench-postgres bench-team bench-peers bench-protocol release-check e2e e2e-router e2e-ui eval coverage mutants clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Two repositories and two people at one server over HTTP, each told only what is theirs.
demo-team: $(STAMP)
	$(BIN)/python examples/demo_team.py

# The tests of everyday work, in as many processes as there are processors.
test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" --hypothesis-profile=quick

# All tests: also the ones of many processes, and properties with all their examples.
test-all: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal

# How large the code is and how long its paths are, each measure beside the bound that `make test` holds it to.
shape: $(STAMP)
	$(BIN)/python -m tests.shape $(MEASURE)

# Inputs made at random: new examples for every property, then FUZZ_MINUTES for each target; FUZZ="--target edits --seed 7"
# chooses. What breaks a target is kept below tests/fuzz/found, which the tests replay.
fuzz: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal -m hypothesis --hypothesis-profile=random
	SCRIMSHAW_ALL_NAUGHTY=1 $(BIN)/python -m pytest tests/app/test_naughty.py
	$(BIN)/python -m tests.fuzz.run --minutes $(FUZZ_MINUTES) $(FUZZ)

# The share of the lines that the tests of the rooms reach; fails below COVERED percent in one of them.
coverage: $(STAMP)
	$(BIN)/python -m pytest tests/ingest tests/search tests/storage tests/engine tests/session --hypothesis-profile=ci \
		--cov=scrimshaw.ingest --cov=scrimshaw.search --cov=scrimshaw.storage --cov-report=
	@low=0; for room in ingest search storage; do \
		$(BIN)/coverage report --include="src/scrimshaw/$$room/*" --skip-covered --show-missing \
			--fail-under=$(COVERED) || low=1; done; exit $$low

# Small changes to the code that no test may survive; what survives is judged in docs/mutants.md.
mutants: $(VENV)/.mutation
	$(BIN)/mutmut run --max-children 1
	$(BIN)/python -m benchmarks.mutants

# `make check test-all` runs all tests, and those of everyday work only once.
check: lint types imports $(if $(filter test-all,$(MAKECMDGOALS)),,test) docs-check

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/python -m docs.generate

docs-check: $(STAMP)
	$(BIN)/python -m docs.generate --check

# The pages of docs/ as a site in build/site; the only target that needs MkDocs, which it installs.
docs-site: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group site
	$(BIN)/python -m mkdocs build --strict

# What clients install by their own means, in build/packages; judged by the clients that are there.
packages: $(STAMP)
	$(BIN)/python -m docs.packages
	@if command -v claude >/dev/null; then claude plugin validate build/packages/claude; fi
	@if command -v gemini >/dev/null; then gemini extensions validate build/packages/gemini; fi

# Figures beside bare baselines of the same run. SHARED=DIR (with data/serena-memories.tar.gz) measures on real data.
bench: $(STAMP) $(if $(SHARED),.bench/serena-memories)
	$(BIN)/python -m benchmarks.targets
	$(BIN)/python -m benchmarks.run $(if $(SHARED),--data .bench/serena-memories --asked $(SHARED)/data/serena-queries-dev.jsonl) $(BENCH)

# Processor time of single operations; AGAINST=DIR names another checkout with a .venv, and both take turns.
bench-operations: $(STAMP)
	$(BIN)/python -m benchmarks.operations $(if $(AGAINST),--against $(AGAINST))

# What a hook costs, alone and a hundred at once, and what the hook pipeline adds to a tool call.
bench-hook: $(STAMP)
	$(BIN)/python -m benchmarks.hooks
	$(BIN)/python -m benchmarks.pipeline

# A hybrid search beside its parts at 5,000, 100,000 and a million passages; twenty minutes and 8 GB of disk.
bench-scale: $(STAMP)
	$(BIN)/python -m benchmarks.scale $(SCALE)

# Many clients on a PostgreSQL server beside plain SQL: SCALE="--passages 100000 --minutes 5 --data DIR --folder DIR"
bench-postgres: $(STAMP)
	$(BIN)/python -m benchmarks.postgres_scale $(SCALE)

# Many clients of a server for a team, over HTTP: TEAM="--clients 64 --minutes 5 --engine postgres"
bench-team: $(STAMP)
	$(BIN)/python -m benchmarks.team $(TEAM)

# Other memories and search programs on the same judged notes, each in an environment of its own, which the first run
# makes with pip; some 20 minutes of processor time. PEERS="--only agentrecall --set CoSQA"
bench-peers: $(STAMP) .bench/judged
	$(BIN)/python -m benchmarks.peers .bench/judged $(PEERS)

# A search over MCP beside the plainest hybrid one that a server of the same SDK can offer.
bench-protocol: $(STAMP) $(if $(SHARED),.bench/serena-memories)
	$(BIN)/python -m benchmarks.protocol $(if $(SHARED),--data .bench/serena-memories --asked $(SHARED)/data/serena-queries-dev.jsonl)

# What users install: built, installed in a clean environment, measured, and the demo run from it.
release-check: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group release
	$(BIN)/python -m benchmarks.release

# Real agent clients against a scripted model; SHARED=DIR is the folder that holds `clients/`. Needs npm. ONLY='next-*'
# runs some lines.
e2e: $(STAMP)
	$(BIN)/python -m tests.e2e.run $(if $(SHARED),--shared $(SHARED)) $(if $(ONLY),--only '$(ONLY)')

# Searches beside a real Forgetful, which the first run installs, and copies in it: what happens when it dies; and one
# folder of memories that a real Serena and Scrimshaw both write
e2e-router: $(STAMP)
	$(BIN)/python -m tests.e2e.router
	$(BIN)/python -m tests.e2e.router_sync
	$(BIN)/python -m tests.e2e.serena

# The dashboard in a real browser, every page with axe-core; needs Chromium, its driver, and npm. A picture of each page is
# left in .e2e/ui; PICTURES=1 draws those of the documentation.
e2e-ui: $(STAMP) .e2e/ui/node_modules
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group browser
	$(BIN)/python -m tests.e2e.dashboard $(if $(PICTURES),--pictures)

.e2e/ui/node_modules:
	mkdir -p .e2e/ui && cd .e2e/ui && npm install --silent --no-fund --no-audit --ignore-scripts axe-core

# Search quality on judged queries, then on every judged set in every way to search: make eval SHARED=DIR
eval: $(STAMP) .bench/serena-memories .bench/judged
	$(BIN)/scrimshaw eval search --vault .bench/serena-memories --queries $(SHARED)/data/serena-queries-dev.jsonl \
		--exclude '*-index'
	$(BIN)/scrimshaw eval sets .bench/judged --folder .bench/vaults

.bench/judged:
	@test -n "$(SHARED)" || { echo "Say where the data is: make $(MAKECMDGOALS) SHARED=DIR"; exit 2; }
	mkdir -p $@ && cp $(SHARED)/data/serena-queries-dev.jsonl $@
	for part in serena-memories speckit-workspace retrieval-sets locomo-dev beam-dev; do \
		tar xzf $(SHARED)/data/$$part.tar.gz -C $@ || exit 1; done

.bench/serena-memories:
	@test -n "$(SHARED)" || { echo "Say where the data is: make $(MAKECMDGOALS) SHARED=DIR"; exit 2; }
	mkdir -p .bench && tar xzf $(SHARED)/data/serena-memories.tar.gz -C .bench

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group dev
	@touch $(STAMP)

$(VENV)/.mutation: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group mutation
	@touch $@

clean:
	rm -rf $(VENV) .demo .demo-team .bench .e2e mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
