# Everything from a clean clone: needs Python 3.11 or later, a C++ compiler and make.
#   make lab    JupyterLab on the quickstart          make test   every test tier
#   make demo   the quickstart without a browser      make check  format, lint, types, layers

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
QUICKSTART := notebooks/00_quickstart
NOTEBOOKS := $(patsubst %.py,%.ipynb,$(filter-out notebooks/_%,$(wildcard notebooks/*.py)))
PIP := $(BIN)/python -m pip --disable-pip-version-check --require-virtualenv
# IPython changes its process for good: each tier has one of its own.
ALL_TIERS := unit shell notebook conformance browser
TIERS := $(foreach tier,$(ALL_TIERS),$(if $(shell find tests/$(tier) -name 'test_*.py' 2>/dev/null),$(tier)))

# Jupyter refuses to serve root, which is who one is in a container, unless told otherwise; it listens on loopback only.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.DEFAULT_GOAL := lab
.NOTPARALLEL:
.PHONY: lab demo shim test check bench clean $(addprefix test-,$(ALL_TIERS))

lab: shim $(NOTEBOOKS)
	$(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 $(AS_ROOT) $(QUICKSTART).ipynb

demo: shim
	$(BIN)/python notebooks/_run.py $(QUICKSTART).py

# The emulated device's C++ part: a minute or so the first time, nothing afterwards.
shim: $(INSTALLED)
	$(BIN)/python -m neuron_lab.emulator

test: $(addprefix test-,$(TIERS))

$(addprefix test-,$(ALL_TIERS)): test-%: $(INSTALLED) shim
	$(BIN)/python -m pytest tests/$* -m "not slow"

check: $(INSTALLED)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(INSTALLED) shim
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf notebooks/*.ipynb notebooks/.ipynb_checkpoints
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Notebooks are kept as text; `--update` keeps the outputs of an .ipynb that is already there.
notebooks/%.ipynb: notebooks/%.py | $(INSTALLED)
	$(BIN)/jupytext --quiet --update --to ipynb --output $@ $<

$(BIN)/python:
	@$(if $(PYTHON),,echo "No python3 found: install Python 3.11 or later, or run make PYTHON=/path/to/python" >&2; exit 1)
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"{sys.executable} is Python {v.major}.{v.minor}: 3.11 or later is needed. Run make PYTHON=/path/to/python")'
	$(PYTHON) -m venv $(VENV)

# One environment for everything. torch by its exact version first: given a range, pip may prefer a build for GPUs of several gigabytes.
$(INSTALLED): pyproject.toml | $(BIN)/python
	$(PIP) install torch==2.13.0
	$(PIP) install --editable '.[dev]'
	@touch $@
