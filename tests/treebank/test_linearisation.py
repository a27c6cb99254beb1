"""Trees to symbols and back, and the repair of invalid sequences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.treebank import linearisation, trees
from tests.treebank import random_trees

FOX = trees.from_string("(S (NP (DT The) (NN fox)) (VP (VBD slept)) (. .))")
SYMBOLS = ["(S", ")S", "(NP", ")NP", "(XX", ")XX", "XX", "</s>", "(", ")"]
FOX_SYMBOLS = ["(S", "(NP", "XX", "XX", ")NP", "(VP", "XX", ")VP", "XX", ")S"]


def test_a_tree_is_written_as_labels_with_xx_for_each_word():
    assert linearisation.linearise(FOX) == FOX_SYMBOLS
    assert linearisation.delinearise(FOX_SYMBOLS, FOX.words, FOX.tags) == FOX


def test_a_tree_is_written_as_labels_with_the_tag_of_each_word():
    symbols = linearisation.linearise(FOX, keep_tags=True)
    assert symbols == ["(S", "(NP", "DT", "NN", ")NP", "(VP", "VBD", ")VP", ".", ")S"]
    assert linearisation.delinearise(symbols, FOX.words, FOX.tags, FOX.tags) == FOX
    broken = [*symbols[:-2], ")NP", ")S"]
    repaired = linearisation.repair(broken, 4, word_symbols=["NN", "DT", "VBD", "."])
    assert repaired == [*symbols[:-2], "XX", ")S"]


def test_a_bracket_without_label_is_rejected():
    with pytest.raises(
        ValueError, match="Every bracket must have a label; `trees.clean`"
    ):
        linearisation.linearise(trees.from_string(f"({FOX})"))


@settings(max_examples=100, deadline=None)
@given(random_trees.TREES)
def test_every_tree_is_restored_from_its_symbols(tree):
    symbols = linearisation.linearise(tree)
    assert linearisation.delinearise(symbols, tree.words, tree.tags) == tree
    assert linearisation.repair(symbols, len(tree.words)) == symbols
    tagged = linearisation.linearise(tree, keep_tags=True)
    arguments = tree.words, tree.tags, {*tree.tags}
    assert linearisation.delinearise(tagged, *arguments) == tree


def test_every_tree_of_the_treebank_is_restored_from_its_symbols(treebank):
    assert [len(found) for found in treebank.values()] == [3396, 273]
    for tree in [*treebank["train"], *treebank["dev"]]:
        symbols = linearisation.linearise(tree)
        assert linearisation.delinearise(symbols, tree.words, tree.tags) == tree
        tagged = linearisation.linearise(tree, keep_tags=True)
        assert [symbol for symbol in tagged if symbol[0] not in "()"] == tree.tags


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("", "After 0 symbols, this is missing: a tree."),
        ("(S XX XX", r"After 3 symbols, this is missing: \)S\."),
        ("(S XX (NP XX", r"After 4 symbols, this is missing: \)NP \)S\."),
        ("(S XX )S", "The symbols stand for 1 words, but the sentence has 2."),
        ("(S XX XX XX )S", "Symbol 4, 'XX', has no word: the sentence has 2."),
        ("XX XX", "Symbol 1, 'XX', stands for a word outside all brackets."),
        ("(S XX XX )NP", r"Symbol 4, '\)NP', must be '\)S', which is open."),
        (")S", r"Symbol 1, '\)S', closes a constituent that was not opened."),
        (
            "(S (NP )NP XX XX )S",
            r"Symbol 3, '\)NP', closes a constituent without words",
        ),
        ("(S XX )S (S XX )S", r"Symbol 4, '\(S', comes after the end of the tree."),
        ("(S XX XX )S )S", r"Symbol 5, '\)S', comes after the end of the tree."),
        ("(S fox XX )S", r"Symbol 2, 'fox', must be a word symbol \(XX\), or"),
        ("( XX XX )", r"Symbol 1, '\(', must be a word symbol \(XX\), or"),
    ],
)
def test_symbols_that_are_not_a_tree_are_rejected(symbols, message):
    with pytest.raises(ValueError, match=message):
        linearisation.delinearise(symbols.split(), ["red", "fox"], ["JJ", "NN"])


def test_the_numbers_of_words_and_tags_must_be_equal():
    with pytest.raises(ValueError, match="`tags` must have .* 2 words, 1 tags"):
        linearisation.delinearise(["(S", "XX", ")S"], ["red", "fox"], ["JJ"])


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        # Truncated: the missing word is added and open constituents are closed.
        ("(S XX (NP XX", "(S XX (NP XX XX )NP )S"),
        # A closing label closes the constituents opened inside it.
        ("(S (NP (PP XX XX )NP XX )S", "(S (NP (PP XX XX )PP )NP XX )S"),
        # Unmatched closing labels, extra words and unknown symbols are dropped.
        ("(S XX )NP XX XX fox XX )S", "(S XX XX XX )S"),
        # So are empty constituents, also nested ones.
        ("(S (NP (PP )PP )NP XX XX XX (VP", "(S XX XX XX )S"),
        # The first bracket becomes the root.
        ("(S XX )S (NP XX XX )NP", "(S XX (NP XX XX )NP )S"),
        ("XX (NP XX XX )NP", "(S XX (NP XX XX )NP )S"),
        ("", "(S XX XX XX )S"),
        (")S )S ( )", "(S XX XX XX )S"),
    ],
)
def test_repair_gives_a_similar_tree(symbols, expected):
    assert linearisation.repair(symbols.split(), 3) == expected.split()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(SYMBOLS), max_size=23),
    st.integers(1, 7),
)
def test_repair_always_gives_a_tree_over_all_words(symbols, num_words):
    words = [f"word{index}" for index in range(num_words)]
    repaired = linearisation.repair(symbols, num_words)
    tree = linearisation.delinearise(repaired, words, ["NN"] * num_words)
    assert tree.words == words
    assert linearisation.repair(repaired, num_words) == repaired


def test_repair_needs_a_word():
    with pytest.raises(
        ValueError, match="`num_words` must be at least 1. .*num_words=0"
    ):
        linearisation.repair(FOX_SYMBOLS, 0)


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        (",", [","]),
        (".", [".", "?", "!"]),
        (":", [":", ";", "--", "..."]),
        ("``", ["``", "`"]),
        ("''", ["''", '"']),
        ("-LRB-", ["(", "-LRB-", "-LCB-"]),
        ("-RRB-", [")", "-RRB-", "-RCB-"]),
        ("XX", ["$", "fox", "'s", "'", "3.5", "XX"]),
    ],
)
def test_tags_of_punctuation_come_from_the_word(tag, words):
    assert [linearisation.tag_of(word) for word in words] == [tag] * len(words)
    assert linearisation.tags_of(words) == [tag] * len(words)


def test_predicted_tags_are_used_except_for_punctuation():
    words = ["the", ",", "fox", "ran", "."]
    predicted = ["DT", "NN", ",", "VBD", "."]
    expected = ["DT", ",", "XX", "VBD", "."]
    assert linearisation.merge_tags(words, predicted) == expected


def test_a_single_quote_is_punctuation_after_an_opening_quote():
    words = ["the", "foxes", "'", "`", "red", "'", "tails", "'"]
    tags = ["XX", "XX", "XX", "``", "XX", "''", "XX", "XX"]
    assert linearisation.tags_of(words) == tags


def test_punctuation_of_the_treebank_is_recognized_from_the_words(treebank):
    """EVALB deletes words by tag, so a wrong tag makes a sentence invalid."""
    left_out = {",", ":", "``", "''", "."}
    differ = []
    for tree in [*treebank["train"], *treebank["dev"]]:
        for leaf, tag in zip(
            tree.leaves, linearisation.tags_of(tree.words), strict=True
        ):
            if (leaf.tag in left_out) != (tag in left_out):
                differ.append(leaf)
    # An annotation error, and a quotation that started one sentence earlier.
    assert differ == [trees.Leaf(",", "Wa"), trees.Leaf("''", "'")]
