"""The rules of the search, on models that spell words."""

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
    log_prob_of,
    random_model,
    reference_search,
    search,
    spelled,
    spelling_model,
)


def test_greedy_search_takes_the_best_letter_and_misses_the_best_word():
    """The best first letter is a, but ba. (0.36) is likelier than aa. (0.24)."""
    model = spelling_model(
        {
            "": {"a": 0.6, "b": 0.4},
            "a": {"a": 0.4, "b": 0.3, "c": 0.3},
            "b": {"a": 0.9, "c": 0.1},
        },
        letters="abc",
        max_steps=3,
    )
    assert spelled(search(model, [3], beam_size=1)) == ["aa."]
    result = search(model, [3], beam_size=2, num_best=2)
    assert spelled(result) == ["ba.", "aa."]
    np.testing.assert_allclose(np.exp(result.log_probs[0]), [0.36, 0.24], rtol=1e-5)


def test_beam_of_one_equals_plain_argmax_decoding():
    """Also where EOS is the runner-up: greedy search does not end there."""
    model = random_model(0, batch=17, vocab_size=5, max_steps=5)
    result = search(model, [5] * 17, beam_size=1)
    for sentence in range(17):
        expected = []
        while len(expected) < 5 and expected[-1:] != [EOS_ID]:
            scores = [log_prob_of(model, sentence, [*expected, x]) for x in range(5)]
            expected.append(int(np.argmax(scores)))
        length = int(result.lengths[sentence, 0])
        assert result.tokens[sentence, 0, :length].numpy().tolist() == expected
        assert bool(result.finished[sentence, 0]) == (expected[-1] == EOS_ID)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_narrow_beams_follow_the_rules_written_with_lists(beam_size, alpha):
    model, limits = random_model(19, batch=7, vocab_size=5, max_steps=5), [5] * 7
    result = search(model, limits, beam_size=beam_size, alpha=alpha, num_best=beam_size)
    for sentence in range(7):
        expected = reference_search(model, sentence, 5, beam_size, alpha)
        words = ["".join(".abcd"[x] for x in tokens) for _, _, tokens in expected]
        assert spelled(result, sentence) == words
        scores = [score for _, score, _ in expected]
        found = result.scores[sentence, : len(scores)]
        np.testing.assert_allclose(found, scores, rtol=1e-5)
        is_finished = [finished for finished, _, _ in expected]
        assert result.finished[sentence, : len(scores)].numpy().tolist() == is_finished


@pytest.mark.parametrize("stop_early", [True, False])
@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_early_stopping_takes_the_first_that_end(beam_size, stop_early):
    model = random_model(3, batch=40, vocab_size=5, max_steps=5, scale=0.5)
    options = {"beam_size": beam_size, "num_best": beam_size, "stop_early": stop_early}
    result = search(model, [5] * 40, early_stopping=True, **options)
    exact = search(model, [5] * 40, **options)
    is_other = 0
    for sentence in range(40):
        expected = reference_search(
            model, sentence, 5, beam_size, 0.6, early_stopping=True
        )
        words = ["".join(".abcd"[x] for x in tokens) for _, _, tokens in expected]
        assert spelled(result, sentence) == words
        is_other += words != spelled(exact, sentence)
    assert bool(is_other) == (beam_size > 1)


def test_every_hypothesis_sees_its_own_past_through_the_ancestry():
    """A wrong past would give the probabilities of another prefix (or NaN)."""
    model = random_model(7, batch=2, vocab_size=5, max_steps=5, scale=0.3)
    result = search(model, [5, 5], beam_size=7, num_best=7)
    assert np.all(result.lengths > 0)
    for sentence in range(2):
        for tokens, length, log_prob in zip(
            result.tokens[sentence].numpy(),
            result.lengths[sentence].numpy(),
            result.log_probs[sentence].numpy(),
            strict=True,
        ):
            expected = log_prob_of(model, sentence, tokens[:length].tolist())
            np.testing.assert_allclose(log_prob, expected, rtol=1e-5)


