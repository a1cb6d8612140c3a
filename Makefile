# Each target sets up what it needs; the second time is quick.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Commands are started hundreds of times here, and compiling their modules takes longer than most of them do.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup api-fuzz browser-soak lua demo quick test check coverage hostile adversary dashboard corpora format docs alert-faults clickhouse-test chaos many-crawls bench bench-frontier wheel-test lock clean help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## virtual environment with the command at .venv/bin/shoal

# uv takes seconds where pip takes minutes. It does not read pip's settings: an index that only those name is left to pip.
$(VENV)/.ready: requirements/dev.txt requirements/setup.txt pyproject.toml
	@$(PY) -c 'import sys; sys.exit("setup: Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "setup: making $(VENV)"
	@test -x $(BIN)/python || $(PY) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/setup.txt
	@echo "setup: installing $$(grep -c '^[a-z].*==' requirements/dev.txt) pinned packages, those of the tests among them (700 MB on disk; half a minute, the first time)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
	  || { echo "setup: uv could not; pip tries, which takes a minute or two"; \
	       $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.txt; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# Compile what every command imports: otherwise the first one does, or each one where nothing can be written.
	@$(BIN)/python -m compileall -q -j 0 src/shoal
	@$(BIN)/shoal --help > /dev/null
	@$(BIN)/python -c 'import lxml.html, shoal.engine.embedded_run.run, shoal.parse.zygote'
	@touch $@
	@echo "setup: done; try $(BIN)/shoal --help"

demo: setup ## crawl a small shop on this machine and watch
	@$(BIN)/shoal demo

# More test processes than cores: most of the time of a test that runs servers or commands is waiting.
TEST_PROCESSES ?= $(shell expr 3 '*' $$(nproc))
PYTEST := $(BIN)/pytest --dist worksteal
# Two passes, the second one serial: tests marked `alone` judge times that a busy machine changes. Both run, whatever the
# first one finds. What failed runs once more, alone, until every test that only fails beside others is understood; both
# results are printed, and what fails alone has failed.
RESULTS := .cache/tests
define PASSES
mkdir -p $(RESULTS); code=0; \
$(PYTEST) -n $(TEST_PROCESSES) --junit-xml $(RESULTS)/beside.xml -m "not alone$(1)" || code=$$?; \
echo "test: the tests that need a quiet machine, one after another"; \
$(BIN)/pytest -n 0 --junit-xml $(RESULTS)/alone.xml -m "alone$(1)" || code=$$?; \
test $$code -eq 1 || exit $$code; \
echo "test: the tests that failed (named above) run once more, alone"; \
$(BIN)/pytest -n 0 --last-failed --last-failed-no-failures none --maxfail 1
endef

quick: setup ## lint, types and the tests that start no process: before every commit, under a minute
	@$(MAKE) --no-print-directory lint
	@$(BIN)/pytest -q -n auto tests/unit -m "not process and not needs_packages"

test: setup ## lint, types and every test, contracts on each backend once: before a change lands
	@$(MAKE) --no-print-directory lint
	@$(call PASSES, and not whole_matrix)

.PHONY: test-all
test-all: setup ## the same, and every contract in full on Redis, Sentinel and Cluster
	@$(MAKE) --no-print-directory lint
	@$(call PASSES)

.PHONY: durations
durations: setup ## write tests/durations.tsv from the last `make test` or `make test-all`
	@$(BIN)/python -m tests.durations $(RESULTS)/beside.xml $(RESULTS)/alone.xml

.PHONY: lint
lint:
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

coverage: setup ## lines and branches that the unit, integration and contract tests reach; writes coverage.xml
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@$(BIN)/coverage run -m pytest -q --dist worksteal -n $(TEST_PROCESSES) tests/unit tests/integration tests/contract
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report
	@$(BIN)/coverage xml -q

hostile: setup ## every hostile server, page, link and spider against the real command
	@$(BIN)/python -m tests.hostile

adversary: setup ## chosen fingerprints, hostile records, children and store entries, planted damage, slow stores: full size
	@ADVERSARY_SIZE=1 $(BIN)/pytest -q -s -n 2 --timeout 1800 tests/adversary

dashboard: setup ## every page of the dashboard in Chromium on 1,000,000 URLs and 10,000 hosts, in a folder and on Valkey, and how long requests take
	@DASHBOARD_SIZE=1000000 $(BIN)/pytest -q -s --timeout 3600 tests/integration/dashboard/test_fleet_pages.py -k large

corpora: setup ## real pages, real robots.txt files and a real site, fetched once (300 MB), in about ten minutes
	@CORPORA=whole $(BIN)/pytest -q -s --timeout 3600 tests/corpora

api-fuzz: setup ## 20,000 requests made up from the OpenAPI document of `shoal serve`: about half an hour
	@API_FUZZ_REQUESTS=20000 $(BIN)/pytest -q -s --timeout 7200 tests/integration/server/test_fuzz.py

check: format test ## format, then everything `make test` does

format: setup
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

lua: setup ## the Lua scripts as servers get them, in build/lua, checked
	@$(BIN)/python -m tests.repo.lua build/lua

docs: setup ## what the documentation shows of the code: the reference, and what commands print
	@$(BIN)/python -m docs.making

clickhouse-test: setup ## the documented import of the fetch log, on ClickHouse's engine; installs it into build/ (800 MB)
	@test -d build/clickhouse/chdb || $(BIN)/uv pip install --quiet --target build/clickhouse chdb==26.9.2
	@PYTHONPATH=build/clickhouse $(BIN)/python -m tests.clickhouse

alert-faults: setup ## every fault that an alert names, in a folder and in a fleet of real processes
	@ALERTS_EVERYWHERE=1 $(BIN)/pytest -q -n 2 --timeout 600 tests/e2e/test_alerts.py

chaos: setup ## the kill tests at full size, about a quarter of an hour: 20,000 pages each, alone and with a fleet
	@CHAOS_PAGES=20000 CHAOS_KILLS=30 $(BIN)/pytest -q --timeout 1200 tests/crash/test_kill.py tests/e2e/test_graph_crawl.py
	@CHAOS_SIZE=1 $(BIN)/pytest -q -s --timeout 1800 tests/crash/fleet

browser-soak: setup ## 1,000 pages in a row in a browser; rendered crawls, in a folder and on Redis, killed 30 times each; half an hour
	@BROWSER_PAGES=1000 BROWSER_KILLS=30 $(BIN)/pytest -q -s --timeout 3600 tests/crash/test_browser_soak.py tests/crash/test_browser_kill.py

many-crawls: setup ## 1,200 live crawls of 50 pages and a big one on two workers: time, processes, memory, connections
	@MANY_CRAWLS=1200 MANY_CRAWLS_PAGES=50 $(BIN)/pytest -q -s --timeout 3600 tests/crash/fleet/test_many_crawls.py

.PHONY: schedules
schedules: setup ## 500 schedules over simulated weeks in which clocks change, with three schedulers that are killed: some minutes
	@SCHEDULES=500 $(BIN)/pytest -q -s --timeout 3600 tests/unit/services/schedules/test_rules.py

.PHONY: simulate-faults
simulate-faults: setup ## 5,000 crawls in a folder and 1,500 of a fleet under virtual time, with faults, then every planted fault: a night
	@$(BIN)/python -m tests.simulation folder --seeds 1-5000 --jobs 2
	@$(BIN)/python -m tests.simulation fleet --seeds 1-1500 --jobs 2
	@$(BIN)/python -m tests.simulation --mutants all --jobs 2

.PHONY: mutants
mutants: setup ## change 500 places of the code that keeps the promises, one at a time: which changes does no test notice? A night
	@$(BIN)/python -m tests.mutation

.PHONY: autoscale
autoscale: setup ## a fleet that follows a bursty load beside a fixed one, on real processes: worker-seconds and time; ten minutes
	@$(BIN)/python -m bench.autoscale

.PHONY: recrawl
recrawl: setup ## a second generation of 10,000 pages that have not changed: CPU and bytes beside the first
	@SHOAL_RECRAWL_PAGES=10000 $(BIN)/pytest -q --timeout 1800 tests/e2e/test_recrawl_cost.py
	@$(BIN)/python -m bench.recrawl

bench: setup ## speed beside Scrapy and a minimal crawler, in one run; then HTTPS by client, crawls through exits, blocks, and a browser
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.https
	@$(BIN)/python -m bench.exits
	@$(BIN)/python -m bench.blocks
	@$(BIN)/python -m bench.browser

bench-frontier: setup ## what the frontier costs on Redis, beside designs often seen
	@$(BIN)/python -m bench.fleet

PIN := $(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-emit-index-url --python-version 3.11
FLEET := content metrics nats parquet postgres redis s3

wheel-test: setup ## build the wheel, install it alone into a new environment, run every command with it
	@rm -rf dist build/wheel-test
	@$(BIN)/python -m uv build --quiet --wheel --out-dir dist --no-build-isolation --python $(BIN)/python .
	@$(PY) -m venv build/wheel-test
	@$(BIN)/uv pip install --quiet --python build/wheel-test/bin/python --require-hashes -r requirements/core.txt
	@$(BIN)/uv pip install --quiet --python build/wheel-test/bin/python --no-deps dist/*.whl
	@cd build/wheel-test && bin/shoal --version && bin/python $(CURDIR)/tests/e2e/core_only.py && echo "wheel-test: passed"

lock: setup ## pin the newest packages that pyproject.toml allows
	$(PIN) pyproject.toml -o requirements/core.txt
	$(PIN) --all-extras --group dev pyproject.toml -o requirements/dev.txt
	$(PIN) $(addprefix --extra ,$(FLEET)) -c requirements/dev.txt pyproject.toml -o requirements/fleet.txt
	$(PIN) --group bench -c requirements/dev.txt -o requirements/bench.txt
	$(PIN) --group setup -c requirements/dev.txt -o requirements/setup.txt

clean: ## forget the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache coverage.xml
