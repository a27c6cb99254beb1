"""Whole runs on a tiny treebank, through the program."""

import dataclasses
import importlib.util
import json

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from keras_transformer import data, presets
from keras_transformer.parsing import symbols
from keras_transformer.runs import averaging
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import fine_tuning, run_checks, run_setup
from tests import small_corpus, small_treebank

pytestmark = pytest.mark.long

SIZES = {
    "preset": "parsing_tiny",
    "num_layers": 1,
    "d_model": 6,
    "d_ff": 7,
    "num_heads": 2,
    "tokens_per_batch": 300,
    "max_length": 60,
    "warmup_steps": 5,
    "learning_rate_scale": 0.5,
    "train_steps": 4,
    "precision": "float32",
    "distribution": "one_device",
    "checkpoint_every_steps": 2,
    "evaluate_every_steps": 2,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return small_treebank.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def train(repository):
    """Run bin/train.py, in this process, with these flags."""
    path = repository / "bin" / "train.py"
    spec = importlib.util.spec_from_file_location("bin.train", path)
    program = importlib.util.module_from_spec(spec)

    def run(**given):
        arguments = [f"--{name}={value}" for name, value in {**SIZES, **given}.items()]
        with flagsaver.flagsaver():
            flags.FLAGS(["train.py", *arguments])
            return program.main()

    with flagsaver.flagsaver():
        spec.loader.exec_module(program)
        yield run


@pytest.fixture(scope="module")
def trained(corpus, train, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "model"
    return folder, train(data_dir=corpus, model_dir=folder, task="parsing")


def test_a_parser_is_trained_and_keeps_its_labels(corpus, trained):
    folder, summary = trained
    assert summary["steps"] == 4
    place = ModelDir(folder)
    metadata, config = data.read_metadata(corpus), place.read_config()
    assert (config.task, config.labels_hash) == ("parsing", metadata.labels_hash)
    assert symbols.load(place.labels_path).fingerprint == metadata.labels_hash
    assert config.model.vocab_size == metadata.vocab_size == 290
    assert config.model.target_vocab_size == metadata.target_vocab_size == 11
    model = place.load_model()
    tokens = np.array([[5, 6, 3]], "int32")
    assert model(tokens, model.shift_right(tokens)).shape == (1, 3, 11)
    card = place.card_path.read_text(encoding="utf-8")
    assert "# Constituency parser (en)" in card and "| steps | 4 |" in card


def test_the_loss_decides_the_best_and_checkpoints_are_averaged(trained):
    folder, summary = trained
    (best,) = (folder / "best").iterdir()
    assert best.name in ("step-00000002", "step-00000004")
    assert summary["best_metric"] > 0
    assert averaging.average_run(folder)["steps"] == [2, 4]


def test_another_task_than_the_corpuss_is_refused(corpus, train, tmp_path):
    folder = {"data_dir": corpus, "model_dir": tmp_path / "model"}
    message = "--task=translation needs a corpus that is prepared for it; that in"
    with pytest.raises(ValueError, match=message):
        train(**folder, task="translation")
    with pytest.raises(ValueError, match="--bleu_sentences is for --task=translation"):
        train(**folder, bleu_sentences=7)
    with pytest.raises(ValueError, match="`share_embeddings` must be False: the corp"):
        train(**folder, preset="tiny")
    folder["data_dir"] = small_corpus.write_corpus(tmp_path, "text", 285)
    message = "--task=parsing needs a corpus that is prepared for it; that in .*text is"
    with pytest.raises(ValueError, match=message):
        train(**folder, task="parsing")
    assert not (tmp_path / "model").exists()


def test_a_corpus_of_other_labels_is_refused(corpus, train, trained, tmp_path):
    """As many labels, one of them another; and the sentences are the same."""
    other = tmp_path / "data"
    small_treebank.write_corpus(tmp_path)
    values = json.loads((other / "labels.json").read_text())
    values["labels"] = ["NP", "S", "VX"]
    (other / "labels.json").write_text(json.dumps(values))
    message = "is encoded with other constituent labels or tags than the model's"
    with pytest.raises(ValueError, match=message):
        train(data_dir=other, model_dir=tmp_path / "model")

    config = ModelDir(trained[0]).read_config()
    config = dataclasses.replace(config, labels_hash="f00d")
    with pytest.raises(ValueError, match="knows other constituent labels or tags than"):
        fine_tuning.check_can_start_from(str(trained[0]), config)


def test_a_folder_of_before_is_that_of_a_translation(trained):
    """`config.json` of an older release says nothing of labels."""
    values = ModelDir(trained[0]).read_config().to_json()
    del values["labels_hash"], values["task"]
    config = type(ModelDir(trained[0]).read_config()).from_json(values)
    assert (config.task, config.labels_hash) == ("translation", None)


def test_a_translation_has_one_vocabulary(tmp_path):
    corpus = small_corpus.write_corpus(tmp_path, "data", 285)
    config = run_setup.resolve(presets.get("tiny"), data.read_metadata(corpus))
    assert config.model.target_vocab_size is None
    assert run_checks.load_labels(corpus, config) is None
    with pytest.raises(FileNotFoundError, match="No labels at .*labels.json"):
        symbols.load(ModelDir(tmp_path).labels_path)