def test_ancestry_passed_to_the_step_is_the_path_of_the_returned_tokens():
    """Read in eager mode: at the last step each slot's past spells its hypothesis."""
    model, seen = random_model(3, vocab_size=3, max_steps=5, scale=0.2), {}

    def watching_step(tokens, step, past, source, cache):
        logits, cache = model.step(tokens, step, past, source, cache)
        ancestry, place = past.ancestry.numpy()[0], int(past.first_column)
        assert np.array_equal(ancestry[:, place : place + 5], np.eye(5, dtype=bool))
        assert not np.any(ancestry[:, place + 5 :])
        assert past.steps[0].numpy().tolist() == [s for s in range(5) for _ in range(5)]
        seen["past"] = [
            cache[0, 0].numpy()[ancestry[k]].tolist() for k in range(5) if step == 4
        ]
        logits = tf.where(tf.range(3) == EOS_ID, -math.inf, logits)  # nothing ends
        return logits, cache

    watching, model.max_steps = PrefixModel(model.logits.numpy()), 5
    watching.step = watching_step
    result = search(watching, [5], beam_size=5)
    pasts = [past[1:] for past in seen["past"]]
    for tokens in result.tokens[0].numpy().tolist():
        assert tokens[:4] in pasts


def test_a_search_in_blocks_is_the_same_and_works_on_less():
    """Between blocks, sentences leave that are done, and columns that nobody reads."""
    model = random_model(29, batch=7, vocab_size=4, max_steps=6, scale=2.0)
    limits, arguments = [6, 2, 0, 4, 6, 1, 6], {"beam_size": 3, "num_best": 2}
    expected = search(model, limits, **arguments)
    watched, shapes = PrefixModel(model.logits.numpy()), {}

    def watching_step(tokens, step, past, source, cache):
        shapes[int(step)] = tuple(past.ancestry.shape)
        assert cache.shape == (past.ancestry.shape[0], 1, past.ancestry.shape[2])
        assert source.shape[0] == past.steps.shape[0] == past.ancestry.shape[0]
        return model.step(tokens, step, past, source, cache)

    watched.step = watching_step
    for steps_at_once in (1, 2, 4, 9):
        result = search(watched, limits, steps_at_once=steps_at_once, **arguments)
        for name, values in zip(expected._fields, expected, strict=True):
            # Totals of another formula round otherwise; the rest is equal.
            rtol = 1e-6 if values.dtype.is_floating else 0
            found = getattr(result, name)
            np.testing.assert_allclose(found, values, rtol, err_msg=name)
        # At first a sentence has one hypothesis, and room for the columns of three.
        assert shapes[0] == (7, 1, 3 * min(steps_at_once, 6))
        last = max(shapes)
        if steps_at_once < 3:
            assert shapes[last][0] < 6
            assert shapes[last][2] < 3 * (last + 1)
        shapes.clear()


def test_columns_before_the_window_are_left_behind():
    model = random_model(31, vocab_size=3, max_steps=6, scale=0.2)
    watched, least = PrefixModel(model.logits.numpy()), []

    def watching_step(tokens, step, past, source, cache):
        is_read = np.any(past.ancestry[0], axis=0)
        least.append(int(step) - int(past.steps.numpy()[0][is_read].min()))
        # As if it had no past at all: of no use to a `PrefixModel` any more.
        return tf.gather(source, tf.zeros_like(tokens), batch_dims=1), cache

    watched.step = watching_step
    search(watched, [6], beam_size=2, steps_at_once=1, window=3, stop_early=False)
    assert least == [0, 1, 2, 2, 2, 2]


def test_output_tokens_have_eos_then_padding_and_lengths_count_eos():
    model = spelling_model({"": {"a": 1.0}}, letters="a", max_steps=5)
    result = search(model, [5], beam_size=2)
    np.testing.assert_array_equal(result.tokens[0, 0], [1, EOS_ID] + [PAD_ID] * 3)
    assert int(result.lengths[0, 0]) == 2
    assert bool(result.finished[0, 0])


