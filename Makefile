PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run install dev check fmt test bench clean

run: install            ## a voice at http://127.0.0.1:8000
	$(BIN)/sori serve

install: $(VENV)/.installed   ## virtual environment and package
dev: $(VENV)/.dev             ## and what tests and checks need

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e .
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

check: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: dev
	sh tests/prepare.sh
	$(BIN)/pytest

bench: install
	$(BIN)/sori bench voice
	$(BIN)/sori bench cascade

clean:
	rm -rf $(VENV) build *.egg-info
