"""The same result eagerly, in a graph, under XLA and from disk; and bad arguments."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import beam_search
from tests.decoding.fake_models import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    PrefixModel,
    num_prefixes,
    random_model,
    search,
)

VOCAB_SIZE, MAX_STEPS = 5, 5
LIMITS = [5, 2, 3]
WIDTH = num_prefixes(VOCAB_SIZE, MAX_STEPS)


def search_logits(logits, limits):
    return search(
        PrefixModel(logits), limits, max_steps=MAX_STEPS, beam_size=3, num_best=2
    )


@pytest.fixture(scope="module")
def eager():
    model = random_model(17, batch=3, vocab_size=VOCAB_SIZE, max_steps=MAX_STEPS)
    return model.logits, search_logits(model.logits, LIMITS)


def assert_same(result, expected):
    for name, values in zip(expected._fields, expected, strict=True):
        if values.dtype.is_floating:
            np.testing.assert_allclose(getattr(result, name), values, rtol=1e-5)
        else:
            np.testing.assert_array_equal(getattr(result, name), values)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_equal_eager(eager, jit_compile):
    logits, expected = eager
    compiled = tf.function(search_logits, autograph=False, jit_compile=jit_compile)
    result = compiled(logits, tf.constant(LIMITS))
    assert_same(result, expected)
    assert result.tokens.shape == (3, 3, MAX_STEPS)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_saved_model_equals_eager_for_any_batch(eager, jit_compile, tmp_path):
    """Saved with an open batch size, loaded again, run on three sentences and two."""
    logits, expected = eager
    module = tf.Module()
    module.search = tf.function(
        lambda logits, limits: search_logits(logits, limits)._asdict(),
        jit_compile=jit_compile,
        input_signature=[
            tf.TensorSpec([None, WIDTH, VOCAB_SIZE], tf.float32),
            tf.TensorSpec([None], tf.int32),
        ],
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for rows in (3, 2):
        answer = loaded.search(logits[:rows], tf.constant(LIMITS[:rows]))
        assert_same(
            type(expected)(**answer),
            type(expected)(*(values[:rows] for values in expected)),
        )


def test_num_best_is_an_input_of_the_compiled_search():
    """XLA would compile a program for each value of a constant."""

    @tf.function(autograph=False, jit_compile=True)
    def searched(limits, num_best):
        return alternating_search(limits, 3, num_best=num_best)

    limits, num_best = tf.constant([3, 2]), tf.constant(1)
    program = searched.experimental_get_compiler_ir(limits, num_best)("hlo")
    assert "s32[2]{0}, s32[])" in program.splitlines()[0]


def alternating_search(limits, max_steps, **changes):
    """A model that reads no past: after a comes EOS."""
    arguments = {
        "step_fn": lambda tokens, step, past, source, cache: (
            tf.one_hot(tf.where(tokens == 1, EOS_ID, 1), 3) * 5.0,
            {"calls": cache["calls"] + 1},
        ),
        "cache": {"calls": tf.zeros([tf.size(limits), 1, 0], tf.int32)},
        "max_lengths": limits,
        "max_steps": max_steps,
        "config": DecodingConfig(beam_size=2),
        "bos_id": BOS_ID,
        "eos_id": EOS_ID,
        "pad_id": PAD_ID,
    }
    arguments.update(changes)
    return beam_search(
        arguments.pop("step_fn"), (), arguments.pop("cache"), **arguments
    )


def test_max_steps_may_be_a_tensor_outside_xla():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def searched(limits):
        return alternating_search(limits, tf.reduce_max(limits))

    result = searched(tf.constant([3, 7]))
    np.testing.assert_array_equal(result.tokens[1, 0], [1, EOS_ID] + [PAD_ID] * 5)
    assert result.tokens.shape == (2, 2, 7)


def test_beam_of_one_runs_with_an_open_batch_size():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def searched(limits):
        return alternating_search(limits, 3, config=DecodingConfig(beam_size=1))

    result = searched(tf.constant([3, 1]))
    np.testing.assert_array_equal(
        result.tokens[:, 0], [[1, 0, PAD_ID], [1, PAD_ID, PAD_ID]]
    )


def test_limits_of_any_integer_type_are_taken():
    result = alternating_search(tf.constant([3], tf.int64), 3)
    assert result.lengths.dtype == tf.int32


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"num_best": 3},
            r"`num_best` must be at least 1 and at most `beam_size`. Received: "
            r"num_best=3, beam_size=2\.",
        ),
        ({"num_best": 0}, "Received: num_best=0, beam_size=2"),
        (
            {"max_lengths": [[3]]},
            r"`max_lengths` must be int32 with shape \[batch\]. Received: dtype=int32, "
            r"shape=\(1, 1\)\.",
        ),
        ({"max_lengths": [3.0]}, r"`max_lengths` must be int32.*dtype=float32"),
        ({"max_steps": 0}, r"`max_steps` must be at least 1. Received: max_steps=0\."),
        (
            {"pad_id": EOS_ID},
            r"`pad_id` and `eos_id` must differ.*Received: pad_id=0, eos_id=0\.",
        ),
        (
            {"eos_id": 3},
            r"`eos_id` must be an id of the vocabulary, in \[0, 3\).*eos_id=3",
        ),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        alternating_search(**{"limits": [3], "max_steps": 3, **changes})


def test_max_steps_must_be_an_integer():
    with pytest.raises(TypeError, match=r"`max_steps` must be an integer"):
        alternating_search([3], 3.0)


@pytest.mark.parametrize(
    "answer, message",
    [
        (
            lambda cache: tf.zeros([1, 2, 3]),
            r"`step_fn` must return \(logits, cache\). Received: EagerTensor\.",
        ),
        (
            lambda cache: (tf.zeros([1, 5, 3]), cache),
            r"`step_fn` must return float logits \[batch, 2, vocab\].*Received: "
            r"dtype=float32, shape=\(1, 5, 3\)\.",
        ),
        (lambda cache: (tf.zeros([1, 2]), cache), r"float logits.*shape=\(1, 2\)"),
        (lambda cache: (tf.zeros([1, 2, 3], tf.int32), cache), "float logits.*int32"),
        (
            lambda cache: (tf.zeros([1, 2, 3]), {"count": 1}),
            "`step_fn` must return the cache with the structure, dtypes and shapes",
        ),
        (
            lambda cache: (tf.zeros([1, 2, 3]), {"calls": tf.zeros([2])}),
            r"the cache with the.*Received: dtype=float32, shape=\(2,\) in place of "
            r"dtype=int32, shape=\(1, 1, 6\)\.",
        ),
    ],
)
def test_bad_answers_of_the_step_function_are_named(answer, message):
    with pytest.raises(ValueError, match=message):
        alternating_search([3], 3, step_fn=lambda *arguments: answer(arguments[-1]))


def test_logits_of_an_unknown_beam_are_refused_in_a_graph():
    @tf.function(
        input_signature=[tf.TensorSpec([None, None, None], tf.float32)],
        autograph=False,
    )
    def searched(logits):
        return alternating_search([3], 3, step_fn=lambda *x: (logits, x[-1]))

    with pytest.raises(
        ValueError, match="size of the beam known when the graph is built"
    ):
        searched(tf.zeros([1, 2, 3]))
