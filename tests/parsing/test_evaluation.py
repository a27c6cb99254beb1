"""Bracket scores of files and of a model with bin/evaluate.py."""

import dataclasses
import json
import re

import pytest

from keras_transformer.opening import open_model
from keras_transformer.parsing import evaluation
from keras_transformer.parsing.parser import Parse
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.treebank import evalb, linearisation, trees

GOLD = "(S (NP (DT the) (NN fox)) (VP (VBD saw) (NP (PRP it))) (. .))"
# One NP is missing and the rest is correct: recall 3 of 4, precision 3 of 3.
TEST = "(S (NP (XX the) (XX fox)) (VP (XX saw) (XX it)) (. .))"


@pytest.fixture
def run(program_of):
    """Run bin/evaluate.py in this process with these flags."""
    return program_of("bin/evaluate.py")


@pytest.fixture
def files(tmp_path):
    """Two gold trees; the second has no parse."""
    paths = {name: tmp_path / name for name in ("reference", "hypothesis")}
    paths["reference"].write_text(f"{GOLD}\n{GOLD}\n")
    paths["hypothesis"].write_text(f"{TEST}\n\n")
    return paths


def test_files_are_scored_in_evalbs_layout(run, files, tmp_path, capsys):
    """The baseline has S and VP over "fox saw it", "saw it" and "it".

    Gold has S, NP, VP over "saw it", and NP: S and one VP of 4 match. The period is not
    scored.
    """
    report, table = tmp_path / "report.json", tmp_path / "table"
    summary = run(task="parsing", **files, report=report, evalb_table=table)
    assert summary == json.loads(report.read_text())
    assert summary["bracket_recall"] == 75 and summary["bracket_precision"] == 100
    assert summary["bracket_f1"] == pytest.approx(600 / 7)
    assert summary["complete_match"] == 0 and summary["num_skipped"] == 1
    assert summary["right_branching_f1"] == 50
    assert summary["by_length"]["1-10"]["num_valid"] == 1
    assert summary["by_label"]["NP"]["recall"] == 50
    assert "truncated" not in summary and "unconstrained" not in summary
    printed = capsys.readouterr().out
    assert printed.startswith("=== Summary ===\n\n-- All --\nNumber of sentence")
    assert "Bracketing FMeasure       =  85.71\n" in printed
    assert printed.endswith("Right-branching FMeasure  =  50.00\n")
    gold, test = evaluation.read_pairs(files["hypothesis"], files["reference"])
    scores = evalb.score_trees(gold, test)
    assert table.read_text() == evalb.format_scores(scores)


def test_a_parameter_file_is_followed(run, files, tmp_path):
    """Without NP, only S and VP are scored, and both are correct."""
    rules = tmp_path / "rules.prm"
    rules.write_text("DELETE_LABEL NP\nDELETE_LABEL .\n")
    summary = run(task="parsing", **files, evalb_parameters=rules)
    assert (summary["bracket_recall"], summary["bracket_precision"]) == (100, 100)


@pytest.mark.long
def test_a_model_is_scored_on_the_words_of_gold_trees(
    run, parser_dir, parser_corpus, tmp_path, capsys
):
    """The task comes from the model, and the written trees score the same as files."""
    output, report = tmp_path / "trees", tmp_path / "report.json"
    where = {"data_dir": parser_corpus, "split": "valid", "beam_size": 2}
    summary = run(
        model_dir=parser_dir, **where, output=output, report=report, unconstrained=True
    )
    assert json.loads(report.read_text()) == summary
    assert summary["num_sentences"] == summary["num_valid"] == 7
    assert summary["truncated"] == 0
    assert summary["unconstrained"]["repaired"] > 0
    assert summary["unconstrained"]["num_valid"] == 7
    assert "Right-branching FMeasure" in capsys.readouterr().out
    gold = f"{parser_corpus}/valid.target"
    again = run(task="parsing", hypothesis=output, reference=gold)
    assert {name: summary[name] for name in again} == again


