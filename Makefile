# Farmhand's commands. `make` alone lists them. Everything they make lies in .venvs/ and var/.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export PYTHON YES FARM_DATA FARM_PORT

# In a recipe's shell, since $(shell) would not see PYTHON=...
python := $$(sh infra/house/python.sh)
farm   := .venvs/farm/bin/python
dev    := .venvs/dev/bin

.PHONY: help check-system envs env-% lock portal browser up down status env demo check format test bench faults clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check-system: ## See whether this machine has what must come from its own packages (YES=1 installs it)
	@sh infra/house/check-system.sh

envs: env-farm env-agent env-renderer env-dev env-node ## Make all Python environments (PYTHON=... chooses 3.11 or 3.13)

env-%: check-system
	@$(python) -m infra.house.environments $*

lock: env-boot ## Write requirements/ anew from the pyproject files (UPGRADE=1 takes newer versions)
	@$(python) -m infra.house.locks

portal: env-node ## Build the browser portal, if its sources changed
	@$(python) -m infra.house.portal build

up: env-farm env-agent env-renderer portal ## Start the farm on this machine
	@$(farm) -m infra.local up

down: ## Stop it; nothing stays behind but var/
	@if [ -x $(farm) ]; then $(farm) -m infra.local down; fi

status: ## Show what runs
	@if [ -x $(farm) ]; then $(farm) -m infra.local status; else echo "Farmhand does not run."; exit 4; fi

env: ## Print the environment of the running farm's processes, for a shell: eval "$(make env)"
	@$(farm) -m infra.local env

demo: up ## Render a sample scene through the farm (FRAMES=1-3, SCENE=/path/to.blend, FORMAT=EXR)
	@$(farm) -m infra.local.demo $(if $(FRAMES),--frames="$(FRAMES)") $(if $(SCENE),--scene="$(SCENE)") $(if $(FORMAT),--format="$(FORMAT)")

check: env-dev env-node ## Lint, types, import directions, locks, tracked files
	@sh infra/house/check.sh

format: env-dev ## Lay the code out as `make check` wants it
	@$(dev)/ruff check --quiet --fix . ; $(dev)/ruff format .

browser:
	@BROWSER=1 sh infra/house/check-system.sh

test: env-farm env-dev env-agent env-renderer portal browser ## Run the tests against a database and a broker of their own (PYTEST_ARGS=...)
	@$(dev)/python -m infra.local with-services -- $(dev)/pytest --ignore=tests/faults --ignore=tests/benchmarks $(PYTEST_ARGS)

bench: env-farm env-dev env-agent env-renderer ## Measure (ONLY=name: tests/benchmarks/bench_name.py)
	@sh infra/house/bench.sh $(ONLY)

faults: env-farm env-dev env-agent env-renderer ## Kill, pause and lose things in mid-job and count what comes out
	@$(dev)/python -m infra.local with-services -- $(dev)/pytest tests/faults $(PYTEST_ARGS)

clean: down ## Remove environments and caches; var/ stays
	@rm -rf .venvs frontend/portal/node_modules frontend/portal/dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
