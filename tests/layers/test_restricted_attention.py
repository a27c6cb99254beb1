"""Restricted attention against full attention under a mask, and its cost."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.layers.restricted_attention import (
    RestrictedSelfAttention,
    neighbourhood,
    restricted_attention,
    spread,
)
from tests.layers.contract import check_layer, save_and_load

DRAW = np.random.default_rng(0)
QUERY, KEY = DRAW.normal(size=(2, 3, 2, 13, 5)).astype("float32")
VALUE = DRAW.normal(size=(3, 2, 13, 7)).astype("float32")
PADDING = np.arange(13) < np.array([[13], [9], [1]])
INPUTS = DRAW.normal(size=(3, 13, 6)).astype("float32")


def make(**kwargs):
    return RestrictedSelfAttention(
        6, num_heads=2, key_dim=5, value_dim=7, **{"window": 4, **kwargs}
    )


def band(length, before, after):
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]
    return (distance >= -before) & (distance <= after)


@pytest.mark.parametrize(
    ("window", "causal", "expected"),
    [
        (1, False, (0, 0)),
        (2, False, (1, 0)),
        (3, False, (1, 1)),
        (4, False, (2, 1)),
        (4, True, (3, 0)),
    ],
)
def test_a_window_has_as_many_positions_as_it_says(window, causal, expected):
    assert neighbourhood(window, causal) == expected


@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
@pytest.mark.parametrize("before", [0, 1, 2, 5, 13, 40])
@pytest.mark.parametrize("after", [0, 1, 3, 20])
def test_equals_full_attention_under_a_mask(before, after, padding):
    mask = band(13, before, after)[None]
    if padding is not None:
        mask = mask & padding[:, None]
    expected, expected_weights = scaled_dot_product_attention(QUERY, KEY, VALUE, mask)
    outputs, blocks = restricted_attention(QUERY, KEY, VALUE, before, after, padding)
    weights = spread(blocks, 13, before, after)
    seen = mask.any(-1) & np.ones((3, 1), bool)  # the others mean nothing
    rows = np.broadcast_to(seen[:, None], (3, 2, 13))  # of each head
    for found, wanted in ((outputs, expected), (weights, expected_weights)):
        np.testing.assert_allclose(
            np.asarray(found)[rows], np.asarray(wanted)[rows], atol=1e-5
        )


def test_equals_full_attention_when_the_window_covers_the_sentence():
    expected, _ = scaled_dot_product_attention(QUERY, KEY, VALUE)
    outputs, _ = restricted_attention(QUERY, KEY, VALUE, 12, 12)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_any_length_runs_in_one_graph():
    layer = make()
    layer.build((None, None, 6))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 6])])
    def run(inputs):
        outputs, weights = layer(inputs)
        return outputs, layer.full_weights(weights, tf.shape(inputs)[1])

    for length in (1, 2, 7, 13):
        outputs, weights = run(INPUTS[:, :length])
        np.testing.assert_allclose(outputs, layer(INPUTS[:, :length])[0], atol=1e-6)
        np.testing.assert_allclose(np.sum(weights, -1), 1.0, rtol=1e-5)


def test_gradients_equal_those_of_full_attention_under_a_mask():
    mask = band(13, 2, 1)[None] & PADDING[:, None]
    seen = mask.any(-1).astype("float32")[:, None, :, None]
    gradients = []
    for run in (
        lambda *rows: restricted_attention(*rows, 2, 1, PADDING)[0],
        lambda *rows: scaled_dot_product_attention(*rows, mask)[0],
    ):
        rows = [tf.constant(tensor) for tensor in (QUERY, KEY, VALUE)]
        with tf.GradientTape() as tape:
            tape.watch(rows)
            total = tf.reduce_sum(tf.sin(run(*rows)) * seen)
        gradients.append(tape.gradient(total, rows))
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_no_tensor_is_as_large_as_length_squared():
    """512 positions of which each sees 16: no more than 3 blocks of 8 keys a query."""

    @tf.function
    def run(query, key, value):
        return restricted_attention(query, key, value, 8, 7)[0]

    row = tf.TensorSpec([1, 1, 512, 4])
    sizes = [
        output.shape.num_elements()
        for operation in run.get_concrete_function(row, row, row).graph.get_operations()
        for output in operation.outputs
        if output.shape.is_fully_defined()
    ]
    assert 512 * 24 in sizes
    assert max(sizes) <= 512 * 24 * 4


def test_another_sequence_and_another_mask_are_refused():
    with pytest.raises(ValueError, match="Restricted attention is self-attention"):
        make()(INPUTS, INPUTS)
    with pytest.raises(ValueError, match="`attention_mask` must have the shape"):
        make()(INPUTS, attention_mask=np.ones((3, 13), bool))
    with pytest.raises(ValueError, match="`window` must be at least 1"):
        make(window=0)


def test_keeps_the_layer_contract(tmp_path):
    layer = make()
    expected, _ = layer(INPUTS)
    loaded = save_and_load(layer, (INPUTS,), tmp_path / "layer.keras")
    np.testing.assert_allclose(loaded, expected, atol=1e-6)
    check_layer(make, INPUTS)
