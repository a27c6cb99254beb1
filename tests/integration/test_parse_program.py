"""Sentences to trees through bin/parse.py, its exports and its errors."""

import json
import re

import pytest

from keras_transformer.opening import open_model
from keras_transformer.parsing import parse_files, symbols
from keras_transformer.parsing.parser import ParseText
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.translation import exported_model
from keras_transformer.treebank import drawing, trees
from tests.searchers import load_searcher
from tests.small_models import make_parser

pytestmark = pytest.mark.long

TEXT = "The dog (sees) the fox.\nthe moon\n"
WORDS = ["The dog -LRB- sees -RRB- the fox .", "the moon"]


@pytest.fixture
def run(program_of):
    """Run bin/parse.py in this process with these flags."""
    return program_of("bin/parse.py")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text(TEXT, encoding="utf-8")
    return path


def words_of(line):
    return " ".join(trees.from_string(line).words)


def test_raw_text_becomes_trees_over_the_treebanks_words(
    run, text, parser_dir, tmp_path
):
    output = tmp_path / "trees"
    summary = run(model_dir=parser_dir, input=text, output=output, beam_size=2)
    assert summary == {"lines": 2, "skipped": 0, "invalid": 0}
    lines = output.read_text().splitlines()
    assert [words_of(line) for line in lines] == WORDS
    parser = load_searcher(parser_dir, beam_size=2)
    assert lines == [str(tree) for tree in parser(WORDS)]


def test_tokenized_words_stay_as_they_are(run, parser_dir, tmp_path, capfdbinary):
    path = tmp_path / "words"
    path.write_bytes(b"don't ( stop.\r\n\tthe  fox \n")
    run(model_dir=parser_dir, input=path, tokenized=True, beam_size=2)
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [words_of(line) for line in lines] == ["don't -LRB- stop.", "the fox"]


