"""The program that translates: lines are written as they come, in order."""

import os
import sys
import types
from contextlib import nullcontext

import pytest
import tensorflow as tf
import tqdm

from keras_transformer import opening, presets, text_files
from keras_transformer.cli.answers import Answers
from keras_transformer.opening import of_run
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.serving import saved_model as saved_model_lib
from keras_transformer.translation.opened_model import OpenedModel
from tests.small_models import make_translator

# Of different lengths, so that those of a block are not answered in their order.
LINES = ["a" * (1 + number * 7 % 23) + str(number) for number in range(300)]

OPEN_MODEL = opening.open_model


def shout(text):
    """Stands for an exported model: reads 20 characters, and stumbles over "!"."""
    if any(b"!" in each for each in text.numpy()):
        raise ValueError("! is not for me")
    return {
        "translations": tf.strings.upper(tf.strings.substr(text, 0, 20))[:, tf.newaxis],
        "scores": tf.zeros([len(text), 1]),
        "truncated": tf.strings.length(text) > 20,
    }


def opens(monkeypatch, run_batch, **facts):
    """Let the program open a model that answers with a function."""
    facts = {"max_input_length": 20, **facts}
    model = OpenedModel(run_batch=run_batch, **facts)
    monkeypatch.setattr(opening, "open_model", lambda *_, **__: model)


@pytest.fixture
def translate(program_of, monkeypatch, tmp_path):
    """Return what runs the program, in batches of 2 and so in blocks of 64 lines."""
    opens(monkeypatch, shout)

    def run(lines, **given):
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
        options = {"batch_size": 2, **(given or {"saved_model": "any"})}
        program = program_of("bin/translate.py")
        return program(
            **{"input": tmp_path / "in", "output": tmp_path / "out", **options}
        )

    return run


def test_lines_stay_in_order_and_short_inputs_go_without_progress(
    translate, tmp_path, capfd
):
    lines = [line[:20] for line in LINES]
    assert translate(lines) == {"lines": 300, "truncated": 0, "looped": 0}
    assert (tmp_path / "out").read_text().split() == [line.upper() for line in lines]
    assert capfd.readouterr().err == ""


def test_cut_sources_are_counted_on_standard_error(translate, tmp_path, capfd):
    num_cut = sum(len(line) > 20 for line in LINES)
    assert translate(LINES) == {"lines": 300, "truncated": num_cut, "looped": 0}
    assert num_cut > 10
    assert capfd.readouterr().err == (
        f"{num_cut} of 300 sources were cut to the model's limit of 20 tokens. "
        "Divide long lines.\n"
    )


def test_translations_that_loop_are_counted_unless_their_sources_do(
    translate, monkeypatch, capfd
):
    def stutter(text):
        looped = tf.strings.join([text, " no no no no"])
        return {**shout(text), "translations": looped[:, tf.newaxis]}

    opens(monkeypatch, stutter)
    summary = translate(["a b", "ha ha ha ha", "c"])
    assert summary == {"lines": 3, "truncated": 0, "looped": 2}
    assert capfd.readouterr().err == (
        "2 of 3 translations repeat a phrase four times in a row or more. "
        "--max_repetitions=3 forbids it (for an export, when it is made).\n"
    )


def test_compiled_searches_are_counted(translate, monkeypatch, capfd):
    compiler = types.SimpleNamespace(num_compiled=lambda: 2)
    opens(monkeypatch, shout, compiler=compiler)
    translate(["a"])
    told = capfd.readouterr().err
    assert told == "Compiled searches, one a size of batches: 2.\n"


def test_a_limit_that_is_not_known_is_not_told(translate, monkeypatch, capfd):
    opens(monkeypatch, shout, max_input_length=None)
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
    journal, text = found.value.__notes__
    assert journal.startswith(f"{partial}.jsonl keeps ")
    assert "The same command with --resume goes on after them" in journal
    assert text == f"{partial} keeps the first {len(kept)} lines."
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


