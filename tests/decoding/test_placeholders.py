"""Placeholders of a source come in its translation, each once, tags nested."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.rules import Hypotheses
from keras_transformer.decoding.rules.placeholders import KeptPlaceholders

PAD_ID, EOS_ID, WORD = 0, 1, 2
# A tag without a partner is an ordinary token.
NAMES = ("<ph1>", "<ph2>", "<pc1>", "</pc1>", "<pc2>", "</pc2>", "<pc3>")
IDS = {name: 3 + number for number, name in enumerate(NAMES)}
VOCAB_SIZE = 3 + len(NAMES)
PH1, PH2, OPEN1, CLOSE1, OPEN2, CLOSE2, ALONE = IDS.values()


def make_rule():
    return KeptPlaceholders(IDS, VOCAB_SIZE, EOS_ID)


def allowed_by(rule, tokens, step, wanted, limit):
    """Return bool `[1, beam, vocab]` for tokens `[1, beam, max_steps]`."""
    hypotheses = Hypotheses(
        tf.constant(tokens), tf.constant([limit]), tf.range(VOCAB_SIZE)
    )
    return rule(hypotheses, step, {"wanted": wanted}).numpy()


def is_nested(tokens):
    opened = []
    for token in tokens:
        if token in (OPEN1, OPEN2):
            opened.append(token)
        if token in (CLOSE1, CLOSE2) and (not opened or opened.pop() != token - 1):
            return False
    return not opened


def walks(source, limit, choose, count=1):
    """Return sequences of allowed tokens that `choose` picks."""
    rule = make_rule()
    wanted = rule.wanted(tf.constant([source]), tf.zeros([1, 0], tf.int32))

    @tf.function(autograph=False)
    def allowed(row, step):
        hypotheses = Hypotheses([[row]], tf.constant([limit]), tf.range(VOCAB_SIZE))
        return rule(hypotheses, step, {"wanted": wanted})[0, 0]

    for _ in range(count):
        tokens = []
        while len(tokens) < limit and EOS_ID not in tokens:
            # After the tokens so far, padding that may be outside of the vocabulary.
            row = tokens + [VOCAB_SIZE + 5] * (limit - len(tokens))
            asked = allowed(tf.constant(row), tf.constant(len(tokens)))
            choices = np.flatnonzero(asked)
            assert len(choices), tokens
            tokens.append(int(choose(choices)))
        yield tokens


def symbols_of(tokens):
    return sorted(token for token in tokens if token in IDS.values() and token != ALONE)


SOURCES = [
    [EOS_ID],
    [WORD, PH1, EOS_ID],
    [PH2, PH1, PH2, EOS_ID],
    [OPEN1, WORD, CLOSE1, EOS_ID],
    [OPEN2, OPEN1, PH1, CLOSE1, PH2, CLOSE2, EOS_ID],
    [OPEN1, OPEN2, CLOSE2, CLOSE1, OPEN2, CLOSE2, PH1, EOS_ID],
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("room", [0, 3, 20])
def test_random_outputs_have_every_symbol_as_often_as_the_source(source, room):
    draw = np.random.default_rng(room)
    limit = len(source) + room
    for tokens in walks(source, limit, draw.choice, count=10):
        assert symbols_of(tokens) == symbols_of(source)
        assert is_nested(tokens)


@pytest.mark.parametrize("source", SOURCES)
def test_symbols_wait_no_longer_than_the_limit_allows(source):
    """An output that never wants a symbol, and never ends, gets them all."""

    def unwilling(choices):
        return WORD if WORD in choices else choices[0]

    (tokens,) = walks(source, len(source) + 4, unwilling)
    assert symbols_of(tokens) == symbols_of(source)
    assert is_nested(tokens)


def test_other_tokens_are_free():
    """Without symbols in the source all but symbols may come."""
    rule, source = make_rule(), tf.constant([[WORD, ALONE, EOS_ID]])
    wanted = rule.wanted(source, tf.zeros([1, 0], tf.int32))
    tokens = [[[WORD, PAD_ID], [ALONE, PAD_ID]]]
    allowed = allowed_by(rule, tokens, 1, wanted, 2)
    assert allowed.shape == (1, 2, VOCAB_SIZE)
    free = [PAD_ID, EOS_ID, WORD, ALONE]
    for row in allowed[0]:
        assert np.flatnonzero(row).tolist() == free


def test_a_source_asks_for_pairs_and_a_prefix_for_what_it_has():
    rule = make_rule()
    source = tf.constant([[OPEN1, PH1, PH1, CLOSE2, EOS_ID]] * 2)
    prefix = tf.constant([[PAD_ID, PAD_ID], [PH2, OPEN2]])
    assert rule.wanted(source, prefix).numpy().tolist() == [
        [2, 0, 0, 0, 0, 0],
        [2, 1, 0, 1, 0, 0],
    ]
