# The commands of a checkout. All of them install what they need into .venv first.
#
#   make quickstart   the whole path on the phrasebook of examples/: write its text,
#                     prepare, train, average, evaluate, export, and translate with the
#                     export alone
#   make demo         serve what quickstart trained, with a page to try it
#   make multi30k     the same on Multi30k with two models, one to two hours:
#                     make multi30k TEXT=FOLDER, or make -j2 multi30k TEXT=FOLDER
#   make test         what continuous integration runs, with `make lint testlong`

# A Python of 3.11 to 3.13 that can make virtual environments. Another, beside:
#   make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
    $$name -c "" 2> /dev/null && command -v $$name && exit; done)
VENV := .venv
BIN := $(VENV)/bin
# Quiet, but for errors.
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -qq -c constraints.txt

QUICKSTART := runs/quickstart
QUICKSTART_TEXT := $(QUICKSTART)/text
# Meant to reach sacreBLEU 95 on held-out phrases within 6 minutes on 2 CPU cores.
QUICKSTART_VOCAB_SIZE := 2000
QUICKSTART_TRAIN := --preset=tiny --num_layers=2 --d_ff=512 --dropout_rate=0.1 \
    --tokens_per_batch=3000 --train_steps=650 --warmup_steps=250 \
    --learning_rate_scale=1.4 --checkpoint_every_steps=20 --average_last=5 \
    --evaluate_every_steps=650 --bleu_sentences=0

MULTI30K := runs/multi30k
# Models that search together, trained with the number as the seed.
MULTI30K_MODELS := $(MULTI30K)/model_1 $(MULTI30K)/model_2
MULTI30K_TRAIN := --preset=tiny --dropout_rate=0.2 --tokens_per_batch=2048 \
    --train_steps=10500 --warmup_steps=1500 --learning_rate_schedule=linear \
    --learning_rate=0.004 --length_penalty_alpha=1.5 --checkpoint_every_steps=200
# The folder with train.en, train.de, val.en, ... as Multi30k names them.
TEXT ?= ../shared/data/multi30k
# Test files that run at once, each in a process with a TensorFlow of its own.
TEST_JOBS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses=$(TEST_JOBS) --dist=loadfile

.DEFAULT_GOAL := help
.PHONY: help install quickstart demo benchmark multi30k test testlong testrelease lint format docs clean
.PHONY: $(MULTI30K_MODELS)

help:
	@sed -n "s/^\([a-z0-9]*\):.*## /\1\t/p" $(MAKEFILE_LIST) | expand -t 12

install: $(VENV)/.installed-dev ## everything to run, test and change the code, into .venv

# Stamps: they stand for an installation that ended well and is still the one asked for.
$(VENV)/.installed: setup.py pyproject.toml constraints.txt
	@echo "Installing TensorFlow and the other packages into $(VENV): about two minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing the packages of tests and tools into $(VENV)."
	@$(PIP_INSTALL) -e ".[dev]"
	touch $@

quickstart: $(VENV)/.installed ## install the runtime, then the whole path on a small corpus
	rm -rf $(QUICKSTART)
	$(BIN)/python examples/write_phrasebook.py --output_dir=$(QUICKSTART_TEXT)
	$(BIN)/python bin/prepare_data.py \
	    --train_source=$(QUICKSTART_TEXT)/train.en --train_target=$(QUICKSTART_TEXT)/train.de \
	    --valid_source=$(QUICKSTART_TEXT)/valid.en --valid_target=$(QUICKSTART_TEXT)/valid.de \
	    --test_source=$(QUICKSTART_TEXT)/test.en --test_target=$(QUICKSTART_TEXT)/test.de \
	    --data_dir=$(QUICKSTART)/data --vocab_size=$(QUICKSTART_VOCAB_SIZE)
	$(BIN)/python bin/train.py $(QUICKSTART_TRAIN) \
	    --data_dir=$(QUICKSTART)/data --model_dir=$(QUICKSTART)/model \
	    --distribution=mirrored --num_replicas=2
	$(BIN)/python bin/average_checkpoints.py --model_dir=$(QUICKSTART)/model
	$(BIN)/python bin/evaluate.py --model_dir=$(QUICKSTART)/model \
	    --data_dir=$(QUICKSTART)/data --split=test \
	    --report=$(QUICKSTART)/evaluation.json
	$(BIN)/python export/export_saved_model.py --model_dir=$(QUICKSTART)/model \
	    --export_dir=$(QUICKSTART)/export --signatures=serving_default
	@echo "Five held-out sentences, translated by the export in a process of its own:"
	$(BIN)/python -I export/run_saved_model.py --saved_model=$(QUICKSTART)/export/1 \
	    --input=$(QUICKSTART_TEXT)/test.en --sample=5

demo: $(VENV)/.installed ## serve the model of `make quickstart` and its page on this machine
	@test -e $(QUICKSTART)/model/config.json || \
	    { echo "No $(QUICKSTART)/model: run make quickstart first (6 minutes)."; exit 1; }
	@$(PIP_INSTALL) -e ".[server]"
	$(BIN)/python export/serve.py --model_dir=$(QUICKSTART)/model

benchmark: install ## measure this machine with the model of `make quickstart`
	@test -e $(QUICKSTART)/model/config.json || \
	    { echo "No $(QUICKSTART)/model: run make quickstart first (6 minutes)."; exit 1; }
	$(BIN)/python benchmarks/this_machine.py --output_dir=runs/benchmark \
	    --model_dir=$(QUICKSTART)/model --input=$(QUICKSTART)/data/test.source
	cat runs/benchmark/table.md

$(MULTI30K)/data/metadata.json: | $(VENV)/.installed
	$(BIN)/python bin/prepare_data.py --data_dir=$(MULTI30K)/data --vocab_size=8000 \
	    --source_language=en --target_language=de \
	    --train_source=$(TEXT)/train.en --train_target=$(TEXT)/train.de \
	    --valid_source=$(TEXT)/val.en --valid_target=$(TEXT)/val.de \
	    --test_source=$(TEXT)/test_2016_flickr.en --test_target=$(TEXT)/test_2016_flickr.de

$(MULTI30K_MODELS): $(MULTI30K)/model_%: $(VENV)/.installed $(MULTI30K)/data/metadata.json
	$(BIN)/python bin/train.py $(MULTI30K_TRAIN) --seed=$* \
	    --data_dir=$(MULTI30K)/data --model_dir=$@
	$(BIN)/python bin/average_checkpoints.py --model_dir=$@

multi30k: $(MULTI30K_MODELS) ## train two models on TEXT, evaluate both together; run it again to resume
	$(BIN)/python bin/evaluate.py \
	    --model_dir=$(MULTI30K)/model_1 --ensemble=$(MULTI30K)/model_2 \
	    --data_dir=$(MULTI30K)/data --split=test --report=$(MULTI30K)/evaluation.json
	$(BIN)/python export/export_saved_model.py \
	    --model_dir=$(MULTI30K)/model_1 --ensemble=$(MULTI30K)/model_2 \
	    --export_dir=$(MULTI30K)/export

test: install ## run the quick tests
	$(PYTEST) -m "not long and not release"

testlong: install ## run longer tests, which show that each path works
	$(PYTEST) -m "long and not release"

testrelease: install ## run those that only a release needs: kills, measurements, more cases
	$(PYTEST) -m release

lint: install ## check style, form, imports and unused code; change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

format: install ## bring the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean: ## remove what building, installing and testing left; runs/ stays
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./.git/*" -prune -exec rm -rf {} +
