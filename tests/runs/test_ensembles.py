"""Runs whose models search together."""

import dataclasses
import json
import os

import pytest

from keras_transformer import atomic_files, tokenization
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.model_dir import ModelDir
from tests.small_models import LINES, choosing_model, make_translator, write_model


@pytest.fixture
def first(tmp_path):
    """A run, of `make_translator`, in the folder `first`."""
    write_model(make_translator(), tmp_path / "first")
    return ModelDir(tmp_path / "first")


def write_other(folder, vocabulary_lines=LINES, **fields):
    """Write a run of another model and return its folder.

    Args:
        folder: The model_dir.
        vocabulary_lines: What the vocabulary is trained on.
        **fields: Of `RunConfig`, to replace.
    """
    like = make_translator()
    tokenizer = tokenization.train_bpe(vocabulary_lines * 5, vocab_size=300)
    config = dataclasses.replace(like.model.config, num_layers=1)
    model = choosing_model(config, seed=5)
    write_model(Translator(model, tokenizer, like.decoding), folder, **fields)
    return folder


def test_runs_of_one_vocabulary_search_together(first, tmp_path):
    other = write_other(tmp_path / "other")
    translator = first.load_translator(ensemble=[other])
    depths = [model.config.num_layers for model in translator.ensemble.models]
    assert depths == [2, 1]
    (chosen,) = first.choose_ensemble([other])
    assert chosen.path == other / "model.keras"


def test_runs_that_cannot_search_together_are_named(first, tmp_path):
    with pytest.raises(ValueError, match=r"first and .*words have different vocabular"):
        first.choose_ensemble([write_other(tmp_path / "words", LINES[:3])])
    back = {"source_language": "de", "target_language": "en"}
    with pytest.raises(ValueError, match=r"first is for en-de, and .*back for de-en"):
        first.choose_ensemble([write_other(tmp_path / "back", **back)])
    parser = write_other(tmp_path / "parser", task="parsing")
    with pytest.raises(ValueError, match=r"parser is a parser: use bin/parse\.py"):
        first.choose_ensemble([parser])
    with pytest.raises(ValueError, match="name each folder once. Received: .*first, "):
        first.load_translator(ensemble=[tmp_path / "back", tmp_path / "back" / "."])
    with pytest.raises(FileNotFoundError, match="No model in .*nothing"):
        first.load_translator(ensemble=[tmp_path / "nothing"])


def test_an_unfinished_output_remembers_the_weights_of_all_models(
    first, program_of, tmp_path, monkeypatch
):
    other = write_other(tmp_path / "other")
    (tmp_path / "in").write_text("\n".join(LINES) + "\n")
    remembered = []

    def remember(path, text):
        assert path == tmp_path / "out.partial.json"
        remembered.append(json.loads(text))
        raise KeyboardInterrupt

    def run(**given):
        files = {"input": tmp_path / "in", "output": tmp_path / "out"}
        with pytest.raises(KeyboardInterrupt):
            program_of("bin/translate.py")(model_dir=first.path, **files, **given)

    monkeypatch.setattr(atomic_files, "atomic_write", remember)
    run(ensemble=other)
    os.utime(other / "model.keras", ns=(1, 1))
    run(ensemble=other)
    run()
    before, after, alone = remembered
    assert after["ensemble"] == [[str(other / "model.keras"), 1]]
    assert before == after | {"ensemble": before["ensemble"]} != after
    assert "ensemble" not in alone
