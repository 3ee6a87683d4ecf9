# make book   build the book and serve it on this machine (SERVE=0 only builds)
# make lab    JupyterLab on the labs
# make test   everything that continuous integration runs
# make check  lint, types, layering, stale files; under a minute
# For a new number, figure, task or chapter see CONTRIBUTING.md.

PYTHON ?= python3
SERVE ?= 1
PORT ?= 8000
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CONSTRAINED := --constraint requirements.txt

.PHONY: book lab test check bench notebooks new clean system-packages
.DELETE_ON_ERROR:

book: .venv/book.stamp
	$(BIN)/jupyter-book build . -W -n --keep-going --quiet
	@echo "The book is built: _build/html/index.html (open it through a server; figures do not move from file://)"
ifneq ($(SERVE),0)
	$(BIN)/python book/_ext/serve.py _build/html $(PORT)
endif

lab: .venv/lab.stamp
	$(BIN)/jupyter lab --notebook-dir labs

test: .venv/dev.stamp .venv-colab/stamp system-packages check
	$(BIN)/python -m pytest
	AIINFRA_PREDICTIONS=$$(mktemp -d)/predictions.jsonl $(BIN)/python -m pytest --nbval --nbval-current-env --nbval-cell-timeout=120 solutions/*.ipynb
	AIINFRA_PREDICTIONS=$$(mktemp -d)/predictions.jsonl $(BIN)/python -m pytest --nbval-lax --nbval-current-env --nbval-cell-timeout=120 labs/*.ipynb

check: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m aiinfra.authoring check

notebooks: .venv/dev.stamp
	$(BIN)/python -m aiinfra.authoring notebooks

new: .venv/dev.stamp
	@test -n "$(STEM)" || { echo "usage: make new STEM=kv_cache"; exit 2; }
	$(BIN)/python -m aiinfra.authoring new $(STEM)

bench: .venv/dev.stamp system-packages
	for script in tests/bench/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Environments: one for everything but Colab's versions. The book alone needs no torch.

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "Python 3.11 to 3.13 is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/book.stamp: .venv/bin/python requirements.txt pyproject.toml
	$(PIP) --editable '.[book]' $(CONSTRAINED)
	@touch $@

.venv/lab.stamp: .venv/bin/python requirements.txt pyproject.toml
	$(PIP) --editable '.[labs,torch,jupyter]' $(CONSTRAINED)
	@touch $@

.venv/dev.stamp: .venv/bin/python requirements.txt pyproject.toml
	$(PIP) --editable '.[dev,torch]' $(CONSTRAINED)
	@touch $@ .venv/book.stamp .venv/lab.stamp

.venv-colab/stamp: tests/colab/requirements.txt
	$(PYTHON) -m venv .venv-colab
	.venv-colab/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/colab/requirements.txt
	.venv-colab/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[labs,torch]' --constraint tests/colab/requirements.txt
	.venv-colab/bin/python -m ipykernel install --prefix .venv-colab --name colab > /dev/null
	@touch $@

# The tests drive a real browser and a real sandbox.
system-packages:
	@missing=""; \
	command -v chromium > /dev/null || missing="$$missing chromium"; \
	command -v bwrap > /dev/null || missing="$$missing bubblewrap"; \
	test -z "$$missing" && exit 0; \
	install="apt-get update -qq && apt-get install -y -qq$$missing"; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then sh -c "$$install" > /dev/null; \
	elif sudo -n true 2> /dev/null && command -v apt-get > /dev/null; then sudo sh -c "$$install" > /dev/null; \
	else echo "The tests need$$missing. Install them first: sudo apt-get install$$missing"; exit 1; fi
