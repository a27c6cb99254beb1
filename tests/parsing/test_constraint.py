"""Constrained decoding: by hand, for random trees, and in a beam search."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer import config
from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import beam_search
from keras_transformer.decoding.rules import Hypotheses
from keras_transformer.parsing import constraint, symbols
from keras_transformer.parsing.constraint import ConstraintConfig, WellFormed
from keras_transformer.treebank import linearisation, trees
from tests.decoding.fake_models import BOS_ID, PrefixModel, log_prob_of, penalty
from tests.treebank import random_trees

VOCABULARY = symbols.SymbolVocabulary(["S", "NP", "VP"])
OPENING = {"(S", "(NP", "(VP"}
WIDE = 31  # a length limit that is never reached


def ask(vocabulary, limits, tokens, step, num_words, max_lengths):
    """Ask the rule which symbols may follow, bool `[batch, beam, vocab]`."""
    rule = WellFormed(vocabulary, limits or ConstraintConfig())
    hypotheses = Hypotheses(tokens, max_lengths, tf.range(vocabulary.vocab_size))
    return rule(hypotheses, step, {"num_words": num_words})


def allowed_after(
    so_far, num_words, max_length=WIDE, limits=None, vocabulary=VOCABULARY
):
    """Return the symbols that may follow, in slot 1 of row 1 of a 2 by 2 batch."""
    tokens = np.full((2, 2, WIDE), config.PAD_ID, np.int32)
    ids = vocabulary.encode(so_far.split())
    tokens[1, 1, : len(ids)] = ids
    tokens[0] = tokens[1, 0] = [5] * WIDE  # other hypotheses, which must not matter
    words, lengths = tf.constant([7, num_words]), tf.constant([17, max_length])
    allowed = ask(vocabulary, limits, tf.constant(tokens), len(ids), words, lengths)
    assert allowed.shape == (2, 2, vocabulary.vocab_size)
    return {vocabulary.symbols[i] for i in np.flatnonzero(allowed[1, 1])}


@pytest.mark.parametrize(
    ("so_far", "num_words", "expected"),
    [
        ("", 2, OPENING),
        ("(S", 2, OPENING | {"XX"}),  # the root is still empty
        ("(S XX", 2, OPENING | {"XX"}),  # the root must contain all words
        ("(S XX", 1, {")S"}),
        ("(S XX )S", 1, {"</s>"}),
        ("(S (NP", 2, OPENING | {"XX"}),
        ("(S (NP XX", 2, OPENING | {"XX", ")NP"}),
        ("(S (NP XX", 1, {")NP"}),  # no words left: nothing may open
        ("(S (NP XX )NP", 1, {")S"}),
        ("(S (NP XX )NP", 2, OPENING | {"XX"}),
        ("(S (NP XX )NP (VP XX", 3, OPENING | {"XX", ")VP"}),
        ("(S (VP (NP XX )NP", 2, OPENING | {"XX", ")VP"}),  # VP is still open
        ("(S (NP XX )NP (NP XX (VP XX )VP", 4, OPENING | {"XX", ")NP"}),
        ("(NP (NP XX )NP", 2, OPENING | {"XX"}),
        ("(NP (NP XX )NP", 1, {")NP"}),
    ],
)
def test_allowed_symbols_are_those_that_continue_a_tree(so_far, num_words, expected):
    assert allowed_after(so_far, num_words) == expected


@pytest.mark.parametrize(
    ("so_far", "max_length", "may_open"),
    [
        # (S XX XX )S EOS has 5 symbols; one more constituent makes 7.
        ("", 5, True),
        ("", 4, False),
        ("(S", 7, True),
        ("(S", 6, False),
        ("(S (NP", 9, True),
        ("(S (NP", 8, False),
        ("(S XX", 7, True),
        ("(S XX", 6, False),
    ],
)
def test_a_constituent_opens_only_if_it_can_be_closed_within_the_limit(
    so_far, max_length, may_open
):
    found = allowed_after(so_far, 2, max_length)
    assert found & OPENING == (OPENING if may_open else set())
    assert may_open or found == (set() if not so_far else {"XX"})


def test_depth_and_consecutive_openings_are_limited():
    limits = ConstraintConfig(max_depth=3, max_openings=2)
    assert allowed_after("(S", 5, limits=limits) >= OPENING
    assert allowed_after("(S (NP", 5, limits=limits) == {"XX"}  # two openings
    assert allowed_after("(S (NP XX", 5, limits=limits) >= OPENING
    deepest = "(S XX (NP XX (VP"
    assert allowed_after(deepest, 5, limits=limits) == {"XX"}
    assert allowed_after(f"{deepest} XX", 5, limits=limits) == {"XX", ")VP"}
    assert allowed_after(f"{deepest} XX )VP", 5, limits=limits) >= OPENING


@pytest.mark.parametrize("name", ["max_depth", "max_openings"])
def test_limits_below_one_are_rejected(name):
    with pytest.raises(
        ValueError, match=f"`{name}` must be at least 1. Received: {name}=0"
    ):
        ConstraintConfig(**{name: 0})


LABELS = symbols.SymbolVocabulary(random_trees.LABELS)
LENGTH = 300


@functools.cache
def is_tree_function():
    """Return `is_tree` as a traced function."""
    return tf.function(
        functools.partial(constraint.is_tree, LABELS),
        input_signature=[
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None, None], tf.int32),
        ],
    )


def ended(ids):
    """Return the row of a sequence: ids, EOS, padding."""
    row = [*ids, config.EOS_ID]
    return row + [config.PAD_ID] * (LENGTH - len(row))


@settings(max_examples=25, deadline=None)
@given(random_trees.TREES)
def test_every_tree_is_allowed_even_with_the_smallest_length_limit(tree):
    ids = LABELS.encode(linearisation.linearise(tree))
    num_words = len(tree.words)
    exact = tf.constant([[*ids, config.EOS_ID]])
    assert is_tree_function()(tf.constant([num_words]), exact)[0]
    without_eos = [*ids, *[config.PAD_ID] * (LENGTH - len(ids))]
    rows = tf.constant([ended(ids), ended(ids), without_eos])
    words = tf.constant([num_words, num_words + 1, num_words])
    assert is_tree_function()(words, rows).numpy().tolist() == [True, False, False]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(LABELS.symbols[4:9]), max_size=7),
    st.integers(1, 3),
)
def test_is_tree_agrees_with_delinearise(written, num_words):
    """For symbols in any order."""
    words = ["a"] * num_words
    try:
        linearisation.delinearise(written, words, words)
        expected = True
    except ValueError:
        expected = False
    padded = tf.constant([ended(LABELS.encode(written))])
    assert bool(is_tree_function()(tf.constant([num_words]), padded)[0]) == expected


def test_any_sequence_of_allowed_symbols_ends_in_a_tree_within_the_limit():
    """200 random sequences in one batch, with small and large limits."""
    draw = np.random.default_rng(3)
    num_words = draw.integers(1, 7, size=200)
    room = draw.integers(constraint.NUM_NEEDED, 23, size=200)
    limits = num_words + room
    bounds = ConstraintConfig(max_depth=5, max_openings=3)
    steps = int(limits.max())
    tokens = np.full((200, 1, steps), config.PAD_ID, np.int32)
    words, lengths = (tf.constant(each, tf.int32) for each in (num_words, limits))
    traced = tf.function(functools.partial(ask, LABELS, bounds))
    for step in range(steps):
        allowed = traced(tf.constant(tokens), tf.constant(step), words, lengths)
        allowed = allowed.numpy()[:, 0]
        is_open = ~np.any(tokens[:, 0] == config.EOS_ID, axis=1)
        assert allowed[is_open].any(axis=1).all()
        chances = np.where(allowed, draw.uniform(size=allowed.shape), -1)
        tokens[:, 0, step] = np.where(is_open, chances.argmax(axis=1), config.PAD_ID)
    lengths = np.argmax(tokens[:, 0] == config.EOS_ID, axis=1) + 1
    assert np.all(lengths > 1)
    assert np.all(lengths <= limits)
    assert np.any(lengths == limits)
    depths = []
    for row, count in zip(tokens[:, 0], num_words, strict=True):
        words = ["a"] * count
        tree = linearisation.delinearise(LABELS.decode(row), words, words)
        depths.append(trees.depth(tree))
    assert max(depths) == 5


TWO = symbols.SymbolVocabulary(["A", "B"])
TAGGED = symbols.SymbolVocabulary(["A"], ["M", "N"])


def all_trees(vocabulary, num_words, max_length, limits):
    """Return every complete sequence, EOS included, by recursion over children."""

    def constituents(words, depth, openings):
        """Yield the sequences of one constituent over this number of words."""
        if depth == 0 or openings == 0:
            return
        for opening in vocabulary.opening_ids:
            for inner in children(words, depth - 1, openings - 1):
                yield (opening, *inner, opening + 1)

    def children(words, depth, openings):
        """Yield the sequences of children; the first may start with `openings`."""
        for first in range(1, words + 1):
            heads = [*constituents(first, depth, openings)]
            heads += [(word,) for word in vocabulary.word_ids] * (first == 1)
            for head in heads:
                if first == words:
                    yield head
                else:
                    rest = children(words - first, depth, limits.max_openings)
                    yield from ((*head, *tail) for tail in rest)

    found = constituents(num_words, limits.max_depth, limits.max_openings)
    return [(*tree, config.EOS_ID) for tree in found if len(tree) < max_length]


@pytest.mark.parametrize(
    ("vocabulary", "num_words", "max_length", "limits", "count", "beam_size"),
    [
        # For each of 2 roots: no constituent below (1), one constituent with one of 2
        # labels over the first, the second or both words (6), or one over each word
        # with 2 labels each (4).
        (TWO, 2, 9, ConstraintConfig(max_depth=2), 22, 21),
        # The limit allows one constituent below the root: over 1, 2 or 3 of 3 words.
        (TWO, 3, 8, ConstraintConfig(max_depth=2), 2 * (1 + 2 * (3 + 2 + 1)), 26),
        # Chains of 1, 2 or 3 constituents over one word.
        (TWO, 1, 11, ConstraintConfig(max_depth=5, max_openings=3), 2 + 4 + 8, 21),
        # Two tags for each of 2 words, one label: no constituent below the root, one
        # in 3 positions, or one over each word.
        (TAGGED, 2, 9, ConstraintConfig(max_depth=2), 4 * (1 + 3 + 1), 21),
    ],
)
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_beam_21_equals_exhaustive_search_over_all_trees(
    vocabulary, num_words, max_length, limits, count, beam_size, alpha
):
    """The beam is at least as large as the number of hypotheses in every step."""
    written = all_trees(vocabulary, num_words, max_length, limits)
    assert len(set(written)) == len(written) == count
    for length in range(1, max_length):
        alive = {tree[:length] for tree in written if len(tree) > length}
        assert len(alive) <= beam_size

    # Logits of each prefix come from a table of 97 rows, for forbidden symbols too.
    shape = (3, 97, vocabulary.vocab_size)
    logits = np.random.default_rng(11).normal(scale=2.0, size=shape)
    model = PrefixModel(logits)
    rule, words = WellFormed(vocabulary, limits), tf.fill([3], num_words)
    model.max_steps = max_length
    result = beam_search(
        model.step,
        model.logits,
        model.empty_cache(),
        max_lengths=tf.fill([3], max_length),
        max_steps=max_length,
        config=DecodingConfig(beam_size=beam_size, length_penalty_alpha=alpha),
        bos_id=BOS_ID,
        eos_id=config.EOS_ID,
        pad_id=config.PAD_ID,
        num_best=min(count, beam_size),
        token_rules=[lambda *given: rule(*given[:2], {"num_words": words})],
    )
    for row in range(3):
        scores = {
            tree: log_prob_of(model, row, tree) / penalty(len(tree), alpha)
            for tree in written
        }
        best = sorted(scores, key=scores.get, reverse=True)[:beam_size]
        lengths = result.lengths[row].numpy().tolist()
        rows = zip(result.tokens[row].numpy().tolist(), lengths, strict=True)
        found = [tuple(tokens[:length]) for tokens, length in rows if length]
        assert found == best
        np.testing.assert_allclose(
            result.scores[row, : len(best)], [scores[tree] for tree in best], rtol=1e-4
        )
        assert np.all(result.finished[row, : len(best)])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_allowed_symbols_are_the_same_in_a_graph_and_under_xla(jit_compile):
    draw = np.random.default_rng(5)
    tokens = tf.constant(draw.integers(4, LABELS.vocab_size, size=(3, 2, 13)), tf.int32)

    def ask_three(tokens, step):
        words, lengths = tf.constant([5, 7, 2]), tf.constant([13, 11, 7])
        return ask(LABELS, None, tokens, step, words, lengths)

    compiled = tf.function(ask_three, jit_compile=jit_compile)
    for step in itertools.chain(range(5), [12]):
        expected = ask_three(tokens, tf.constant(step))
        np.testing.assert_array_equal(compiled(tokens, tf.constant(step)), expected)
