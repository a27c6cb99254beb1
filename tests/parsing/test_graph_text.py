"""Trees written in the graph equal those written by Python."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer import config
from keras_transformer.parsing import graph_text, symbols
from keras_transformer.treebank import linearisation, trees
from tests.treebank import random_trees

VOCABULARY = symbols.SymbolVocabulary(random_trees.LABELS)


TAGS = ["DT", "NN", ",", "''"]
TAGGED = symbols.SymbolVocabulary(random_trees.LABELS, TAGS)


def writer(vocabulary):
    """Return a function that writes trees from their symbols and sentences."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None], tf.string),
        ]
    )
    def write(tokens, text):
        words = graph_text.split_words(text)
        return graph_text.write_trees(vocabulary, tokens, words)

    return write


written, written_with_tags = writer(VOCABULARY), writer(TAGGED)


def rows_of(sequences, vocabulary=VOCABULARY):
    """Return ids of symbols as rows: ids, EOS, padding."""
    longest = max(map(len, sequences), default=0) + 1
    rows = np.full((len(sequences), longest), config.PAD_ID, np.int32)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence) + 1] = [*vocabulary.encode(sequence), config.EOS_ID]
    return rows


@settings(max_examples=40, deadline=None)
@given(st.lists(random_trees.TREES, min_size=1, max_size=3))
def test_the_graph_writes_trees_as_python_does(drawn):
    """Tags come from the words, and the words are escaped."""
    sequences = [linearisation.linearise(tree) for tree in drawn]
    found = written(rows_of(sequences), [" ".join(tree.words) for tree in drawn])
    expected = [
        linearisation.delinearise(
            sequence, tree.words, linearisation.tags_of(tree.words)
        )
        for sequence, tree in zip(sequences, drawn, strict=True)
    ]
    assert [text.decode() for text in found.numpy()] == [*map(str, expected)]


@settings(max_examples=40, deadline=None)
@given(random_trees.TREES, st.data())
def test_the_graph_merges_tags_as_python_does(tree, data):
    sequence = linearisation.linearise(tree)
    tags = [data.draw(st.sampled_from(TAGS)) for _ in tree.words]
    given_tags = iter(tags)
    tagged = [
        next(given_tags) if symbol == linearisation.WORD else symbol
        for symbol in sequence
    ]
    found = written_with_tags(rows_of([tagged], TAGGED), [" ".join(tree.words)])
    expected = linearisation.delinearise(
        sequence, tree.words, linearisation.merge_tags(tree.words, tags)
    )
    assert found.numpy()[0].decode() == str(expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["`", "'", "''", "a"]), min_size=1, max_size=23))
def test_a_quote_closes_an_open_quotation(words):
    tags = graph_text.tags_of(tf.ragged.constant([["`", "`"], words])).numpy()[1]
    found = [tag.decode() for tag in tags[: len(words)]]
    assert found == linearisation.tags_of(words)


def test_every_word_with_a_fixed_tag_gets_it():
    words = [
        word for line in linearisation.WORDS_OF_TAG.values() for word in line.split()
    ]
    words += [*trees.BRACKETS, "(S", ":)", "()", "XX", ")S", "\u00e9", "\U0001f600"]
    flat = ["(S", *[linearisation.WORD] * len(words), ")S"]
    [tree] = written(rows_of([flat]), [" ".join(words)]).numpy()
    expected = [f"({linearisation.tag_of(w)} {trees.escape(w)})" for w in words]
    assert tree.decode() == f"(S {' '.join(expected)})"


def test_words_without_a_symbol_are_appended_to_the_root():
    [tree] = written(rows_of([["(S", "(NP", "XX", ")NP", ")S"]]), ["a ( b"]).numpy()
    assert tree == b"(S (NP (XX a)) (-LRB- -LRB-) (XX b))"


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n"]])
def test_rows_without_symbols_have_no_tree(texts):
    none = np.zeros((len(texts), 0), np.int32)
    padding = np.zeros((len(texts), 3), np.int32)
    for tokens in (none, padding):
        assert written(tokens, tf.constant(texts, tf.string)).numpy().tolist() == [
            b"" for _ in texts
        ]


def test_words_are_split_at_ascii_white_space_and_converted_to_utf_8():
    text = [
        "  a\tb\n\rc\v\fd ",
        "x\N{NO-BREAK SPACE}y \u2003z",
        b"\xff\xfea \xc3",
        "\0 b",
    ]
    words = graph_text.split_words(tf.constant(text)).to_list()
    assert [[word.decode() for word in row] for row in words] == [
        ["a", "b", "c", "d"],
        ["x\N{NO-BREAK SPACE}y", "\u2003z"],
        ["\ufffd\ufffda", "\ufffd"],
        ["\0", "b"],
    ]
    for row, given_text in zip(words, text, strict=True):
        if isinstance(given_text, str):
            assert row == given_text.encode().split()
