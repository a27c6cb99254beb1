"""Bracket scores: EVALB's published output, and each of its rules."""

import json
import subprocess
import sys

import pytest

from keras_transformer.parsing import evaluation
from keras_transformer.treebank import evalb, trees
from keras_transformer.treebank.evalb_parameters import EvalbParameters, read_parameters

GOLD = "(S (NP (DT the) (NN fox)) (VP (VBD ran) (ADVP (RB off))) (. .))"


def compare(gold, test, **parameters):
    return evalb.compare(
        trees.from_string(gold), trees.from_string(test), EvalbParameters(**parameters)
    )


def counts(comparison):
    """Return the numbers of matched, gold and test constituents."""
    return len(comparison.matched), len(comparison.gold), len(comparison.test)


@pytest.fixture
def evalb_data(shared_data):
    folder = shared_data / "evalb"
    if not folder.is_dir():
        pytest.skip(f"no sample of EVALB: {folder} is absent")
    return folder


@pytest.mark.parametrize(
    ("parameter_file", "expected_file"),
    [
        ("sample/sample.prm", "sample/expected_evalb_sample_prm.txt"),
        ("COLLINS.prm", "sample/expected_evalb_COLLINS.txt"),
    ],
)
def test_the_report_is_what_evalb_prints(evalb_data, parameter_file, expected_file):
    """All sentence lines, the totals and both summaries are equal as text."""
    gold, test = evaluation.read_pairs(
        evalb_data / "sample/sample.tst", evalb_data / "sample/sample.gld"
    )
    parameters = read_parameters(evalb_data / parameter_file)
    scores = evalb.score_trees(gold, test, parameters)
    expected = (evalb_data / expected_file).read_text()
    assert evalb.format_scores(scores) == expected


def test_a_tree_matches_itself_cleaned_or_not(treebank, shared_data):
    raw = trees.read_trees(shared_data / "treebank" / "dev.mrg").trees
    summary = evalb.score_trees(raw, treebank["dev"]).summary
    assert summary.num_valid == len(raw) == 273
    assert summary.bracket_f1 == summary.complete_match == summary.tag_accuracy == 100


def test_constituents_match_by_span_and_label():
    """S, NP 0-2 and VP 2-4 of the test tree are correct; NP 3-4 should be ADVP."""
    found = compare(GOLD, GOLD.replace("ADVP", "NP"))
    assert counts(found) == (3, 4, 4)
    assert counts(compare(GOLD, GOLD.replace("ADVP", "NP"), labeled=False)) == (4, 4, 4)


def test_equal_labels_match():
    test = GOLD.replace("ADVP", "PRT")
    assert counts(compare(GOLD, test)) == (4, 4, 4)
    assert counts(compare(GOLD, test, equal_labels=frozenset())) == (3, 4, 4)


def test_words_with_deleted_tags_and_constituents_without_other_words_are_ignored():
    """The position of a comma does not matter, nor a bracket around commas only."""
    gold = "(TOP (S (NP (NN fox) (, ,)) (VP (VBD ran))))"
    test = "(S (NP (NN fox)) (VP (PRN (, ,)) (VBD ran)))"
    found = compare(gold, test)
    assert counts(found) == (3, 3, 3)
    assert found.num_words == found.num_correct_tags == 2


def test_function_labels_and_unlabelled_brackets_do_not_count():
    gold = "( (S (NP-SBJ-1 (NN fox)) (VP=2 (VBD ran) (NP (-NONE- *-1)))))"
    assert counts(compare(gold, "(S (NP (NN fox)) (VP (VBD ran)))")) == (3, 3, 3)


@pytest.mark.parametrize(
    ("num_gold", "num_test", "expected"), [(1, 3, 1), (3, 1, 1), (2, 2, 2)]
)
def test_repeated_constituents_are_paired_once_each(num_gold, num_test, expected):
    """EVALB's README, section 7, number 5."""

    def nested(times):
        return "(NP " * times + "(NN fox)" + ")" * times

    found = compare(nested(num_gold), nested(num_test))
    assert counts(found) == (expected, num_gold, num_test)


def test_a_constituent_that_crosses_several_others_counts_once():
    """(b c) crosses (a b) and (c d) and counts once; (a b c d) crosses nothing."""
    gold = "(S (X (A a) (B b)) (X (C c) (D d)))"
    assert compare(gold, "(S (A a) (X (B b) (C c)) (D d))").num_crossing == 1
    assert compare(gold, "(S (X (A a) (B b) (C c) (D d)))").num_crossing == 0
    assert compare(gold, "(S (A a) (X (B b) (X (C c) (D d))))").num_crossing == 1


def test_tags_are_compared_except_deleted_ones():
    found = compare(GOLD, GOLD.replace("NN", "JJ"))
    assert (found.num_words, found.num_correct_tags) == (4, 3)


@pytest.mark.parametrize(
    ("test", "status"),
    [
        ("(S (NN fox) (VBD ran))", evalb.VALID),
        ("(S (NN fox) (VBD ran) (. .))", evalb.VALID),
        ("(S (NN Fox) (VBD ran))", evalb.ERROR),
        ("(S (NN fox))", evalb.ERROR),
        ("(S (NN fox) (. ran))", evalb.ERROR),
        ("(S (. fox) (. ran))", evalb.SKIP),
    ],
)
def test_parses_with_different_words_are_not_scored(test, status):
    found = compare("(S (NN fox) (VBD ran))", test)
    assert found.status == status
    if status != evalb.VALID:
        assert counts(found) == (0, 0, 0)


