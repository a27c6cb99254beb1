"""Rules on which tokens may come next, inside the step of a search."""

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


def never_twice(hypotheses, step, _):
    """No letter follows itself."""
    last = hypotheses.tokens[:, :, tf.maximum(step - 1, 0)]  # PAD_ID at step 0
    return hypotheses.ids != last[:, :, tf.newaxis]


def even(hypotheses, step, _):
    """EOS comes only after an even number of letters."""
    return (hypotheses.ids != EOS_ID) | (step % 2 == 0)


def no_a(hypotheses, step, _):
    return hypotheses.ids != A


def obeys(tokens):
    """`never_twice` and `even`, on a whole output."""
    letters = [token for token in tokens if token != EOS_ID]
    repeats = any(
        left == right for left, right in zip(tokens, tokens[1:], strict=False)
    )
    return not repeats and (tokens[-1] != EOS_ID or len(letters) % 2 == 0)


def test_a_forbidden_token_is_never_chosen_and_the_others_keep_their_probability():
    """Of a 0.6 and b 0.4, b alone is left, with 0.4 and not 1."""
    model = spelling_model({"": {"a": 0.6, "b": 0.4}}, letters="ab", max_steps=3)

    for beam_size in (1, 3):
        result = search(model, [3], beam_size=beam_size, token_rules=[no_a])
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
        token_rules=[never_twice, even],
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
            PrefixModel(logits), [4, 3, 4], beam_size=3, token_rules=[never_twice, even]
        )

    run = tf.function(searched, autograph=False, jit_compile=jit_compile)
    found = run(model.logits)
    expected = searched(model.logits)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_the_rule_sees_the_tokens_so_far_and_padding_after_them():
    model = spelling_model({"": {"a": 1.0}, "a": {"b": 1.0}}, letters="ab", max_steps=3)
    seen = []

    def recorded(hypotheses, step, _):
        assert hypotheses.limits.numpy().tolist() == [3]
        assert hypotheses.ids.numpy().tolist() == [0, 1, 2]
        seen.append((int(step), hypotheses.tokens[0, 0].numpy().tolist()))
        return tf.fill([1, 1, 3], True)

    assert spelled(search(model, [3], beam_size=1, token_rules=[recorded])) == ["ab."]
    assert seen == [
        (0, [PAD_ID, PAD_ID, PAD_ID]),
        (1, [A, PAD_ID, PAD_ID]),
        (2, [A, B, PAD_ID]),
    ]


def test_a_hypothesis_that_may_have_no_token_is_lost():
    """After a nothing may come: b. is left, and where b may not come either, none."""
    model = random_model(31, batch=2, max_steps=3)

    def dead_ends(hypotheses, step, _):
        dead = tf.constant([[A, A], [A, B]])  # [batch, 2]
        first = hypotheses.tokens[:, :, 0]
        is_dead = tf.reduce_any(first[:, :, tf.newaxis] == dead[:, tf.newaxis], axis=2)
        is_end = tf.range(3) == EOS_ID
        return tf.where(step == 0, ~is_end, is_end & ~is_dead[:, :, tf.newaxis])

    for beam_size in (2, 3):
        result = search(model, [3, 3], beam_size=beam_size, token_rules=[dead_ends])
        assert spelled(result, 0) == ["b."]
        assert spelled(result, 1) == []
        assert np.all(result.log_probs[1] == NEGATIVE_INFINITY)


def test_a_given_prefix_obeys_no_rule_and_what_follows_it_does():
    model = random_model(37, max_steps=3)
    arguments = {"beam_size": 2, "forced_prefix": tf.constant([[A]])}
    found = spelled(search(model, [3], token_rules=[no_a], **arguments))
    assert set(found) == {"a.", "ab."}


def test_an_end_at_the_limit_must_be_allowed():
    def no_end(hypotheses, step, _):
        return hypotheses.ids != EOS_ID

    model = random_model(37, max_steps=3)
    assert spelled(search(model, [2], force_eos=True))
    assert spelled(search(model, [2], force_eos=True, token_rules=[no_end])) == []


def test_logits_that_are_no_distribution_end_a_hypothesis_under_a_rule_too():
    """+inf for what is forbidden leaves the probability 0 for all else."""
    for value in (math.nan, math.inf):
        logits = np.zeros((1, 13, 3))
        logits[:, :, A] = value

        result = search(PrefixModel(logits), [3], beam_size=2, token_rules=[no_a])
        assert spelled(result) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (tf.ones([1, 2, 3]), r"dtype=float32, shape=\(1, 2, 3\)\."),
        (tf.fill([1, 2, 5], True), r"dtype=bool, shape=\(1, 2, 5\)\."),
        (tf.fill([7, 1, 3], True), r"dtype=bool, shape=\(7, 1, 3\)\."),
        (tf.fill([1, 1, 2, 3], True), r"dtype=bool, shape=\(1, 1, 2, 3\)\."),
    ],
)
def test_a_rule_that_answers_otherwise_is_named(answer, message):
    with pytest.raises(
        ValueError,
        match=r"A token rule must return bool that broadcasts to \[batch, beam, "
        r"vocab\], here \(1, 2, 3\). Received: " + message,
    ):
        search(
            random_model(1, max_steps=3),
            [3],
            beam_size=2,
            token_rules=[lambda hypotheses, step, _: answer],
        )
