"""The program that translates: lines are written as they come, in order."""

import pytest
import tensorflow as tf
import tqdm

from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving import saved_model as saved_model_lib
from tests.small_models import make_translator

# Of different lengths, so that those of a block are not answered in their order.
LINES = ["a" * (1 + number * 7 % 23) + str(number) for number in range(300)]


def shout(text):
    """Stands for an exported model: reads 20 characters, and stumbles over "!"."""
    if any(b"!" in each for each in text.numpy()):
        raise ValueError("! is not for me")
    return {
        "translations": tf.strings.upper(tf.strings.substr(text, 0, 20))[:, tf.newaxis],
        "scores": tf.zeros([len(text), 1]),
        "truncated": tf.strings.length(text) > 20,
    }


@pytest.fixture
def translate(program_of, monkeypatch, tmp_path):
    """Return what runs the program, in batches of 2 and so in blocks of 128 lines."""
    monkeypatch.setattr(saved_model_lib, "load", lambda saved_model: shout)
    described = {"decoding": {"max_input_length": 20}}
    monkeypatch.setattr(
        saved_model_lib, "read_description", lambda saved_model: described
    )

    def run(lines, **given):
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
        options = {"batch_size": 2, **(given or {"saved_model": "any"})}
        program = program_of("bin/translate.py")
        return program(input=tmp_path / "in", output=tmp_path / "out", **options)

    return run


def test_lines_stay_in_order_and_short_inputs_go_without_progress(
    translate, tmp_path, capfd
):
    lines = [line[:20] for line in LINES]
    assert translate(lines) == {"lines": 300, "truncated": 0}
    assert (tmp_path / "out").read_text().split() == [line.upper() for line in lines]
    assert capfd.readouterr().err == ""


def test_cut_sources_are_counted_on_standard_error(translate, tmp_path, capfd):
    num_cut = sum(len(line) > 20 for line in LINES)
    assert translate(LINES) == {"lines": 300, "truncated": num_cut}
    assert num_cut > 10
    assert capfd.readouterr().err == (
        f"{num_cut} of 300 sources were cut to the model's limit of 20 tokens. "
        "Divide long lines.\n"
    )


def test_a_limit_that_is_not_known_is_not_told(translate, monkeypatch, capfd):
    monkeypatch.setattr(saved_model_lib, "read_description", lambda saved_model: {})
    translate(["a" * 23])
    assert (
        "1 of 1 sources were cut to the model's limit. Divide" in capfd.readouterr().err
    )


def test_what_was_translated_before_a_failure_stays(translate, tmp_path):
    """The failing line is in the third block; the file of an earlier run stays too."""
    (tmp_path / "out").write_text("earlier\n")
    with pytest.raises(ValueError, match="is not for me") as found:
        translate([*LINES[:280], "!" * 30, *LINES[281:]])
    partial = tmp_path / "out.partial"
    kept = partial.read_text().split()
    assert found.value.__notes__ == [f"{partial} keeps the first {len(kept)} lines."]
    assert 256 <= len(kept) <= 280
    assert kept == [line[:20].upper() for line in LINES[: len(kept)]]
    assert (tmp_path / "out").read_text() == "earlier\n"


def test_progress_tells_lines_and_time_left(translate, monkeypatch, capfd):
    """As it does after ten seconds."""
    at_once = {"delay": 0, "mininterval": 0}
    tell = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda **given: tell(**given | at_once))
    translate([line[:20] for line in LINES])
    told = capfd.readouterr().err
    assert " 2/300 [00:" in told and "300/300 [00:" in told and " lines/s]" in told


@pytest.mark.long
def test_the_best_translations_of_a_trained_model_have_their_lines_number(
    translate, monkeypatch, tmp_path
):
    """With batches of 1 a block has 64 lines."""
    translator = make_translator(num_best=2)
    monkeypatch.setattr(ModelDir, "load_translator", lambda *_, **options: translator)
    lines = ["one two", "", "zwei"] * 22 + ["eins"]
    translate(lines, model_dir="any", nbest=2, batch_size=1)
    rows = [line.split("\t") for line in (tmp_path / "out").read_text().splitlines()]
    assert [row[0] for row in rows] == [str(n) for n in range(67) for _ in range(2)]
    alone = [best.text for best in translator.translate(["eins"])[0].nbest]
    assert [row[2] for row in rows[-2:]] == alone
