"""Habits of arrays: rank, type, ids and lengths are named before a step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.model.token_checks import (
    check_padding_follows,
    checked_tokens,
    naming_failures,
)
from tests.keras_habits.models import arrays, compiled, make_config, make_model

SOURCE, TARGET = arrays()


@pytest.fixture(scope="module")
def model():
    """For tests that change no weights."""
    model = make_model(**LEARNED)
    model.compile("sgd", kt.LabelSmoothedCrossEntropy(0.1))
    return model


def with_id(value, dtype="int32"):
    changed = SOURCE.astype(dtype)
    changed[3, 1] = value
    return changed


WRONG = {
    "rank 1": (
        SOURCE[0],
        r"must have the shape \[batch, length\]. Received: shape=\(",
    ),
    "rank 3": (SOURCE[:, :, None], r"Received: shape=\(\w+, \w+, \w+\)"),
    "floats": (SOURCE + 0.7, "must be integers, .* Received: dtype=float"),
    "whole floats": (SOURCE.astype("float32"), "Received: dtype=float32"),
    "booleans": (SOURCE > 0, "Received: dtype=bool"),
    "texts": (np.array([["one", "two"]]), "dtype=string. Encode texts"),
    "negative": (with_id(-1), r"must be ids in \[0, 13\). Received: id=-1."),
    "too large": (with_id(13), r"must be ids in \[0, 13\). Received: id=13."),
    "beyond int32": (with_id(2**32 + 5, "int64"), "Received: id=4294967301"),
    "too long": (np.tile(SOURCE, 2), "longer than the 7 learned positions.*length=10"),
}
LEARNED = {"position_encoding": "learned", "num_positions": 7}


@pytest.mark.parametrize("name", WRONG)
def test_tokens_are_named_in_call(model, name):
    tokens, message = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=f"`source_tokens` .*{message}"):
        model(tokens, TARGET)
    with pytest.raises((TypeError, ValueError), match=f"`decoder_inputs` .*{message}"):
        model(SOURCE, tokens)


@pytest.mark.parametrize("name", WRONG)
def test_tokens_are_named_in_a_graph_of_unknown_shapes(name):
    """Also where what is computed of them is under XLA, which has no assertions."""
    tokens, message = WRONG[name]
    inner = tf.function(lambda rows: rows * 2, jit_compile=True)
    spec = tf.TensorSpec([None] * tokens.ndim, tf.as_dtype(tokens.dtype))

    @naming_failures()
    @tf.function(input_signature=[spec], autograph=False)
    def step(tokens):
        config = make_config(**LEARNED)
        return inner(checked_tokens("target_tokens", tokens, config, is_packed=False))

    with pytest.raises((TypeError, ValueError), match=f"^`target_tokens` .*{message}"):
        step(tokens)


def test_rank_is_named_in_a_graph_that_was_called_with_another():
    """TensorFlow relaxes the shape of what changes, down to an unknown rank."""

    @naming_failures()
    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32)], autograph=False)
    def step(tokens):
        return checked_tokens("labels", tokens, make_config(), is_packed=False)

    np.testing.assert_array_equal(step(SOURCE), SOURCE)
    with pytest.raises(ValueError, match=r"^`labels` must .* Received: rank=3.$"):
        step(SOURCE[:, :, None])


def test_rows_of_several_pairs_may_be_longer_than_the_positions():
    rows = np.tile(SOURCE, 2)
    found = checked_tokens(
        "source_tokens", rows, make_config(**LEARNED), is_packed=True
    )
    np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize("name", ["floats", "too large"])
def test_arrays_are_named_before_the_first_step(model, name):
    """Also where only the last row, or the validation data, are wrong."""
    tokens, message = WRONG[name]
    before = model.get_weights()
    for data in ((tokens, TARGET), (SOURCE, tokens)):
        with pytest.raises((TypeError, ValueError), match=message):
            model.fit(*data, batch_size=1, shuffle=False, verbose=0)
        with pytest.raises((TypeError, ValueError), match=message):
            model.fit(SOURCE, TARGET, validation_data=data, verbose=0)
    assert int(model.optimizer.iterations) == 0
    for left, right in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_ids_in_datasets_are_named_before_their_step(jit_compile):
    """The steps before it have changed the weights, and it has not."""
    model = compiled(jit_compile=jit_compile)
    batches = tf.data.Dataset.from_tensor_slices(
        (np.stack([SOURCE, with_id(13), with_id(-1)]), np.stack([TARGET] * 3))
    )
    with pytest.raises(ValueError, match=r"^`source_tokens` must .* Received: id=13.$"):
        model.fit(batches, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == 1
    one = compiled(jit_compile=jit_compile)
    one.fit(batches.take(1), shuffle=False, verbose=0)
    for left, right in zip(one.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.long
def test_ids_are_named_in_each_method(two_replicas):
    message = r"must be ids in \[0, 13\). Received: id=13.$"
    with two_replicas.scope():
        model = compiled()
    calls = [
        lambda: model.evaluate(SOURCE, with_id(13), verbose=0),
        lambda: model.fit(
            tf.data.Dataset.from_tensors((SOURCE, with_id(13))),
            shuffle=False,
            verbose=0,
        ),
        lambda: model.predict((with_id(13), TARGET), verbose=0),
        lambda: model.predict_on_batch((SOURCE, with_id(13))),
        lambda: model.train_on_batch(SOURCE, with_id(13)),
        lambda: model.test_on_batch(SOURCE, with_id(13)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_symbolic_inputs_of_floats_are_named(model):
    """`keras.Input` makes floats if no dtype is given."""
    with pytest.raises(TypeError, match="`source_tokens` must be integers.*float32"):
        model(keras.Input((None,)), keras.Input((None,)))


ROWS = [[5, 6, 3], [7, 3], [8, 9, 10, 3]]


@pytest.mark.parametrize("name", ["source_tokens", "target_tokens"])
def test_padding_before_the_tokens_is_named(model, name):
    """As `pad_sequences` puts it; BOS would come before padding, not before a token."""
    after = keras.utils.pad_sequences(ROWS, padding="post")
    before = keras.utils.pad_sequences(ROWS)
    pair = {"source_tokens": after, "target_tokens": after, name: before}
    with pytest.raises(ValueError, match=f"`{name}` must have padding after .*'post'"):
        model.fit(*pair.values(), verbose=0)


@pytest.mark.parametrize(
    "rows",
    [ROWS[:1], [[0, 0], [5, 3]], [[0, 5, 3], [6, 3, 0]], [[5, 0, 3, 0]]],
    ids=["none", "whole rows", "both sides", "within"],
)
def test_other_padding_is_left_to_the_user(rows):
    check_padding_follows("source_tokens", np.array(rows), 0)
