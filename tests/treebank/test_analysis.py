"""Scores by length and by label, and the right-branching baseline."""

import pytest

from keras_transformer.treebank import analysis, evalb, trees


def parsed(*lines):
    return [trees.from_string(line) for line in lines]


def test_sentences_are_grouped_by_length():
    """Sentences of length 1, 2, 3 and 5; only the last parse is wrong: X for S."""
    lines = [f"(S {'(NN fox)' * length})" for length in (1, 2, 3, 5)]
    gold = parsed(*lines)
    scores = evalb.score_trees(gold, [*gold[:3], *parsed(lines[3].replace("S", "X"))])
    found = analysis.scores_by_length(scores, bounds=(2, 3, 4))
    assert [*found] == ["1-2", "3-3", ">4"]
    assert [summary.num_sentences for summary in found.values()] == [2, 1, 1]
    assert [summary.bracket_f1 for summary in found.values()] == [100, 100, 0]


@pytest.mark.parametrize("bounds", [(0, 10), (10, 10), (20, 10)])
def test_bounds_must_increase(bounds):
    scores = evalb.score_trees(*[parsed("(S (NN fox))")] * 2)
    message = "`bounds` must be at least 1 and increase. Received: bounds="
    with pytest.raises(ValueError, match=message):
        analysis.scores_by_length(scores, bounds)


def test_scores_by_label_count_each_tree_by_its_own_labels():
    """NP: recall 1 of 2, precision 1 of 1. PRT of the parse matches ADVP of gold."""
    gold = parsed("(S (NP (NN fox)) (VP (VBD ran) (ADVP (RB off))) (NP (NN now)))")
    test = parsed("(S (NP (NN fox)) (VP (VBD ran) (PRT (RB off))) (XP (NN now)))")
    found = analysis.scores_by_label([*gold, *gold], [*test, None])
    assert [*found] == ["NP", "ADVP", "S", "VP", "PRT", "XP"]
    assert found["NP"].to_dict() == {
        "recall": 50,
        "precision": 100,
        "f1": pytest.approx(200 / 3),
        "num_gold": 2,
        "num_test": 1,
    }
    assert (found["ADVP"].recall, found["ADVP"].num_test) == (100, 0)
    assert (found["PRT"].precision, found["PRT"].num_gold) == (100, 0)
    assert found["XP"].f1 == found["XP"].precision == 0


def test_the_baseline_branches_to_the_right():
    tags = ["DT", "NN", "VBD", "RB"]
    found = analysis.right_branching(["the", "fox", "ran", "off"], tags)
    assert str(found) == "(S (DT the) (VP (NN fox) (VP (VBD ran) (RB off))))"
    assert str(analysis.right_branching(["fox"], ["NN"])) == "(S (NN fox))"
    found = analysis.right_branching(["a", "b"], ["X", "Y"], root="TOP")
    assert str(found) == "(TOP (X a) (Y b))"


def test_the_baseline_needs_words_and_their_tags():
    with pytest.raises(ValueError, match="`words` must not be .* 0 words, 0 tags"):
        analysis.right_branching([], [])
    with pytest.raises(ValueError, match="one tag per word. Received: 2 words, 1 tags"):
        analysis.right_branching(["red", "fox"], ["JJ"])


def test_the_baseline_has_its_known_score_on_the_treebank(treebank):
    """Reports show this baseline next to the scores of a trained parser."""
    gold = treebank["dev"]
    test = [analysis.right_branching(tree.words, tree.tags) for tree in gold]
    assert evalb.score_trees(gold, test).summary.bracket_f1 == pytest.approx(
        17.27, abs=0.01
    )