def test_gold_tags_never_reach_the_model():
    """The parser gets words only, and tags come from the form of the words."""
    asked = []

    class Recorder:
        def parse(self, sentences, batch_size):
            asked.extend(sentences)
            words = sentences[0].split()
            labels = ["(S", *["XX"] * len(words), ")S"]
            tags = linearisation.tags_of(words)
            tree = linearisation.delinearise(labels, words, tags)
            return [Parse(tree, 0.0, True, False)]

    gold = [trees.from_string(GOLD)]
    answers = evaluation.parse_words(Recorder(), gold)
    assert asked == ["the fox saw it ."]
    assert (answers.num_truncated, answers.num_repaired) == (1, 1)
    assert answers.trees[0].tags == ["XX"] * 4 + ["."]


def test_disagreement_about_punctuation_does_not_stop_an_evaluation():
    """Gold deletes "x" and `tags_of` does not, so the sentences have no score."""
    gold = [trees.from_string("(S (NN a) (. x))")] * 23
    test = [trees.from_string("(S (XX a) (XX x))")] * 23
    answers = evaluation.ModelAnswers(test, 0, 0)
    scores = evaluation.score_answers(gold, answers)
    assert scores.evalb.summary.num_error == 23
    with pytest.raises(ValueError, match="parses .max_errors. have different words"):
        evaluation.score(gold, test)


def test_flags_of_the_other_task_are_rejected(run, files, parser_dir, tmp_path):
    for flag in ("evalb_parameters", "evalb_table", "unconstrained"):
        message = f"--{flag} is for --task=parsing, not translation."
        with pytest.raises(ValueError, match=message):
            run(**files, **{flag: "true"})
    for flag, value in {"target_language": "de", "bootstrap_samples": 5}.items():
        message = f"--{flag} is for --task=translation, not parsing."
        with pytest.raises(ValueError, match=message):
            run(task="parsing", **files, **{flag: value})
    with pytest.raises(ValueError, match="--source is for --task=translation, not"):
        run(model_dir=parser_dir, source="a", reference="b")
    with pytest.raises(ValueError, match="--unconstrained and --hypothesis exclude"):
        run(task="parsing", **files, unconstrained=True)


def test_a_task_other_than_the_models_is_rejected(
    run, parser_dir, translator_dir, parser_corpus
):
    where = {"data_dir": parser_corpus, "split": "valid"}
    message = f"--task=translation, but the model in {parser_dir} has the task parsing."
    with pytest.raises(ValueError, match=message):
        run(model_dir=parser_dir, task="translation", **where)
    message = f"but the model in {translator_dir} has the task translation. Drop"
    with pytest.raises(ValueError, match=message):
        run(model_dir=translator_dir, task="parsing", **where)


def test_data_without_gold_trees_is_rejected(run, parser_dir, parser_corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match="No test.target in .*another --split"):
        run(model_dir=parser_dir, data_dir=parser_corpus, split="test")
    with pytest.raises(FileNotFoundError, match="No metadata.json in"):
        run(model_dir=parser_dir, data_dir=tmp_path)
    from tests import small_corpus

    text = small_corpus.write_corpus(tmp_path, "text", 285)
    with pytest.raises(ValueError, match="is prepared for --task=translation, but a"):
        run(model_dir=parser_dir, data_dir=text, split="valid")


def test_files_of_different_lengths_are_rejected(run, files):
    files["hypothesis"].write_text(f"{TEST}\n")
    message = (
        f"{files['hypothesis']} has 1 line and {files['reference']} has 2 lines: line n"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        run(task="parsing", **files)


def test_a_model_dir_of_another_task_is_rejected_before_loading_weights(
    translator_dir, tmp_path
):
    """The second folder has no weights, so the error must be about the task."""
    model_dir = ModelDir(translator_dir)
    with pytest.raises(ValueError, match="is a translation model: use bin/translate"):
        open_model(model_dir.path, "parse")
    other = ModelDir(tmp_path)
    other.write_config(dataclasses.replace(model_dir.read_config(), task="parsing"))
    with pytest.raises(ValueError, match="is a parser: use bin/parse.py"):
        open_model(other.path, "translate")