@pytest.fixture
def power(monkeypatch):
    """The batches that are kept until the power fails, as often as `left` says."""
    add, state = Answers.add, types.SimpleNamespace(left=0, kept=[])

    def failing(self, texts, answers):
        if not state.left:
            raise OSError("out of power")
        add(self, texts, answers)
        state.kept.append(tuple(texts))
        state.left -= 1

    monkeypatch.setattr(Answers, "add", failing)
    return state


def translate_without_rest(translate, power, lines, output, **options):
    """Translate while the power fails again and again; return what is written.

    Nothing that was kept is translated again, and what is written never gets shorter.
    """
    options["output"] = output
    power.left, power.kept = 1000, []
    translate(lines, **options)
    whole, batches = output.read_bytes(), power.kept
    output.unlink()
    partial, size = output.with_name(f"{output.name}.partial"), 0
    power.kept = []
    for num_batches in (0, 1, 0, 5, 19, 1000):
        power.left = num_batches
        done = num_batches >= len(batches) - len(power.kept)
        with nullcontext() if done else pytest.raises(OSError, match="out of power"):
            translate(lines, **options, resume=True)
        if done:
            break
        assert not output.exists()
        before, size = size, partial.stat().st_size if partial.exists() else 0
        assert before <= size
        if power.kept:  # as a kill leaves it
            with open(f"{partial}.jsonl", "a") as file:
                file.write("CUT IN THE MIDD")
    assert power.kept == batches
    assert output.read_bytes() == whole
    assert not [*output.parent.glob("*.partial*")]
    return whole


@pytest.mark.parametrize("output", ["out", "out.gz"])
@pytest.mark.parametrize("form", ["lines", "text", "html"])
@pytest.mark.parametrize("num_lines", [300, 50, 1])
def test_a_run_goes_on_after_the_batches_that_are_done(
    translate, power, tmp_path, output, form, num_lines
):
    """In the first block of 64 lines too, and with nothing done."""
    output = tmp_path / output
    lines = [f"{number}{line[:15]}." for number, line in enumerate(LINES[:num_lines])]
    options = {"saved_model": "any", "output": output, "format": form}
    whole = translate_without_rest(translate, power, lines, **options)
    assert [*text_files.read_lines(output)] == [line.upper() for line in lines]
    assert whole.startswith(b"\x1f\x8b") == (output.suffix == ".gz")


@pytest.mark.long(first=1)
@pytest.mark.parametrize(
    "options", [{"nbest": 2}, {"alignments": 1, "token_scores": 1}]
)
def test_all_of_an_answer_is_kept(translate, small_model, power, tmp_path, options):
    lines = [f"one {number}" for number in range(20)] + ["", "zwei"]
    found = translate_without_rest(
        translate, power, lines, tmp_path / "out", model_dir=tmp_path, **options
    )
    assert found.count(b"\t") == len(lines) * 2 * (2 if "nbest" in options else 1)


def test_a_resumed_run_tells_what_it_goes_on_after(translate, power, tmp_path, capfd):
    lines = [f"{line[:18]}." for line in LINES]
    power.left = 3
    with pytest.raises(OSError, match="out of power"):
        translate(lines)
    power.left = 1000
    summary = translate(lines, saved_model="any", resume=True)
    assert "out.partial: going on after 6 translations.\n" in capfd.readouterr().err
    assert summary == {"lines": 300, "truncated": 0, "looped": 0}


def test_another_input_or_model_is_not_gone_on_with(translate, power, tmp_path):
    lines, power.left = [line[:20] for line in LINES], 40
    with pytest.raises(OSError, match="out of power"):
        translate(lines)
    kept = (tmp_path / "out.partial").read_bytes()
    with pytest.raises(ValueError, match=r"out\.partial was made with another input"):
        translate([*lines, "more"], saved_model="any", resume=True)
    with pytest.raises(ValueError, match="made with another model, so .* begin anew"):
        translate(lines, saved_model="other", resume=True)
    with pytest.raises(ValueError, match="made with another input, format, so"):
        translate(lines, saved_model="any", format="text", resume=True)
    with pytest.raises(FileExistsError, match="Give --resume to go on with it, or del"):
        translate(lines)
    (tmp_path / "out.partial.jsonl").unlink()
    with pytest.raises(ValueError, match="cannot be read from out.partial.jsonl, so"):
        translate(lines, saved_model="any", resume=True)
    assert (tmp_path / "out.partial").read_bytes() == kept