def test_length_penalty_prefers_the_longer_of_near_equals():
    """a. has 0.5, bbb. 0.42; at alpha 1 that is -0.594 (6/7 ln) and -0.578 (2/3 ln)."""
    model = spelling_model(
        {"": {"a": 0.5, "b": 0.42, ".": 0.08}, "b": {"b": 1.0}, "bb": {"b": 1.0}},
        letters="ab",
        max_steps=5,
    )
    shorter = search(model, [5], beam_size=3, alpha=0.0)
    longer = search(model, [5], beam_size=3, alpha=1.0)
    assert (spelled(shorter)[0], spelled(longer)[0]) == ("a.", "bbb.")
    expected = math.log(0.42) / (9 / 6)
    np.testing.assert_allclose(longer.scores[0, 0], expected, rtol=1e-5)


def test_hypotheses_open_at_the_limit_rank_last_with_the_same_penalty():
    """bbb is likelier than every finished word, but it is no whole output."""
    model = spelling_model(
        {"": {"b": 0.9, "a": 0.1}, "b": {"b": 1.0}, "bb": {"b": 1.0}},
        letters="ab",
        max_steps=3,
    )
    result = search(model, [3], beam_size=3, alpha=0.6, num_best=3)
    assert spelled(result) == ["a.", "bbb"]
    np.testing.assert_array_equal(result.finished[0], [True, False, False])
    np.testing.assert_allclose(
        result.scores[0, :2],
        [math.log(0.1) / (7 / 6) ** 0.6, math.log(0.9) / (8 / 6) ** 0.6],
        rtol=1e-5,
    )


def test_hypotheses_cut_short_by_an_early_stop_are_no_results():
    """a. is certain after two steps: nothing that begins with b can catch up."""
    model = spelling_model(
        {"": {"a": 0.9, "b": 0.1}, "b": {"b": 1.0}, "bb": {"b": 1.0}},
        letters="ab",
        max_steps=5,
    )
    assert spelled(search(model, [5], beam_size=2)) == ["a."]
    assert spelled(search(model, [5], beam_size=2, num_best=2)) == ["a.", "bbb."]
    assert spelled(search(model, [5], beam_size=2, stop_early=False)) == ["a.", "bbb."]


def test_early_stop_saves_steps():
    model = spelling_model(
        {"": {"a": 0.9, "b": 0.1}, "b": {"b": 0.9, "a": 0.1}}, letters="ab", max_steps=5
    )
    calls = []

    def counting_step(tokens, step, *arguments):
        calls.append(int(step))
        return model.step(tokens, step, *arguments)

    counting, model.max_steps = PrefixModel(model.logits.numpy()), 5
    counting.step = counting_step
    search(counting, [5], beam_size=2)
    assert calls == [0, 1]
    calls.clear()
    search(counting, [5], beam_size=2, stop_early=False)
    assert len(calls) > 2
    calls.clear()
    search(counting, [5], beam_size=1, stop_early=False)
    assert calls == [0, 1]  # greedy search ends with its one hypothesis


def test_each_sentence_has_its_own_limit():
    endless = {"": {"a": 1.0}, "a": {"a": 1.0}, "aa": {"a": 1.0}, "aaa": {"a": 1.0}}
    model = spelling_model(endless, endless, endless, letters="a", max_steps=5)
    result = search(model, [2, 5, 3], beam_size=2)
    assert [spelled(result, row) for row in range(3)] == [["aa"], ["aaaa."], ["aaa"]]
    np.testing.assert_array_equal(result.lengths[:, 0], [2, 5, 3])
    np.testing.assert_array_equal(result.finished[:, 0], [False, True, False])
    np.testing.assert_array_equal(result.tokens[0, 0, 2:], [PAD_ID] * 3)


def test_max_steps_bounds_every_limit():
    model = spelling_model({"": {"a": 1.0}, "a": {"a": 1.0}}, letters="a", max_steps=2)
    assert spelled(search(model, [11], max_steps=2, beam_size=2)) == ["aa"]


def test_limit_zero_gives_no_hypothesis():
    model = random_model(1, batch=2)
    result = search(model, [0, 4], beam_size=3)
    assert spelled(result, 0) == []
    np.testing.assert_array_equal(result.scores[0], [NEGATIVE_INFINITY] * 3)
    assert spelled(result, 1) == spelled(search(model, [4, 4], beam_size=3), 1)


