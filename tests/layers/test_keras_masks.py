"""Masks as Keras has them: kept at tensors, given by name, in any form of attention."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.layers import masks
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.layer_norm import LayerNormalization
from keras_transformer.layers.positional_encoding import PositionalEncoding
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.restricted_attention import RestrictedSelfAttention

DRAW = np.random.default_rng(2)
QUERY = DRAW.normal(size=(3, 7, 6)).astype("float32")
SOURCE = DRAW.normal(size=(3, 11, 6)).astype("float32")
QUERY_IS_REAL = np.arange(7) < np.array([[7], [4], [1]])
SOURCE_IS_REAL = np.arange(11) < np.array([[5], [11], [2]])

SIZES = {"vocab_size": 13, "num_layers": 2, "d_model": 6, "d_ff": 7, "num_heads": 2}
CONFIG = ModelConfig(**SIZES)
PRE_NORM = ModelConfig(**SIZES, norm_placement="pre")
WINDOW = ModelConfig(**SIZES, attention_window=4)

ATTENTION = {
    "whole": lambda **kw: MultiHeadAttention(6, 2, key_dim=5, value_dim=3, **kw),
    "restricted": lambda **kw: RestrictedSelfAttention(6, 2, 5, 3, window=4, **kw),
}
OF_ONE = {
    **ATTENTION,
    "feed-forward": lambda: FeedForward(6, 7),
    "layer norm": lambda: LayerNormalization(),
    "dropout": lambda: Dropout(0.5),
    "positions": lambda: PositionalEncoding(6),
    "encoder layer": lambda: EncoderLayer(CONFIG),
    "encoder": lambda: Encoder(PRE_NORM),
    "causal encoder": lambda: Encoder(CONFIG, causal=True),
    "restricted encoder": lambda: Encoder(WINDOW),
    "decoder layer alone": lambda: DecoderLayer(CONFIG),
    "decoder alone": lambda: Decoder(PRE_NORM),
    "restricted decoder alone": lambda: Decoder(WINDOW),
}
OF_TWO = {
    "attention": ATTENTION["whole"],
    "residual": lambda: Residual("post"),
    "decoder layer": lambda: DecoderLayer(PRE_NORM),
    "decoder": lambda: Decoder(CONFIG),
}


def padded(values, is_real, filler, length):
    """Return `length` positions with a Keras mask, a filler where they are not real."""
    padding = length - values.shape[1]
    is_real = np.pad(is_real, ((0, 0), (0, padding)))
    values = np.pad(values, ((0, 0), (0, padding), (0, 0)))
    values = np.where(is_real[..., None], values, filler).astype("float32")
    return masks.masked(tf.constant(values), tf.constant(is_real))


def real_outputs_and_gradients(layer, *inputs):
    """Return outputs, their mask, and gradients, with zeros where nothing is real."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = tf.nest.flatten(layer(*inputs))[0]
        is_real = tf.cast(inputs[0]._keras_mask, tf.float32)[..., None]
        total = tf.reduce_sum(tf.sin(outputs) * is_real)
    gradients = tape.gradient(total, [*inputs, *layer.trainable_weights])
    return [outputs * is_real, *gradients], outputs._keras_mask


def check_padding_changes_nothing(layer, *given):
    """Check a layer on padded inputs, each (values, mask), with other padding."""
    kept, kept_mask = real_outputs_and_gradients(
        layer, *(padded(*each, filler=0.0, length=each[0].shape[1]) for each in given)
    )
    found, mask = real_outputs_and_gradients(
        layer, *(padded(*each, filler=9.0, length=13) for each in given)
    )
    np.testing.assert_array_equal(kept_mask, QUERY_IS_REAL)
    np.testing.assert_array_equal(mask, np.pad(QUERY_IS_REAL, ((0, 0), (0, 6))))
    for ours, wanted in zip(found, kept, strict=True):
        if ours.shape != wanted.shape:  # of positions; the others are padding
            length = wanted.shape[1]
            np.testing.assert_array_equal(ours[:, length:], 0.0)
            ours = ours[:, :length]
        np.testing.assert_allclose(ours, wanted, atol=1e-5)


@pytest.mark.parametrize("name", OF_ONE)
def test_padding_changes_nothing_at_real_positions(name):
    check_padding_changes_nothing(OF_ONE[name](), (QUERY, QUERY_IS_REAL))


