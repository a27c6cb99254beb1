"""Drawing outputs: what is kept, what is drawn, and when an output ends."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.decoding.sampling import draw, filtered_distribution
from tests.decoding.fake_models import (
    BOS_ID,
    EOS_ID,
    LETTERS,
    PAD_ID,
    log_prob_of,
    random_model,
    search,
    spelled,
    spelling_model,
)

# Of ids 0 to 3: 0.1, 0.4, 0.2, 0.3.
LOGITS = np.log(np.float32([[0.1, 0.4, 0.2, 0.3]]))


def options_of_a_row(temperature=1.0, top_k=0, top_p=1.0):
    return decoding.SamplingOptions(
        uniforms=tf.zeros([1, 1]),
        temperature=tf.constant([temperature]),
        top_k=tf.constant([top_k]),
        top_p=tf.constant([top_p]),
    )


def filtered(**options):
    """Return {id: normalized probability} of the tokens to draw from."""
    probs, ids = filtered_distribution(tf.constant(LOGITS), options_of_a_row(**options))
    probs, ids = probs.numpy()[0], ids.numpy()[0]
    return {int(i): p / probs.sum() for i, p in zip(ids, probs, strict=True) if p > 0}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {1: 0.4, 3: 0.3, 2: 0.2, 0: 0.1}),
        ({"top_k": 2}, {1: 4 / 7, 3: 3 / 7}),
        # 0.4 is not yet 0.6, 0.4 + 0.3 is.
        ({"top_p": 0.6}, {1: 4 / 7, 3: 3 / 7}),
        ({"top_p": 0.0}, {1: 1.0}),
        ({"temperature": 0.0}, {1: 1.0}),
        # Squared: 0.16, 0.09, 0.04, 0.01 of 0.3.
        ({"temperature": 0.5}, {1: 16 / 30, 3: 9 / 30, 2: 4 / 30, 0: 1 / 30}),
        ({"top_k": 9}, {1: 0.4, 3: 0.3, 2: 0.2, 0: 0.1}),
        ({"top_k": -1}, {1: 0.4, 3: 0.3, 2: 0.2, 0: 0.1}),
        ({"top_p": np.nan}, {1: 1.0}),
        ({"temperature": np.nan}, {1: 1.0}),
        ({"temperature": -np.inf}, {1: 1.0}),
        ({"temperature": 1e-45}, {1: 1.0}),
        ({"temperature": np.inf}, {1: 0.25, 3: 0.25, 2: 0.25, 0: 0.25}),
    ],
)
def test_options_filter_the_distribution(settings, wanted):
    found = filtered(**settings)
    assert list(found) == list(wanted)
    np.testing.assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-5)


@pytest.mark.parametrize(
    ("chance", "wanted"), [(0.0, 5), (0.49, 5), (0.51, 2), (0.79, 2), (0.81, 7)]
)
def test_a_random_number_picks_by_cumulative_probability(chance, wanted):
    """Probabilities 0.5, 0.3, 0.2 and 0: the last id is never drawn."""
    probs, ids = tf.constant([[5.0, 3.0, 2.0, 0.0]]), tf.constant([[5, 2, 7, 4]])
    assert draw(probs, ids, tf.constant([chance])).numpy().tolist() == [wanted]
    assert draw(probs, ids, tf.constant([0.99999994])).numpy().tolist() == [7]


def test_a_row_without_probabilities_does_not_fail_the_others():
    probs = tf.constant([[np.nan, np.nan], [3.0, 1.0]])
    drawn = draw(probs, tf.constant([[7, 2], [7, 2]]), tf.constant([0.9, 0.9]))
    assert drawn.numpy().tolist() == [7, 2]


def test_the_hottest_row_never_draws_an_impossible_token():
    """Infinity divided by infinity would be NaN."""
    logits = tf.constant([[0.0, -np.inf, 0.0]])
    probs, ids = filtered_distribution(logits, options_of_a_row(temperature=np.inf))
    assert ids.numpy().tolist() == [[0, 2, 1]]
    assert probs.numpy().tolist() == [[0.5, 0.5, 0.0]]


def sample(model, max_lengths, uniforms, temperature=1.0):
    batch, max_steps = len(max_lengths), max(max_lengths)
    model.max_steps = max_steps
    return decoding.sample(
        model.step,
        model.logits,
        model.empty_cache(),
        max_lengths=tf.constant(max_lengths),
        options=decoding.SamplingOptions(
            uniforms=tf.constant(uniforms, tf.float32),
            temperature=tf.fill([batch], temperature),
            top_k=tf.zeros([batch], tf.int32),
            top_p=tf.ones([batch]),
        ),
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        pad_id=PAD_ID,
    )


def word(result, sentence=0):
    length = int(result.lengths[sentence])
    return "".join(LETTERS[i] for i in result.tokens[sentence].numpy()[:length])


def test_chances_spell_an_output_and_its_probability_is_the_models():
    """First a has 0.6 and b 0.4; after b, a has 0.9. 0.7 and 0.2 spell "ba"."""
    model = spelling_model(
        {"": {"a": 0.6, "b": 0.4}, "b": {"a": 0.9, ".": 0.1}}, letters="ab", max_steps=3
    )
    result = sample(model, [3], [[0.7, 0.2, 0.0]])
    assert word(result) == "ba."
    np.testing.assert_allclose(np.exp(result.log_probs), [0.36], rtol=1e-5)
    assert result.tokens.numpy()[0].tolist() == [2, 1, EOS_ID]


def test_outputs_end_at_eos_or_at_their_limit():
    model = spelling_model(
        {"": {"a": 1.0}, "a": {"a": 0.5, ".": 0.5}, "aa": {"a": 1.0}},
        letters="a",
        max_steps=3,
    )
    twice = type(model)(np.repeat(model.logits.numpy(), 3, axis=0))
    # Of equally likely ones the lower id, EOS, comes first.
    result = sample(twice, [3, 2, 0], [[0.0, 0.1, 0.0], [0.0, 0.9, 0.0], [0.0] * 3])
    assert [word(result, row) for row in range(3)] == ["a.", "aa", ""]
    assert np.all(result.tokens.numpy()[2] == PAD_ID)


def test_temperature_zero_is_greedy_search():
    model = random_model(3, batch=2, vocab_size=5, max_steps=4)
    chances = np.random.default_rng(1).random((2, 4))
    result = sample(model, [4, 3], chances, temperature=0.0)
    greedy = search(model, [4, 3], beam_size=1)
    for row in range(2):
        assert [word(result, row)] == spelled(greedy, row)
    np.testing.assert_allclose(result.log_probs, greedy.log_probs[:, 0], rtol=1e-5)


def test_outputs_come_as_often_as_the_model_says():
    """2,000 draws of one step: each share is within four standard deviations."""
    model = random_model(5, vocab_size=4, max_steps=1)
    draws = type(model)(np.repeat(model.logits.numpy(), 2000, axis=0))
    chances = np.random.default_rng(7).random((2000, 1))
    tokens = sample(draws, [1] * 2000, chances).tokens.numpy()[:, 0]
    for token in range(4):
        share = np.exp(log_prob_of(model, 0, [token]))
        spread = np.sqrt(share * (1 - share) / 2000)
        assert abs(np.mean(tokens == token) - share) < 4 * spread