def test_forced_eos_ends_every_hypothesis_and_is_scored_as_the_model_says():
    """aa. would be open; forced, it ends with the 0.2 that the model gives EOS."""
    model = spelling_model(
        {"": {"a": 1.0}, "a": {"a": 1.0}, "aa": {"a": 0.8, ".": 0.2}},
        letters="a",
        max_steps=3,
    )
    assert spelled(search(model, [3], beam_size=1)) == ["aaa"]
    for beam_size in (1, 2):
        result = search(model, [3], beam_size=beam_size, force_eos=True)
        assert spelled(result) == ["aa."]
        np.testing.assert_allclose(np.exp(result.log_probs[0, 0]), 0.2, rtol=1e-5)
        assert bool(result.finished[0, 0])


def test_forced_eos_respects_the_limit_of_each_sentence():
    model = random_model(5, batch=3, vocab_size=5, max_steps=5)
    result = search(model, [2, 5, 3], beam_size=3, force_eos=True, num_best=3)
    ends = [[word[-1] for word in spelled(result, row)] for row in range(3)]
    assert ends == [["."] * 3] * 3
    assert np.all(result.lengths <= np.array([[2], [5], [3]]))


def test_forced_eos_of_probability_zero_gives_no_hypothesis():
    model = spelling_model({"": {"a": 1.0}, "a": {"a": 1.0}}, letters="a", max_steps=2)
    result = search(model, [2], beam_size=2, force_eos=True)
    assert spelled(result) == []
    assert not np.any(result.finished)


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_a_certain_eos_costs_nothing_at_the_limit_and_its_share_before(beam_size):
    """ "aa." has the score of "aa", although the model never ends there."""
    model = spelling_model(
        {"": {"a": 0.75, ".": 0.25}, "a": {"a": 0.5, ".": 0.5}, "aa": {"a": 1.0}},
        letters="a",
        max_steps=3,
    )
    options = {"force_eos": True, "certain_eos": True, "num_best": beam_size}
    result = search(model, [3], beam_size=beam_size, alpha=0.0, **options)
    found = dict(zip(spelled(result), np.exp(result.scores[0]), strict=False))
    expected = {"aa.": 0.375, "a.": 0.375, ".": 0.25}
    for word, probability in found.items():
        np.testing.assert_allclose(probability, expected[word], rtol=1e-5)
    assert len(found) == beam_size
    assert result.finished.numpy().all()


def test_a_forced_prefix_begins_every_output_and_is_scored_as_the_model_says():
    """Of all outputs that begin with "ba", the best are found, by enumeration."""
    model = random_model(11, vocab_size=3, max_steps=5)
    prefix = [LETTERS.index(letter) for letter in "ba"]
    result = search(
        model, [5], beam_size=16, alpha=0.6, num_best=16, forced_prefix=[prefix]
    )
    wanted = [
        "".join(LETTERS[token] for token in tokens)
        for is_finished, _, tokens in enumerated(model, 0, 5, 0.6)
        if is_finished and list(tokens[:2]) == prefix
    ]
    found = [word for word in spelled(result) if word.endswith(".")]
    assert found == wanted[: len(found)]
    assert len(found) == 7  # "ba" and up to two letters more, then the end
    best = [LETTERS.index(letter) for letter in found[0]]
    np.testing.assert_allclose(
        result.log_probs[0, 0], log_prob_of(model, 0, best), rtol=1e-5
    )


def test_each_sentence_has_its_own_prefix_and_those_without_are_free():
    model = random_model(13, batch=3, vocab_size=4, max_steps=5)
    prefixes = [[2, 3, 1], [3, PAD_ID, PAD_ID], [PAD_ID, PAD_ID, PAD_ID]]
    result = search(model, [5, 4, 5], beam_size=3, forced_prefix=prefixes, num_best=3)
    assert {word[:3] for word in spelled(result, 0)} == {"bca"}
    assert {word[:1] for word in spelled(result, 1)} == {"c"}
    assert spelled(result, 2) == spelled(
        search(model, [5, 4, 5], beam_size=3, num_best=3), 2
    )


