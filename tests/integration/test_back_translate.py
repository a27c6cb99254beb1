"""Back-translation: sources for text in the target language."""

import os
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.opening import of_run, open_model
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving import saved_model
from keras_transformer.serving.signatures import ServingModule
from keras_transformer.translation import sampling
from tests.small_models import make_translator

LINES = ["A dog", "", "one two three", "A dog", "two", "one " * 40]


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.fixture
def back_translate(program_of, translator, monkeypatch, tmp_path):
    """Return what runs the program on lines, in blocks of 32."""
    monkeypatch.setattr(of_run, "_load_translator", lambda *_, **__: translator)
    monkeypatch.setattr(ModelDir, "choose", lambda *_: ModelDir(tmp_path))
    config = types.SimpleNamespace(
        task="translation", source_language="en", target_language="de"
    )
    (tmp_path / "config.json").touch()
    monkeypatch.setattr(ModelDir, "read_config", lambda *_: config)
    monkeypatch.setattr(ModelDir, "load_tokenizer", lambda *_: translator.tokenizer)

    def run(lines, **options):
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
        given = {"model_dir": tmp_path, "batch_size": 2, **options}
        summary = program_of("bin/back_translate.py")(
            input=tmp_path / "in", output=tmp_path / "out", **given
        )
        return summary, (tmp_path / "out").read_text().split("\n")[:-1]

    return run


def test_lines_stay_beside_their_translations(back_translate):
    summary, found = back_translate(LINES)
    assert summary == {"lines": 6, "truncated": 1}
    assert len(found) == 6
    assert found[0] == found[3] != ""
    assert found[1] == found[5] == ""  # blank, and cut


def test_many_lines_are_translated_as_many_batches_at_once(
    back_translate, translator, monkeypatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    all_run = threading.Barrier(3)

    def batch(text):
        if b"one two" not in text.numpy():  # the first is alone
            all_run.wait(60)
        return {"translation": text}

    monkeypatch.setattr(translator, "with_prepared_weights", lambda **_: translator)
    monkeypatch.setattr(translator, "translate_batch", batch)
    lines = ["one two", *"abcdefghijkl"]
    assert back_translate(lines, method="beam", batch_size=1)[1] == lines


@pytest.mark.long
def test_other_lines_do_not_change_what_is_drawn(back_translate):
    _, found = back_translate(LINES)
    assert back_translate(LINES[::-1])[1] == found[::-1]
    assert back_translate(LINES, batch_size=6)[1] == found
    assert back_translate(LINES, seed=7)[1] != found


@pytest.mark.long
def test_the_likeliest_and_the_best_are_those_of_the_translator(
    back_translate, translator
):
    found = back_translate(LINES, method="beam")[1]
    assert found[:5] == translator(LINES[:5])
    greedy = make_translator(beam_size=1)
    assert back_translate(LINES, temperature=0)[1][:5] == greedy(LINES[:5])


@pytest.mark.long
def test_an_export_draws_the_same(back_translate, translator, tmp_path):
    module = ServingModule(translator)
    drawn = sampling.sampler(module.sample, sampling.Sampling(seed=3))
    version = saved_model.export(
        translator, tmp_path / "export", signatures=["sample"], check_texts=()
    )
    loaded = open_model(version, "sample", sampling=sampling.Sampling(seed=3)).run_batch
    texts = tf.constant(LINES)
    np.testing.assert_array_equal(
        loaded(texts)["translation"], drawn(texts)["translation"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"saved_model": "a"}, "Give one of --model_dir and --saved_model"),
        (
            {"saved_model": "a", "model_dir": "", "target_language": "de"},
            "--target_language is fixed when a model is exported",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    program_of, tmp_path, options, message
):
    given = {key: value for key, value in options.items() if value}
    if "model_dir" not in options:
        given["model_dir"] = tmp_path
    with pytest.raises(ValueError, match=message):
        program_of("bin/back_translate.py")(output=tmp_path / "out", **given)
