"""One way to a run, an export and a parser."""

import dataclasses
import functools
import pathlib

import pytest

import keras_transformer as kt
from keras_transformer import tokenization
from keras_transformer.opening import open_model
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from tests.small_models import LINES, make_translator


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a trained model."""
    made = make_translator()
    folder = ModelDir(tmp_path_factory.mktemp("run"))
    config = RunConfig(
        "tiny",
        made.model.config,
        kt.TrainingConfig(),
        made.decoding,
        "en",
        "de",
        made.tokenizer.fingerprint,
    )
    folder.write(made.model, made.tokenizer, config)
    return folder.path


@functools.cache
def opened(path, use="translate"):
    return kt.open_model(path, use)


@pytest.mark.long
def test_a_run_and_its_export_translate_alike(run, small_export):
    of_run, of_export = opened(run), opened(small_export)
    expected = make_translator().translate(LINES)
    assert [each.text for each in of_run.translate(LINES)] == [
        each.text for each in expected
    ]
    assert [each.text for each in of_export.translate(LINES)] == [
        each.text for each in expected
    ]
    assert of_run.searcher.tokenizer is not None and of_export.searcher is None
    assert of_run.first_alone and not of_export.first_alone  # an export traces nothing
    assert (of_run.source_language, of_run.target_language) == ("en", "de")
    assert of_run.max_input_length == 23


def test_a_run_is_opened_with_weights_of_8_bits(run):
    searcher = kt.open_model(run, precision="int8").searcher
    assert searcher.precision == "int8"
    assert kt.open_model(run, None, precision="float32").searcher.precision == "float32"


def test_a_program_reads_configuration_and_tokenizer_once(
    run, program_of, tmp_path, monkeypatch
):
    read = []
    read_text = pathlib.Path.read_text

    def remember(path, *arguments, **options):
        read.append(path.name)
        return read_text(path, *arguments, **options)

    load = tokenization.load
    monkeypatch.setattr(pathlib.Path, "read_text", remember)
    monkeypatch.setattr(
        tokenization, "load", lambda path: read.append("tokenizer") or load(path)
    )
    (tmp_path / "text").write_text("one two\n", encoding="utf-8")
    translate = program_of("bin/translate.py")
    translate(model_dir=run, input=tmp_path / "text", output=tmp_path / "out")
    assert read.count("config.json") == read.count("tokenizer") == 1


@pytest.mark.long
def test_options_are_for_runs(run, small_export):
    searcher = open_model(run, None, beam_size=1).searcher
    assert searcher.decoding.beam_size == 1
    message = "is no run: an export has fixed its options. Received: "
    with pytest.raises(ValueError, match=f"{message}beam_size, checkpoint"):
        open_model(small_export, beam_size=1, checkpoint="best", precision=None)
    with pytest.raises(ValueError, match=f"{message}use=None"):
        open_model(small_export, None)


@pytest.mark.long
def test_alignments_come_where_they_are_asked(run, small_export):
    for path in (run, small_export):
        aligned, plain = (
            opened(path, use).translate(["A dog runs!"])[0]
            for use in ("align", "translate")
        )
        assert aligned.text == plain.text
        assert aligned.token_scores and not plain.token_scores


@pytest.mark.long
def test_a_model_that_cannot_do_it_is_named(run, small_parser_export):
    with pytest.raises(ValueError, match="is a translation model: use bin/translate"):
        open_model(run, "parse")
    with pytest.raises(ValueError, match="must have the signature 'serving_default'"):
        open_model(small_parser_export)
    (tree,) = open_model(small_parser_export, "parse").run_batch(["one"])["tree"]
    assert tree.numpy().decode().startswith("(")


def test_an_unknown_use_and_an_empty_folder_are_named(tmp_path):
    with pytest.raises(ValueError, match="`use` must be one of"):
        open_model(tmp_path, "sing")
    with pytest.raises(FileNotFoundError, match=r"No saved_model.pb in .*VERSION"):
        open_model(tmp_path)


def test_a_model_of_an_unknown_task_is_named(run, tmp_path):
    values = ModelDir(run).read_config()
    ModelDir(tmp_path).write_config(dataclasses.replace(values, task="summing"))
    message = "A task is one of translation, parsing. Received: 'summing'"
    with pytest.raises(ValueError, match=message):
        open_model(tmp_path)
