"""Whether a run packs its pairs is decided once, by what compiles where it begins."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import presets
from keras_transformer.data.corpus import EncodedCorpus
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.training import run_checks, run_setup
from keras_transformer.training.heartbeat import Heartbeat
from keras_transformer.training.run_options import RunOptions
from keras_transformer.training.strategies import Process
from tests.training.small_runs import config_of, train, weights

GPU = [tf.config.LogicalDevice("/device:GPU:0", "GPU")]


def decided(corpus, folder, config, **options):
    context = run_setup.RunContext(
        ModelDir(folder),
        Process(tf.distribute.get_strategy()),
        corpus,
        config,
        RunOptions(**options),
        Heartbeat(print),
    )
    return run_setup.with_packing_decided(context).training.pack


@pytest.mark.parametrize(
    ("options", "gpus", "training", "model", "expected"),
    [
        ({}, [], {}, {}, False),
        ({"jit_compile": "true"}, [], {}, {}, True),
        ({"distribution": "tpu"}, [], {}, {}, True),
        ({}, GPU, {}, {}, True),
        ({"jit_compile": "false"}, GPU, {}, {}, False),
        ({}, GPU, {"pack": False}, {}, False),
        ({}, [], {"pack": True}, {}, True),
        ({}, GPU, {"guided_alignment": 0.1}, {}, False),
        ({}, GPU, {}, {"attention_window": 5}, False),
        ({}, GPU, {}, {"eos_id": 4}, False),  # not the end of these sentences
    ],
)
def test_pairs_are_packed_where_xla_compiles_and_they_can_be_kept_apart(
    corpus, tmp_path, monkeypatch, options, gpus, training, model, expected
):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    config = config_of(corpus)
    config = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **model),
        training=dataclasses.replace(config.training, **training),
    )
    assert decided(corpus, tmp_path / "run", config, **options) is expected


@pytest.mark.parametrize("begun", [True, False])
def test_a_run_keeps_what_it_began_with_on_other_devices(corpus, tmp_path, begun):
    ModelDir(tmp_path).write_config(config_of(corpus, pack=begun))
    for chosen in ("true", "false"):
        pack = decided(corpus, tmp_path, config_of(corpus), jit_compile=chosen)
        assert pack is begun


def test_another_choice_than_the_runs_is_refused(corpus, tmp_path):
    ModelDir(tmp_path).write_config(config_of(corpus, pack=True))
    with pytest.raises(ValueError, match="its `pack` is True, here it is False"):
        train(corpus, tmp_path, config_of(corpus, pack=False))


def test_an_imported_model_has_not_decided(corpus, tmp_path):
    run = ModelDir(tmp_path)
    run.write_config(config_of(corpus))
    assert decided(corpus, tmp_path, config_of(corpus), jit_compile="true") is True
    run_checks.check_same_run(run, config_of(corpus, pack=True))


def test_a_run_from_before_there_was_packing_is_not_packed(corpus):
    saved = config_of(corpus).to_json()
    del saved["training"]["pack"]
    assert RunConfig.from_json(saved).training.pack is False


def test_fine_tuning_decides_anew(corpus, tmp_path):
    ModelDir(tmp_path).write_config(config_of(corpus, pack=True))
    assert presets.of_run(tmp_path).training.pack is None


def test_a_corpus_that_cannot_be_opened_is_not_taken_for_one_without_ends(
    corpus, tmp_path, monkeypatch
):
    def fail(*arguments):
        raise FileNotFoundError("no corpus")

    monkeypatch.setattr(EncodedCorpus, "open", fail)
    with pytest.raises(FileNotFoundError, match="no corpus"):
        decided(corpus, tmp_path, config_of(corpus), jit_compile="true")


@pytest.fixture
def start(corpus, tmp_path, repository):
    """Run a tiny training under XLA as a program; return what it prints."""

    def run(folder, train_steps):
        given = ["--preset=tiny", "--num_layers=1", "--d_model=6", "--d_ff=7"]
        given += ["--num_heads=2", "--tokens_per_batch=150", "--max_length=40"]
        given += [f"--train_steps={train_steps}", "--bleu_sentences=0"]
        given += ["--log_every_steps=1", "--json"]
        ended = subprocess.run(
            [
                *(sys.executable, repository / "bin" / "train.py"),
                *(f"--data_dir={corpus}", f"--model_dir={tmp_path / folder}"),
                *("--jit_compile=true", *given),
            ],
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout

    return run


@pytest.mark.long
def test_runs_under_xla_compile_once_and_end_bit_for_bit_alike(start, tmp_path):
    """As many programs are kept on disk as the run says it compiles.

    The second run is stopped after step 3, with dropout on: it has the same rows, masks
    and weights.
    """

    def kept():
        cache = pathlib.Path(os.environ["XDG_CACHE_HOME"], "keras_transformer", "xla")
        return {path for path in cache.glob("*/*") if path.suffix != ".tmp"}

    before = kept()
    said = start("whole", 6)
    number = int(re.search(r"under XLA \((\d+) compilations\)", said)[1])
    first = kept()
    assert len(first - before) == number
    assert len(re.findall(r"\ncompiling the training step for", said)) == number
    assert len(re.findall(r"\ncompiled the training step in \d+ s\n", said)) == number
    assert json.loads(said.splitlines()[-1])["num_shapes"] == 1
    start("run", 3)
    assert kept() == first
    assert re.findall(r"\nstep (\d)/6", start("run", 6)) == ["4", "5", "6"]
    assert ModelDir(tmp_path / "run").read_config().training.pack is True
    resumed, whole = weights(tmp_path / "run"), weights(tmp_path / "whole")
    for ours, theirs in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)
