"""A rule on which tokens may come next, inside the search's step."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import NEGATIVE_INFINITY
from tests.decoding.fake_models import (
    EOS_ID,
    LETTERS,
    PAD_ID,
    PrefixModel,
    enumerated,
    random_model,
    search,
    spelled,
    spelling_model,
)

A, B = LETTERS.index("a"), LETTERS.index("b")


def never_twice(tokens, step, _):
    """No letter follows itself; EOS comes only after an even number of letters."""
    vocab = tf.range(3)
    last = tokens[:, :, tf.maximum(step - 1, 0)]  # PAD_ID at step 0
    is_even = (vocab != EOS_ID) | (step % 2 == 0)
    return (vocab != last[:, :, tf.newaxis]) & is_even


def obeys(tokens):
    """`never_twice`, on a whole output."""
    letters = [token for token in tokens if token != EOS_ID]
    repeats = any(
        left == right for left, right in zip(tokens, tokens[1:], strict=False)
    )
    return not repeats and (tokens[-1] != EOS_ID or len(letters) % 2 == 0)


def test_a_forbidden_token_is_never_chosen_and_the_others_keep_their_probability():
    """Of a 0.6 and b 0.4, b alone is left, with 0.4 and not 1."""
    model = spelling_model({"": {"a": 0.6, "b": 0.4}}, letters="ab", max_steps=3)

    def no_a(tokens, step, _):
        return tf.broadcast_to(tf.range(3) != A, [1, tokens.shape[1], 3])

    for beam_size in (1, 3):
        result = search(model, [3], beam_size=beam_size, allowed_tokens=no_a)
        assert spelled(result) == ["b."]
        np.testing.assert_allclose(np.exp(result.log_probs[0, 0]), 0.4, rtol=1e-5)
        assert np.all(result.log_probs[0, 1:] == NEGATIVE_INFINITY)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_the_search_finds_the_best_of_all_outputs_that_obey(alpha):
    """The rule reads what each hypothesis has so far, in the order of the slots."""
    model, limits = random_model(23, batch=5, max_steps=4), [4, 3, 4, 2, 4]
    result = search(
        model,
        limits,
        max_steps=4,
        beam_size=16,
        alpha=alpha,
        num_best=16,
        allowed_tokens=never_twice,
    )
    for row, limit in enumerate(limits):
        expected = [x for x in enumerated(model, row, limit, alpha) if obeys(x[2])]
        outputs = ["".join(LETTERS[i] for i in tokens) for *_, tokens in expected]
        assert spelled(result, row) == outputs
        scores = [score for _, score, _ in expected]
        np.testing.assert_allclose(
            result.scores[row, : len(scores)], scores, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_obey_as_eager_does(jit_compile):
    model = random_model(29, batch=3, max_steps=4)

    def searched(logits):
        return search(
            PrefixModel(logits), [4, 3, 4], beam_size=3, allowed_tokens=never_twice
        )

    found = tf.function(searched, jit_compile=jit_compile)(model.logits)
    expected = searched(model.logits)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_the_rule_sees_the_tokens_so_far_and_padding_after_them():
    model = spelling_model({"": {"a": 1.0}, "a": {"b": 1.0}}, letters="ab", max_steps=3)
    seen = []

    def recorded(tokens, step, _):
        seen.append((int(step), tokens[0, 0].numpy().tolist()))
        return tf.fill([1, 1, 3], True)

    assert spelled(search(model, [3], beam_size=1, allowed_tokens=recorded)) == ["ab."]
    assert seen == [
        (0, [PAD_ID, PAD_ID, PAD_ID]),
        (1, [A, PAD_ID, PAD_ID]),
        (2, [A, B, PAD_ID]),
    ]


def test_a_hypothesis_that_may_have_no_token_is_lost():
    """After a nothing may come: b. is left, and where b may not come either, none."""
    model = random_model(31, batch=2, max_steps=3)

    def dead_ends(tokens, step, _):
        dead = tf.constant([[A, A], [A, B]])  # [batch, 2]
        first = tokens[:, :, 0]
        is_dead = tf.reduce_any(first[:, :, tf.newaxis] == dead[:, tf.newaxis], axis=2)
        is_end = tf.range(3) == EOS_ID
        return tf.where(step == 0, ~is_end, is_end & ~is_dead[:, :, tf.newaxis])

    for beam_size in (2, 3):
        result = search(model, [3, 3], beam_size=beam_size, allowed_tokens=dead_ends)
        assert spelled(result, 0) == ["b."]
        assert spelled(result, 1) == []
        assert np.all(result.log_probs[1] == NEGATIVE_INFINITY)


def test_what_is_forced_must_be_allowed_too():
    model = random_model(37, max_steps=3)
    arguments = {"beam_size": 2, "forced_prefix": tf.constant([[A]])}
    assert spelled(search(model, [3], **arguments))[0].startswith("a")

    def no_a(tokens, step, _):
        return tf.broadcast_to(tf.range(3) != A, [1, 2, 3])

    assert spelled(search(model, [3], allowed_tokens=no_a, **arguments)) == []


def test_logits_that_are_no_distribution_end_a_hypothesis_under_a_rule_too():
    """+inf for what is forbidden leaves the probability 0 for all else."""
    for value in (math.nan, math.inf):
        logits = np.zeros((1, 13, 3))
        logits[:, :, A] = value

        def no_a(tokens, step, _):
            return tf.broadcast_to(tf.range(3) != A, [1, 2, 3])

        result = search(PrefixModel(logits), [3], beam_size=2, allowed_tokens=no_a)
        assert spelled(result) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (tf.ones([1, 2, 3]), r"dtype=float32, shape=\(1, 2, 3\)\."),
        (tf.fill([1, 2, 5], True), r"dtype=bool, shape=\(1, 2, 5\)\."),
        (tf.fill([3], True), r"dtype=bool, shape=\(3,\)\."),
    ],
)
def test_a_rule_that_answers_otherwise_is_named(answer, message):
    with pytest.raises(
        ValueError,
        match=r"`allowed_tokens` must return bool \[batch, beam, vocab\], here "
        r"\(1, 2, 3\). Received: " + message,
    ):
        search(
            random_model(1, max_steps=3),
            [3],
            beam_size=2,
            allowed_tokens=lambda tokens, step, _: answer,
        )