def test_another_precision_is_not_gone_on_with(
    translate, small_model, power, monkeypatch, tmp_path
):
    opens(monkeypatch, shout)
    power.left = 40
    with pytest.raises(OSError, match="out of power"):
        translate(LINES, model_dir=tmp_path)
    with pytest.raises(ValueError, match="was made with another precision, so it cann"):
        translate(LINES, model_dir=tmp_path, precision="int8", resume=True)


def test_answers_without_a_line_are_not_overwritten(translate, power, tmp_path):
    """The first batch of a block is not the first of its lines."""
    power.left = 1
    for match in ("out of power", "Give --resume to go on with it, or delete it and"):
        with pytest.raises(OSError, match=match):
            translate(LINES)


def test_the_input_is_not_overwritten(program_of, tmp_path):
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "same").symlink_to(tmp_path / "in")
    program = program_of("bin/translate.py")
    files = {"saved_model": "any", "input": tmp_path / "in"}
    with pytest.raises(ValueError, match="--output would overwrite the file of --inpu"):
        program(**files, output=tmp_path / "same")
    with pytest.raises(ValueError, match="--output names a folder, .* Name a file"):
        program(**files, output=tmp_path)
    assert (tmp_path / "in").read_text() == "a\n"


def test_no_more_workers_than_cores(program_of, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    program = program_of("bin/translate.py")
    with pytest.raises(ValueError, match="at most 3, the cores of .* Received: 4"):
        program(saved_model="any", input=tmp_path / "in", num_workers=4)


def test_resuming_needs_a_file(program_of, tmp_path):
    (tmp_path / "in").write_text("a\n")
    program = program_of("bin/translate.py")
    with pytest.raises(ValueError, match="--resume needs a file as --output"):
        program(input=tmp_path / "in", saved_model="any", resume=True)


def translate_document(translate, tmp_path, given):
    """Run the program on a document; return its summary and the bytes it writes."""
    (tmp_path / "letter").write_bytes(given)
    options = {"saved_model": "any", "format": "text", "input": tmp_path / "letter"}
    summary = translate([], **options)
    return summary, (tmp_path / "out").read_bytes()


def test_the_layout_of_a_document_stays(translate, tmp_path):
    """Also without a line end at the end, and with a byte order mark."""
    given = "\ufeffOne. Two?\r\n\r\n \t- three\u00a0\n\n> Four five.  Six?\n7\n\nend"
    summary, found = translate_document(translate, tmp_path, given.encode())
    assert found.decode() == given.upper()
    assert summary == {"lines": 8, "sentences": 6, "truncated": 0, "looped": 0}
    assert translate_document(translate, tmp_path, b"")[1] == b""


def test_the_text_of_a_page_is_translated(translate, tmp_path):
    page = "<!DOCTYPE html>\r\n<p id=a>One &amp; two. <i>Three</i><pre>four</pre>\n"
    (tmp_path / "page").write_bytes(page.encode())
    options = {"saved_model": "any", "format": "html", "input": tmp_path / "page"}
    summary = translate([], **options)
    assert summary == {"lines": 2, "sentences": 2, "truncated": 0, "looped": 0}
    expected = (
        page.replace("One", "ONE").replace("two", "TWO").replace("Three", "THREE")
    )
    assert (tmp_path / "out").read_bytes() == expected.encode()


@pytest.mark.parametrize("limit", [None, 20])
def test_nothing_of_a_document_is_cut(translate, tmp_path, monkeypatch, limit):
    """The model reads 20 characters; whether that is known or not."""
    opens(monkeypatch, shout, max_input_length=limit)
    given = f"{', '.join(LINES)} and, {'x' * 700}. End.\n".encode()
    summary, found = translate_document(translate, tmp_path, given)
    assert found == given.upper()
    assert summary["truncated"] == 0


def test_documents_have_one_translation(translate, tmp_path):
    with pytest.raises(ValueError, match="--nbest is for --format=lines, not text"):
        translate([], model_dir=tmp_path, format="text", nbest=2)


def test_documents_name_the_extra_that_is_missing(translate, monkeypatch):
    """Only pages need one."""
    monkeypatch.setitem(sys.modules, "justhtml", None)
    with pytest.raises(ValueError, match=r"=html needs justhtml: install .*\[doc"):
        translate([], saved_model="any", format="html")


def shout_aligned(text):
    """Stands for an export with the signature `align`: one text, a piece a word."""
    words = [f"▁{word}" for word in text.numpy()[0].decode().split()]
    length = len(words) + 1
    return {
        **shout(text),
        "source_pieces": tf.constant([[*words, "</s>"]]),
        "target_pieces": tf.constant([[*map(str.upper, words), "</s>"]]),
        "attention": tf.eye(length, batch_shape=[1]),
        "log_probabilities": -0.5 * tf.range(length, dtype=tf.float32)[tf.newaxis],
    }


def test_alignments_and_scores_of_tokens_are_columns(translate, monkeypatch, tmp_path):
    opens(monkeypatch, shout_aligned)
    options = {"saved_model": "any", "batch_size": 1}
    translate(["a dog", "", "cat"], alignments=True, token_scores=True, **options)
    assert (tmp_path / "out").read_text().splitlines() == [
        "A DOG\t0-0 1-1\t▁A:-0.0000 ▁DOG:-0.5000 </s>:-1.0000",
        "\t\t</s>:-0.0000",
        "CAT\t0-0\t▁CAT:-0.0000 </s>:-0.5000",
    ]
    translate(["a dog"], alignments=True, **options)
    assert (tmp_path / "out").read_text() == "A DOG\t0-0 1-1\n"


@pytest.mark.parametrize("flag", ["alignments", "token_scores"])
@pytest.mark.parametrize("other", [{"nbest": 2}, {"format": "text"}])
def test_columns_are_for_the_best_translations_of_lines(
    translate, tmp_path, flag, other
):
    with pytest.raises(ValueError, match=f"--{flag} is for --format=lines without"):
        translate([], model_dir=tmp_path, **{flag: True}, **other)


@pytest.fixture
def small_model(monkeypatch, tmp_path):
    """The translator of any model_dir."""
    translator = make_translator(num_best=2)
    monkeypatch.setattr(of_run, "_load_translator", lambda *_, **__: translator)
    config = types.SimpleNamespace(
        task="translation", source_language="en", target_language="de"
    )
    (tmp_path / "config.json").touch()
    monkeypatch.setattr(opening, "open_model", OPEN_MODEL)
    monkeypatch.setattr(ModelDir, "read_config", lambda *_: config)
    monkeypatch.setattr(ModelDir, "choose", lambda *_: ModelDir(tmp_path / "m"))
    monkeypatch.setattr(ModelDir, "load_tokenizer", lambda *_: translator.tokenizer)
    return translator


@pytest.mark.long
def test_the_best_translations_of_a_trained_model_have_their_lines_number(
    translate, small_model, tmp_path
):
    """With batches of 1 a block has 32 lines."""
    lines = ["one two", "", "zwei"] * 22 + ["eins"]
    translate(lines, model_dir=tmp_path, nbest=2, batch_size=1)
    rows = [line.split("\t") for line in (tmp_path / "out").read_text().splitlines()]
    assert [row[0] for row in rows] == [str(n) for n in range(67) for _ in range(2)]
    with pytest.raises(ValueError, match="--nbest with --protect or --glossary needs"):
        translate(lines, model_dir=tmp_path, nbest=2, protect="urls")
    alone = [best.text for best in small_model.translate(["eins"])[0].nbest]
    assert [row[2] for row in rows[-2:]] == alone


@pytest.mark.long(first=1)
@pytest.mark.parametrize("options", [{"model_dir": "model"}, {"saved_model": "1"}])
def test_batches_at_once_are_translated_as_one_by_one(program_of, tmp_path, options):
    translator = make_translator()
    saved_model_lib.export(translator, tmp_path, signatures=["serving_default"])
    model, tokenizer = translator.model, translator.tokenizer
    parts = presets.get("tiny").training, translator.decoding, "en", "de"
    config = RunConfig("tiny", model.config, *parts, tokenizer.fingerprint)
    ModelDir(tmp_path / "model").write(model, tokenizer, config)
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES[:40]))
    given = {name: str(tmp_path / place) for name, place in options.items()}
    for num_workers in (1, 2):
        summary = program_of("bin/translate.py")(
            **given,
            input=tmp_path / "in",
            output=tmp_path / f"out{num_workers}",
            batch_size=7,
            num_workers=num_workers,
        )
        assert summary == {"lines": 40, "truncated": 7, "looped": 0}
    assert (tmp_path / "out1").read_text() == (tmp_path / "out2").read_text()


