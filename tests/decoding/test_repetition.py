"""No n-gram occurs twice, no phrase too often in a row, and nothing else changes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding.fake_models import (
    EOS_ID,
    LETTERS,
    PrefixModel,
    enumerated,
    log_prob_of,
    random_model,
    reference_search,
    search,
    spelled,
    spelling_model,
)


def repeats(tokens, size):
    """Whether an n-gram of `size` tokens occurs twice."""
    ngrams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


def comes_too_often(tokens, most):
    """Whether a phrase of 1 to 8 tokens comes more than `most` times in a row."""
    return any(
        tokens[start : start + size] * (most + 1)
        == tokens[start : start + size * (most + 1)]
        for size in range(1, 9)
        for start in range(len(tokens) - size * (most + 1) + 1)
    )


RULES = {
    **{
        f"n-gram of {n}": ("no_repeat_ngram_size", n, repeats) for n in (1, 2, 3, 5, 20)
    },
    **{f"{n} in a row": ("max_repetitions", n, comes_too_often) for n in (1, 2, 3, 12)},
}


def looping_model(batch=3, vocab_size=3, rows=11):
    """A model that seldom ends and whose prefixes share few distributions."""
    logits = np.random.default_rng(5).normal(size=(batch, rows, vocab_size))
    logits[:, :, EOS_ID] -= 2.0
    return PrefixModel(logits)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beam_size", [1, pytest.param(2, marks=pytest.mark.long), 3])
@pytest.mark.parametrize(
    ("steps_at_once", "renormalize"),
    [(None, False), pytest.param(2, False, marks=pytest.mark.release), (2, True)],
)
def test_the_search_equals_the_rules_written_with_lists(
    rule, beam_size, steps_at_once, renormalize
):
    option, number, breaks = RULES[rule]
    model, limit = looping_model(), 13
    result = search(
        model,
        [limit] * 3,
        beam_size=beam_size,
        num_best=beam_size,
        steps_at_once=steps_at_once,
        renormalize=renormalize,
        **{option: number},
    )
    for sentence in range(3):
        expected = reference_search(
            model,
            sentence,
            limit,
            beam_size,
            0.6,
            lambda x: not breaks(x, number),
            renormalize=renormalize,
        )
        words = ["".join(LETTERS[x] for x in tokens) for *_, tokens in expected]
        assert spelled(result, sentence) == words
        scores = [score for _, score, _ in expected]
        found = result.scores[sentence, : len(scores)]
        np.testing.assert_allclose(found, scores, rtol=1e-5)


def test_the_model_of_these_tests_repeats_itself_without_the_option():
    result = search(looping_model(), [13] * 3, beam_size=1)
    assert all(repeats(spelled(result, row)[0], 5) for row in range(3))
    assert all(comes_too_often(spelled(result, row)[0], 3) for row in range(3))


def test_both_rules_hold_together():
    model = looping_model()
    result = search(
        model, [13] * 3, beam_size=2, no_repeat_ngram_size=5, max_repetitions=2
    )
    for row in range(3):
        assert not repeats(spelled(result, row)[0], 5)
        assert not comes_too_often(spelled(result, row)[0], 2)


def test_greedy_search_equals_a_loop_with_the_rule():
    model, limit = looping_model(batch=7, vocab_size=4), 17
    result = search(model, [limit] * 7, beam_size=1, no_repeat_ngram_size=2)
    for sentence in range(7):
        tokens = []
        while len(tokens) < limit and tokens[-1:] != [EOS_ID]:
            allowed = [x for x in range(4) if not repeats([*tokens, x], 2)]
            scores = [log_prob_of(model, sentence, [*tokens, x]) for x in allowed]
            tokens.append(allowed[int(np.argmax(scores))])
        length = int(result.lengths[sentence, 0])
        assert result.tokens[sentence, 0, :length].numpy().tolist() == tokens


def test_a_wide_beam_finds_the_best_of_all_outputs_without_a_repeat():
    model = random_model(23, batch=2, max_steps=4)
    result = search(
        model, [4, 3], beam_size=32, num_best=32, no_repeat_ngram_size=1, max_steps=4
    )
    for sentence, limit in enumerate([4, 3]):
        words = [
            "".join(LETTERS[x] for x in tokens)
            for *_, tokens in enumerated(model, sentence, limit, 0.6)
            if not repeats(tokens, 1)
        ]
        assert spelled(result, sentence) == words


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_graph_equals_eager(jit_compile):
    model = looping_model()

    def run(logits):
        return search(PrefixModel(logits), [7] * 3, beam_size=2, no_repeat_ngram_size=2)

    traced = tf.function(run, autograph=False, jit_compile=jit_compile)
    found = traced(model.logits)
    expected = run(model.logits)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_a_forced_prefix_may_repeat_itself_and_is_not_repeated():
    """The second sentence has no prefix."""
    model, size = looping_model(batch=2), 2
    a, b = LETTERS.index("a"), LETTERS.index("b")
    prefix = [[a, b, a, b], [96] * 4]
    result = search(
        model, [9, 9], beam_size=3, forced_prefix=prefix, no_repeat_ngram_size=size
    )
    for word in spelled(result, 0):
        assert word.startswith("abab")
        assert not repeats(word[3:], size)
        assert not {"ab", "ba"} & {word[i : i + 2] for i in range(3, len(word) - 1)}
    assert spelled(result, 0)
    assert spelled(result, 1)
    assert not any(repeats(word, size) for word in spelled(result, 1))


def test_other_rules_hold_too():
    def no_a(hypotheses, step, _):
        return hypotheses.ids != LETTERS.index("a")

    model = looping_model(batch=1)
    result = search(model, [9], num_best=3, token_rules=[no_a], no_repeat_ngram_size=2)
    assert set(spelled(result)) == {".", "b.", "bb."}


def test_the_graph_of_the_search_has_no_operation_of_the_rule_when_it_is_off():
    model = random_model(1)

    def kinds(**rule):
        run = tf.function(lambda: search(model, [3], **rule), autograph=False)
        functions = run.get_concrete_function().graph.as_graph_def().library.function
        return {node.op for function in functions for node in function.node_def}

    plain = kinds()
    for rule in ("no_repeat_ngram_size", "max_repetitions"):
        found = kinds(**{rule: 2})
        assert found > plain
        assert "ScatterNd" in found - plain


@pytest.mark.parametrize("beam_size", [1, 3])
def test_renormalized_probabilities_are_shares_of_the_tokens_that_may_follow(beam_size):
    """Half of the probability is of a letter that never comes."""
    spelling = {"": {"a": 0.5, "b": 0.375, ".": 0.125}}
    model = spelling_model(spelling, letters="ab", max_steps=2)

    def no_a(hypotheses, step, source):
        del hypotheses, step, source
        return [True, False, True]

    found = search(
        model,
        [2],
        beam_size=beam_size,
        alpha=0.0,
        token_rules=[no_a],
        renormalize=True,
    )
    assert spelled(found)[0] == "b."
    np.testing.assert_allclose(found.scores[0, 0], np.log(0.75), rtol=1e-6)
    if beam_size > 1:
        np.testing.assert_allclose(found.scores[0, 1], np.log(0.25), rtol=1e-6)


def test_a_hypothesis_that_nothing_may_follow_is_dropped_when_renormalizing():
    def nothing(hypotheses, step, source):
        del hypotheses, source
        return step == 0

    model = random_model(3, batch=2, vocab_size=3, max_steps=4)
    found = search(model, [4, 4], beam_size=3, token_rules=[nothing], renormalize=True)
    assert not np.isnan(found.scores).any()
    assert spelled(found) == ["."]