def test_a_prefix_as_long_as_the_limit_is_all_there_is():
    model = random_model(17, vocab_size=4, max_steps=3)
    assert spelled(search(model, [3], beam_size=2, forced_prefix=[[1, 2, 1]])) == [
        "aba"
    ]


@pytest.mark.parametrize("prefix", [[1, 2], [[0.5]], [[1], [2]]])
def test_a_prefix_of_another_shape_is_refused(prefix):
    model = random_model(17, vocab_size=4, max_steps=3)
    with pytest.raises(ValueError, match="`forced_prefix` must be int32 with shape"):
        search(model, [3], forced_prefix=prefix)


def test_beam_wider_than_the_vocabulary_offers_leaves_empty_slots():
    """Of one letter and EOS, two steps make three outputs; a beam has eight slots."""
    model = spelling_model(
        {"": {"a": 0.7, ".": 0.3}, "a": {"a": 0.6, ".": 0.4}}, letters="a", max_steps=2
    )
    result = search(model, [2], beam_size=8, alpha=0.0, num_best=8)
    assert spelled(result) == [".", "a.", "aa"]
    np.testing.assert_allclose(np.exp(result.scores[0, :3]), [0.3, 0.28, 0.42], 1e-5)
    for values, empty in (
        (result.lengths, 0),
        (result.scores, NEGATIVE_INFINITY),
        (result.log_probs, NEGATIVE_INFINITY),
        (result.tokens, PAD_ID),
        (result.finished, False),
    ):
        np.testing.assert_array_equal(values[0, 3:], np.full_like(values[0, 3:], empty))


def test_vocabulary_of_eos_alone_ends_at_once():
    result = search(PrefixModel(np.zeros((1, 3, 1))), [3], beam_size=2)
    assert spelled(result) == ["."]
    assert float(result.log_probs[0, 0]) == 0.0


def test_impossible_tokens_never_make_a_hypothesis():
    model = spelling_model(
        {"": {"a": 1.0}, "a": {"b": 1.0}, "ab": {".": 1.0}}, letters="ab", max_steps=4
    )
    result = search(model, [4], beam_size=4, num_best=4, stop_early=False)
    assert spelled(result) == ["ab."]
    assert not np.any(np.isnan(result.scores))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_distribution_end_a_hypothesis_without_a_result(value):
    """b is likelier than a, but the model fails after b."""
    model = spelling_model({"": {"b": 0.7, "a": 0.3}}, letters="ab", max_steps=3)
    logits = model.logits.numpy()
    logits[0, 1 + 2] = value  # the prefix "b"
    result = search(PrefixModel(logits), [3], beam_size=2)
    assert spelled(result) == ["a."]
    assert not np.any(np.isnan(result.scores))


def test_ties_go_to_the_lower_id():
    model = PrefixModel(np.zeros((1, 13, 3)))
    result = search(model, [3], beam_size=2, alpha=0.0, num_best=2)
    assert spelled(result) == [".", "a."]


def test_half_precision_logits_are_scored_in_float32():
    probs = np.log([[[0.5, 0.25, 0.25]]])
    model = PrefixModel(np.repeat(probs, 4, axis=1))
    step = model.step

    def half_step(*arguments):
        logits, table = step(*arguments)
        return tf.cast(logits, tf.bfloat16), table

    model.step = half_step
    result = search(model, [2], beam_size=2)
    assert result.scores.dtype == tf.float32
    np.testing.assert_allclose(np.exp(result.log_probs[0, 0]), 0.5, rtol=1e-2)


def test_sentences_do_not_depend_on_the_others_of_their_batch():
    """Bit for bit: a batch of three equals three searches."""
    model = random_model(11, batch=3, vocab_size=5, max_steps=6)
    limits = [6, 2, 4]
    together = search(model, limits, max_steps=6, beam_size=3, num_best=2)
    for row in range(3):
        alone = search(
            PrefixModel(model.logits.numpy()[row : row + 1]),
            limits[row : row + 1],
            max_steps=6,
            beam_size=3,
            num_best=2,
        )
        for name in together._fields:
            np.testing.assert_array_equal(
                getattr(together, name)[row], getattr(alone, name)[0], err_msg=name
            )