KEPT = ["<ph1>", "<ph2>", "<pc1>", "</pc1>"]


def keeping(text):
    """Stands for a model with placeholders, which it keeps in the wrong case."""
    assert all(b"http" not in each for each in text.numpy())
    upper = tf.strings.upper(text)
    for symbol in KEPT:
        upper = tf.strings.regex_replace(upper, symbol.upper(), symbol)
    return {
        "translations": upper[:, tf.newaxis],
        "scores": tf.zeros([len(text), 1]),
        "truncated": tf.zeros([len(text)], tf.bool),
    }


def test_what_is_protected_comes_back(translate, monkeypatch, tmp_path, capfd):
    opens(monkeypatch, keeping, max_input_length=None, placeholders=KEPT)
    (tmp_path / "terms").write_text("dog\tPudel\n")
    options = {"saved_model": "any", "protect": "urls", "glossary": tmp_path / "terms"}
    translate(["a dog at http://a.b/c", "", "no"], **options)
    written = (tmp_path / "out").read_text()
    assert written == "A Pudel AT http://a.b/c\n\nNO\n"
    translate(["- a dog. it is."], **options, format="text")
    assert (tmp_path / "out").read_text() == "- A Pudel. IT IS.\n"
    assert "placeholders" not in capfd.readouterr().err
    with pytest.raises(ValueError, match="--alignments is for translations as the"):
        translate(["a"], **options, alignments=True)
    with pytest.raises(ValueError, match="`protect` must be"):
        translate(["a"], saved_model="any", protect="ulrs")


