"""Runs whose models search together."""

import dataclasses
import json
import os
import pathlib

import pytest

from keras_transformer import tokenization
from keras_transformer.inference.translator import Translator
from keras_transformer.opening import ensembles
from keras_transformer.runs.model_dir import ModelDir
from tests.searchers import load_searcher
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
    ensemble = ensembles.choose(first.path, [other])
    assert ensemble == [(other, other / "model.keras")]
    translator = load_searcher(first.path, ensemble=ensemble)
    depths = [model.config.num_layers for model in translator.ensemble.models]
    assert depths == [2, 1]


def test_runs_that_cannot_search_together_are_named(first, tmp_path):
    with pytest.raises(ValueError, match=r"first and .*words have different vocabular"):
        ensembles.choose(first.path, [write_other(tmp_path / "words", LINES[:3])])
    back = {"source_language": "de", "target_language": "en"}
    with pytest.raises(ValueError, match=r"first is for en-de, and .*back for de-en"):
        ensembles.choose(first.path, [write_other(tmp_path / "back", **back)])
    parser = write_other(tmp_path / "parser", task="parsing")
    with pytest.raises(ValueError, match=r"parser is a parser: use bin/parse\.py"):
        ensembles.choose(first.path, [parser])
    with pytest.raises(ValueError, match="name each folder once. Received: .*first, "):
        ensembles.choose(first.path, [tmp_path / "back", tmp_path / "back" / "."])
    with pytest.raises(
        FileNotFoundError, match="No trained model in .*nothing: .* --ensemble"
    ):
        ensembles.choose(first.path, [tmp_path / "nothing"])


def test_models_of_several_languages_search_for_one_of_them(tmp_path):
    symbols = [">>de<<", ">>fr<<"]
    for name in ("first", "other"):
        write_model(make_translator(placeholders=symbols), tmp_path / name)
    first, other = ModelDir(tmp_path / "first"), tmp_path / "other"
    (chosen,) = ensembles.choose(first.path, [other], (None, "fr"))
    assert chosen == (other, other / "model.keras")
    translator = load_searcher(first.path, languages=(None, "fr"), ensemble=[chosen])
    assert translator.tokenizer.source_prefix_id == translator.tokenizer.languages["fr"]
    with pytest.raises(ValueError, match="target_language.*Received: 'it'"):
        ensembles.choose(first.path, [other], (None, "it"))


def test_a_member_is_looked_for_before_checkpoints_are_followed(program_of, tmp_path):
    (tmp_path / "text").write_text("A dog runs!\n")
    files = dict.fromkeys(["source", "reference"], tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="No checkpoint in .*nothing"):
        program_of("bin/evaluate.py")(
            model_dir=tmp_path / "later",
            ensemble=tmp_path / "nothing",
            follow=True,
            **files,
        )


def test_an_unfinished_output_remembers_the_weights_of_all_models(
    first, program_of, tmp_path, monkeypatch
):
    other = write_other(tmp_path / "other")
    (tmp_path / "in").write_text("\n".join(LINES) + "\n")
    remembered = []

    def remember(path, text, encoding):
        assert path == tmp_path / "out.partial.jsonl"
        remembered.append(json.loads(text))
        raise KeyboardInterrupt

    def run(**given):
        files = {"input": tmp_path / "in", "output": tmp_path / "out"}
        with pytest.raises(KeyboardInterrupt):
            program_of("bin/translate.py")(model_dir=first.path, **files, **given)

    monkeypatch.setattr(pathlib.Path, "write_text", remember)
    run(ensemble=other)
    os.utime(other / "model.keras", ns=(1, 1))
    run(ensemble=other)
    run()
    before, after, alone = remembered
    assert after["ensemble"] == [[str(other / "model.keras"), 1]]
    assert before == after | {"ensemble": before["ensemble"]} != after
    assert "ensemble" not in alone


@pytest.mark.long(first=2)
@pytest.mark.parametrize(
    ("program", "inputs", "output", "has_ensemble"),
    [
        ("bin/translate.py", ["input"], "output", True),
        ("export/export_saved_model.py", [], "export_dir", True),
        ("bin/evaluate.py", ["source", "reference"], "report", True),
        ("bin/back_translate.py", ["input"], "output", False),
        ("export/convert_huggingface.py", [], "output_dir", False),
    ],
)
def test_programs_choose_weights_once(
    program, inputs, output, has_ensemble, first, program_of, tmp_path, monkeypatch
):
    """A training that still runs may write others before they are loaded."""
    (tmp_path / "text").write_text("A dog runs!\n")
    given = dict.fromkeys(inputs, tmp_path / "text")
    given |= {"model_dir": first.path, output: tmp_path / "written"}
    folders, chosen = [first.path], []
    if has_ensemble:
        given["ensemble"] = write_other(tmp_path / "other")
        folders.append(given["ensemble"])
    choose = ModelDir.choose

    def remember(self, checkpoint=None):
        if checkpoint is None:
            chosen.append(self.path)
        return choose(self, checkpoint)

    monkeypatch.setattr(ModelDir, "choose", remember)
    program_of(program)(**given)
    assert chosen == folders
    assert (tmp_path / "written").exists()