def test_equal_words_may_differ():
    pairs = frozenset({frozenset({"Fox", "fox"})})
    found = compare("(S (NN fox))", "(S (NN Fox))", equal_words=pairs)
    assert found.status == evalb.VALID


def test_a_quotation_mark_confused_with_a_possessive_costs_only_its_tag():
    """QUOTE_LABEL of new.prm: the mark is deleted in one tree and kept in the other."""
    gold = "(S (`` `) (NP (NN fox)) ('' ') (VP (VBD ran)))"
    test = "(S (`` `) (NP (NN fox) (POS ')) (VP (VBD ran)))"
    assert compare(gold, test).status == evalb.ERROR
    found = compare(gold, test, quote_labels=frozenset({"''", "``", "POS"}))
    assert found.status == evalb.VALID
    # The words are: fox ' ran. NP ends after fox in gold and after ' in the test tree.
    assert (found.num_words, found.num_correct_tags) == (3, 2)
    assert counts(found) == (2, 3, 3)


def test_unequal_numbers_of_quotation_marks_remain_an_error():
    quotes = frozenset({"''", "POS"})
    found = compare("(S (NN fox) ('' '))", "(S (NN fox) (POS ') (POS '))")
    assert found.status == evalb.ERROR
    found = compare(
        "(S (NN fox) ('' '))", "(S (NN fox) (POS ') (POS '))", quote_labels=quotes
    )
    assert found.status == evalb.ERROR


def scores_of(*pairs, **parameters):
    gold = [trees.from_string(gold) for gold, _ in pairs]
    test = [None if test is None else trees.from_string(test) for _, test in pairs]
    return evalb.score_trees(gold, test, EvalbParameters(**parameters))


def test_a_summary_counts_all_constituents_of_valid_sentences():
    """Constituents 4/4/4 and 1/4/1: recall 5/8, precision 5/5, F1 10/13."""
    flat = "(S (DT the) (NN fox) (VBD ran) (RB off) (. .))"
    scores = scores_of((GOLD, GOLD), (GOLD, flat), (GOLD, None), (GOLD, "(S (NN fox))"))
    summary = scores.summary
    assert (summary.num_sentences, summary.num_valid) == (4, 2)
    assert (summary.num_error, summary.num_skipped) == (1, 1)
    assert summary.bracket_recall == pytest.approx(62.5)
    assert summary.bracket_precision == pytest.approx(100)
    assert summary.bracket_f1 == pytest.approx(1000 / 13)
    assert summary.complete_match == pytest.approx(50)
    assert [score.length for score in scores.sentences] == [5, 5, 5, 5]


def test_the_second_summary_covers_short_sentences():
    scores = scores_of((GOLD, GOLD), ("(S (NN fox))", "(X (NN fox))"), cutoff_length=4)
    assert scores.cutoff_summary.num_sentences == 1
    assert scores.cutoff_summary.bracket_f1 == 0
    assert "\n-- len<=4 --\nNumber of sentence        =      1\n" in (
        evalb.format_scores(scores)
    )


def test_scores_are_json_with_the_percentages_at_the_top_level():
    found = json.loads(json.dumps(scores_of((GOLD, GOLD)).to_dict()))
    names = ("bracket_precision", "bracket_recall", "bracket_f1", "complete_match")
    assert [found[name] for name in names] == [100, 100, 100, 100]
    assert found["up_to_cutoff"]["bracket_f1"] == 100
    assert found["cutoff_length"] == 40


def test_scores_without_valid_sentences_are_zero():
    summary = scores_of((GOLD, None)).summary
    assert summary.num_valid == summary.bracket_f1 == summary.average_crossing == 0


def test_too_many_sentences_with_different_words_stop_the_scoring():
    pairs = [(GOLD, GOLD)] + [(GOLD, "(S (NN cat))")] * 3
    assert scores_of(*pairs, max_errors=4).summary.num_error == 3
    message = r"3 parses \(max_errors\) have different words .* 2, 3, 4\. Check"
    with pytest.raises(ValueError, match=message):
        scores_of(*pairs, max_errors=3)


def test_gold_and_test_must_have_the_same_number_of_trees_and_not_be_empty():
    tree = trees.from_string(GOLD)
    with pytest.raises(ValueError, match="same number of trees. Received: 1 gold, 2"):
        evalb.score_trees([tree], [tree, tree])
    with pytest.raises(ValueError, match="nothing to score: `gold` has no trees"):
        evalb.score_trees([], [])


def test_files_are_scored_line_by_line(tmp_path):
    (tmp_path / "gold").write_text(f"{GOLD}\n{GOLD}\n")
    (tmp_path / "test").write_text(f"\n{GOLD}\n")
    gold, test = evaluation.read_pairs(tmp_path / "test", tmp_path / "gold")
    scores = evalb.score_trees(gold, test)
    assert [score.status for score in scores.sentences] == [evalb.SKIP, evalb.VALID]
    with pytest.raises(ValueError, match="test, line 1: a tree is needed"):
        evaluation.read_pairs(tmp_path / "gold", tmp_path / "test")


def test_scoring_needs_no_tensorflow(repository):
    code = (
        "import sys\n"
        "from keras_transformer.treebank import analysis, evalb\n"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repository)