@pytest.mark.parametrize("name", OF_TWO)
def test_padding_of_two_sequences_changes_nothing(name):
    second = (QUERY, QUERY_IS_REAL) if name == "residual" else (SOURCE, SOURCE_IS_REAL)
    check_padding_changes_nothing(OF_TWO[name](), (QUERY, QUERY_IS_REAL), second)


@pytest.mark.parametrize("name", ["encoder layer", "encoder", "decoder alone"])
def test_a_mask_given_by_name_is_that_of_the_tensor(name):
    """Also beside a mask of attention, where Keras itself hands on no mask."""
    layer = OF_ONE[name]()
    inputs, pairs = tf.constant(QUERY), tf.ones((7, 7))
    argument = "target_mask" if name == "decoder alone" else "attention_mask"
    expected, *_ = layer(masks.masked(inputs, QUERY_IS_REAL))
    for given in (
        {"mask": QUERY_IS_REAL},
        {"mask": QUERY_IS_REAL, argument: pairs},
    ):
        outputs, *_ = layer(inputs, **given)
        np.testing.assert_array_equal(outputs, expected)
        np.testing.assert_array_equal(outputs._keras_mask, QUERY_IS_REAL)
    assert masks.keras_mask(inputs) is None


def twins(**options):
    """Return our attention and Keras's, with the same weights."""
    ours = MultiHeadAttention(6, 2, key_dim=5, value_dim=3, **options)
    theirs = keras.layers.MultiHeadAttention(2, 5, value_dim=3, use_bias=False)
    ours(QUERY, SOURCE)
    theirs(QUERY, SOURCE)
    for own, other in zip(ours.weights, theirs.weights, strict=True):
        other.assign(own.numpy().reshape(other.shape))
    return ours, theirs


PAIRS = DRAW.random((3, 2, 7, 11)) < 0.6
PAIRS[..., :2] = True


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint8", "float32"])
@pytest.mark.parametrize(
    "part",
    [(0, 0), (slice(None), 0), (slice(None),), (slice(None), slice(0, 1))],
    ids=["query, key", "batch, query, key", "batch, heads, query, key", "one head"],
)
def test_every_form_of_a_mask_means_what_it_means_to_keras(part, dtype):
    ours, theirs = twins()
    mask = PAIRS[part].astype(dtype)
    outputs, weights = ours(QUERY, SOURCE, attention_mask=mask)
    expected = theirs(QUERY, SOURCE, attention_mask=mask)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    hidden = np.broadcast_to(mask if mask.ndim != 3 else mask[:, None], weights.shape)
    assert (np.asarray(weights)[hidden == 0] == 0.0).all()


@pytest.mark.parametrize(
    "given",
    [
        {"value_mask": SOURCE_IS_REAL},
        {"key_mask": SOURCE_IS_REAL},
        {"query_mask": QUERY_IS_REAL, "value_mask": SOURCE_IS_REAL},
        {"value_mask": SOURCE_IS_REAL, "attention_mask": PAIRS[:, 0]},
        {"use_causal_mask": True},
        {"use_causal_mask": True, "value_mask": SOURCE_IS_REAL.astype("int32")},
    ],
)
def test_masks_and_causality_mean_what_they_mean_to_keras(given):
    ours, theirs = twins()
    outputs, _ = ours(QUERY, SOURCE, **given)
    is_real = given.get("query_mask", np.ones((3, 7), bool))
    expected = theirs(QUERY, SOURCE, **given)
    np.testing.assert_allclose(outputs[is_real], expected[is_real], atol=1e-5)


def test_no_value_of_a_mask_is_ever_added():
    """A mask of ones changes nothing, whatever its dtype."""
    layer = ATTENTION["whole"]()
    expected, _ = layer(QUERY)
    for dtype in ("float16", "float32", "float64", "int8"):
        outputs, _ = layer(QUERY, attention_mask=np.ones((7, 7), dtype))
        np.testing.assert_array_equal(outputs, expected)


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize(
    "shape", [(7,), (3, 7), (3, 6, 7), (7, 6), (2, 7, 7), (3, 5, 7, 7), (1,) * 5]
)
def test_other_shapes_are_refused_in_one_line(name, shape):
    layer = ATTENTION[name]()
    expected = (
        r"`attention_mask` must have the shape \[query, key\], \[batch, query, key\] "
        r"or \[batch, heads, query, key\]. Received: shape=\(.*\) for queries "
        r"\[3, 7, 6\]."
    )
    with pytest.raises(ValueError, match=expected):
        layer(QUERY, attention_mask=np.ones(shape, bool))