def test_an_export_gives_the_same_trees(run, text, parser_dir, parser_export, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run(model_dir=parser_dir, input=text, output=ours, beam_size=3)
    summary = run(saved_model=parser_export, input=text, output=theirs, batch_size=1)
    assert summary == {"lines": 2, "skipped": 0, "invalid": 0}
    assert ours.read_text() == theirs.read_text()


def test_an_export_without_packed_kernels_is_smaller_and_parses_alike(
    run, program_of, text, parser_dir, parser_export_summary, tmp_path
):
    folder, with_packed_kernels = parser_export_summary
    summary = program_of("export/export_saved_model.py")(
        model_dir=parser_dir,
        export_dir=tmp_path / "export",
        packed_kernels=False,
        beam_size=3,
        warmup=False,
        check_lines=0,
    )
    assert summary["weights_bytes"] < with_packed_kernels["weights_bytes"]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run(saved_model=summary["saved_model"], input=text, output=ours)
    run(saved_model=folder / "1", input=text, output=theirs)
    assert ours.read_text() == theirs.read_text()


def test_trees_are_drawn(tmp_path):
    """Line 2 has no tree."""
    found = [trees.from_string(text) for text in ("(S (XX a))", "(NP (XX b))")]
    first, last = (ParseText(str(tree), 0.0, False, True) for tree in found)
    parses = [first, None, last]
    path = {name: tmp_path / name for name in ("drawn", "one.svg", "many")}
    parse_files.write_parses(path["drawn"], parses, "text")
    assert path["drawn"].read_text() == "S\n└─ a\n\n\nNP\n└─ b\n\n"
    parse_files.write_parses(path["one.svg"], parses, "svg")
    assert path["one.svg"].read_text() == drawing.draw_svg(found)
    parse_files.write_parses(path["many"], parses, "svg")
    assert sorted(file.name for file in path["many"].iterdir()) == ["1.svg", "3.svg"]
    assert (path["many"] / "3.svg").read_text() == drawing.draw_svg(found[1])


LONG = "the fox sees " * 23
# Bad lines, and the error message for each in line 2.
BAD = {
    b"\xff dog": "is not valid UTF-8: invalid start byte at byte 1. Convert it",
    b"  ": "has no words. Give one sentence per line.",
    LONG.encode(): "is longer than the model reads. Split the sentence.",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named(run, parser_dir, tmp_path, line):
    path = tmp_path / "text"
    path.write_bytes(b"the fox\n" + line + b"\n")
    wanted = f"{path}, line 2, {BAD[line]}"
    with pytest.raises(ValueError, match=re.escape(wanted)) as error:
        run(model_dir=parser_dir, input=path, output=tmp_path / "trees")
    assert str(error.value).endswith("Or leave such lines out with --skip_bad.")
    assert not (tmp_path / "trees").exists()


def test_bad_lines_are_skipped_counted_and_leave_empty_lines(
    run, parser_dir, tmp_path, capsys
):
    path, output = tmp_path / "text", tmp_path / "trees"
    path.write_bytes(b"\n".join([b"the fox", *BAD, b"the dog", b""]))
    where = {"model_dir": parser_dir, "input": path, "output": output, "beam_size": 1}
    summary = run(**where, skip_bad=True)
    assert summary == {"lines": 5, "skipped": 3, "invalid": 0}
    first, *empty, last = output.read_text().splitlines()
    assert empty == ["", "", ""]
    assert [words_of(line) for line in (first, last)] == ["the fox", "the dog"]
    messages = capsys.readouterr().err.splitlines()
    assert messages[-1] == "left out 3 of 5 lines."
    assert f"left out: {path}, line 2, is not valid UTF-8" in messages[-4]
    run(**where, skip_bad=True, draw="text")
    pictures = output.read_text().split("\n\n")
    assert [picture.count("fox") for picture in pictures] == [1, 0, 0, 0]
    path.write_bytes(b"\n")
    assert run(**where, skip_bad=True) == {"lines": 1, "skipped": 1, "invalid": 0}
    with pytest.raises(ValueError, match="There is no tree to draw: the input has"):
        run(**where, skip_bad=True, draw="svg")


def test_sentences_over_the_limit_of_an_export_are_bad(tmp_path, parser_export):
    path = tmp_path / "text"
    path.write_text(f"the fox\n{LONG}\n")
    parse = parse_files.with_export(open_model(parser_export, "parse").run_batch)
    output = tmp_path / "trees"
    with pytest.raises(ValueError, match="line 2, is longer than the model reads"):
        parse_files.parse_and_write(parse_files.read_sentences(path), parse, output)
    sentences = parse_files.read_sentences(path, skip_bad=True)
    first, second = parse_files.parse_and_write(sentences, parse, output)
    assert words_of(first.text) == "the fox" and second is None


def test_trees_are_written_as_they_come(tmp_path, monkeypatch):
    """What was parsed before a failure stays, and so does an earlier file."""
    monkeypatch.setattr(parse_files, "_LINES_PER_BLOCK", 2)
    seen, output = [], tmp_path / "trees"
    output.write_text("earlier")

    def parse(texts):
        seen.append((tmp_path / "trees.partial").read_text())
        if "last" in texts:
            raise ValueError("last is not for me")
        return [ParseText(f"(S (XX {text}))", 0.0, False, True) for text in texts]

    texts = ["the", "fox", "sees", None, "last"]
    sentences = parse_files.Sentences(texts, "text", skip_bad=True)
    with pytest.raises(ValueError, match="last is not") as found:
        parse_files.parse_and_write(sentences, parse, output)
    first = "(S (XX the))\n(S (XX fox))\n"
    second = "(S (XX sees))\n\n"
    assert seen == ["", first, first + second]
    assert found.value.__notes__ == [f"{output}.partial keeps the first 4 lines."]
    assert output.read_text() == "earlier"
    sentences.texts[-1] = None
    assert len(parse_files.parse_and_write(sentences, parse, output)) == 5
    assert output.read_text() == first + second + "\n"


def test_unconstrained_answers_are_repaired_and_counted(tmp_path):
    parse = parse_files.with_parser(make_parser(constrained=False))
    found = parse(["one two three", "A dog runs !"])
    assert not all(answer.valid for answer in found)
    assert [words_of(answer.text) for answer in found] == [
        "one two three",
        "A dog runs !",
    ]


def test_flags_that_do_not_fit_are_refused(run, parser_dir, parser_export):
    for given in ({}, {"model_dir": parser_dir, "saved_model": parser_export}):
        with pytest.raises(ValueError, match="Give one of --model_dir and --saved_mod"):
            run(**given)
    for flag, value in {
        "beam_size": 2,
        "length_penalty_alpha": 0.5,
        "checkpoint": "best",
        "unconstrained": True,
    }.items():
        with pytest.raises(ValueError, match=f"--{flag} is fixed when a model is exp"):
            run(saved_model=parser_export, **{flag: value})


def test_a_model_of_the_other_task_is_refused(
    parser_dir, translator_dir, text, program_of
):
    with pytest.raises(ValueError, match=f"{parser_dir} is a parser: use bin/parse.py"):
        program_of("bin/translate.py")(model_dir=parser_dir, input=text)
    message = f"{translator_dir} is a translation model: use bin/translate.py"
    with pytest.raises(ValueError, match=message):
        program_of("bin/parse.py")(model_dir=translator_dir, input=text)


def test_an_export_says_what_it_is(parser_dir, parser_export):
    description = exported_model.read_description(parser_export)
    assert description["task"] == "parsing"
    assert description["labels"] == [
        *symbols.load(ModelDir(parser_dir).labels_path).labels
    ]
    assert description["decoding"]["beam_size"] == 3


def test_flags_of_translation_are_refused_in_the_export_of_a_parser(
    program_of, parser_dir, translator_dir, tmp_path
):
    export = program_of("export/export_saved_model.py")
    for given in ({"nbest": 2}, {"signatures": "align"}):
        (flag,) = given
        message = f"--{flag} is for translation models, but .* is a parser"
        with pytest.raises(ValueError, match=message):
            export(model_dir=parser_dir, export_dir=tmp_path / "none", **given)
    assert not (tmp_path / "none").exists()


def test_the_summary_of_an_export_is_its_description(parser_export_summary):
    folder, summary = parser_export_summary
    assert json.loads(json.dumps(summary))["saved_model"] == str(folder / "1")
    assert summary["precision"] == "float32" and summary["bytes"] > 0