def test_pairs_of_tags_stay_in_their_sentence(translate, monkeypatch, tmp_path):
    """Not the two of the first: they are more than the model has."""
    opens(monkeypatch, keeping, max_input_length=None, placeholders=KEPT)
    page = "<p>A <a href='http://a.b'>big</a> dog &amp; <b>this</b>.\n"
    page += "<p>One <i class='http:'>cat</i> &amp; dog."
    (tmp_path / "page").write_text(page)
    options = {"protect": "tags", "format": "html", "input": tmp_path / "page"}
    summary = translate([], saved_model="any", **options)
    assert summary["sentences"] == 5
    assert (tmp_path / "out").read_text() == (
        "<p>A <a href='http://a.b'>BIG</a> DOG &amp; <b>THIS</b>.\n"
        "<p>ONE <i class='http:'>CAT</i> &amp; DOG."
    )


def test_without_placeholders_the_alignment_is_used(
    translate, monkeypatch, tmp_path, capfd
):
    def aligned(text):
        pieces = [
            [b"\xe2\x96\x81" + word for word in each.split()] + [b"</s>"]
            for each in text.numpy()
        ]
        most = max(map(len, pieces))
        rows = tf.constant([row + [b""] * (most - len(row)) for row in pieces])
        return {
            **shout(text),
            "source_pieces": rows,
            "target_pieces": tf.strings.upper(rows),
            "attention": tf.eye(most, batch_shape=[len(text)]),
            "log_probabilities": tf.zeros([len(text), most]),
        }

    opens(monkeypatch, aligned)
    translate(["see www.a.de now"], saved_model="any", protect="urls")
    assert (tmp_path / "out").read_text() == "SEE www.a.de NOW\n"
    assert "The model has no placeholders" in capfd.readouterr().err