def test_a_mask_of_padding_is_refused_in_a_graph_of_any_batch():
    """Its first axis is unknown, that of the queries is not."""
    layer = EncoderLayer(CONFIG)
    layer.build((None, 7, 6))
    tokens, mask = tf.TensorSpec([None, 7, 6]), tf.TensorSpec([None, 7], tf.bool)
    graph = tf.function(lambda x, mask: layer(x, attention_mask=mask)[0])
    with pytest.raises(
        ValueError, match=r"shape=\(None, 7\) for queries \[None, 7, 6\]"
    ):
        graph.get_concrete_function(tokens, mask)


@pytest.mark.parametrize("window", [4, 40])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "shape", [(7, 7), (3, 7, 7), (3, 2, 7, 7), (3, 2, 1, 7), (1, 7)]
)
def test_restricted_attention_takes_every_form(shape, window, is_causal):
    """It is whole attention under the mask, and that of its window."""
    mask = DRAW.random(shape) < 0.6
    mask[..., np.arange(7) % shape[-2], np.arange(7)] = True  # each sees itself
    restricted = RestrictedSelfAttention(6, 2, 5, 3, window=window, causal=is_causal)
    whole = ATTENTION["whole"]()
    whole.build(QUERY.shape)
    restricted.build(QUERY.shape)
    for own, other in zip(restricted.weights, whole.weights, strict=True):
        own.assign(other)
    distance = np.arange(7)[None, :] - np.arange(7)[:, None]
    near = (distance >= -restricted.before) & (distance <= restricted.after)
    near = np.broadcast_to(mask, (3, 2, 7, 7) if len(shape) != 3 else shape) & near
    for given in ({}, {"use_causal_mask": True}):
        expected, expected_weights = whole(QUERY, attention_mask=near, **given)
        outputs, blocks = restricted(QUERY, attention_mask=mask, **given)
        weights = restricted.full_weights(blocks, 7)
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        np.testing.assert_allclose(weights, expected_weights, atol=1e-5)


def test_an_embedding_masks_padding():
    tokens = np.array([[5, 3, 0], [3, 0, 0]])
    for pad_id in (0, 3):
        layer = TokenEmbedding(13, 6, mask_zero=True, pad_id=pad_id)
        vectors = layer(tokens)
        np.testing.assert_array_equal(vectors._keras_mask, tokens != pad_id)
        logits = layer(vectors, reverse=True)
        np.testing.assert_array_equal(logits, layer.logits(vectors))
        np.testing.assert_array_equal(logits._keras_mask, tokens != pad_id)
    assert masks.keras_mask(TokenEmbedding(13, 6)(tokens)) is None
    again = TokenEmbedding.from_config(layer.get_config())
    assert (again.mask_zero, again.pad_id) == (True, 3)


@pytest.mark.parametrize("shape", [(None, 6), (None,)])
def test_a_causal_mask_of_a_symbolic_sequence(shape, tmp_path):
    """Of any length, saved and loaded; for no sequence at all as well."""
    inputs = keras.Input(shape)
    model = keras.Model(inputs, masks.causal_mask(inputs))
    model.save(tmp_path / "model.keras")
    for each in (model, keras.saving.load_model(tmp_path / "model.keras")):
        for batch in (3, 0):
            found = each(np.zeros((batch, *(size or 5 for size in shape))))
            np.testing.assert_array_equal(found, np.tril(np.ones((1, 5, 5), bool)))


def test_a_causal_mask_of_lengths_and_of_none():
    np.testing.assert_array_equal(masks.causal_mask(2, 3), [[[1, 0, 0], [1, 1, 0]]])
    np.testing.assert_array_equal(
        masks.causal_mask(tf.constant(3)), np.tril(np.ones((1, 3, 3), bool))
    )
    inputs = keras.Input((None, 6))
    with pytest.raises(ValueError, match="Received: None, .* Pass that tensor itself"):
        masks.causal_mask(keras.ops.shape(inputs)[1])
