"""Feed-forward network, residual rule, embedding, positions, dropout, masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.layers import masks
from keras_transformer.layers.decoder import DecoderLayer
from keras_transformer.layers.dropout import Dropout, step_seed
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.layer_norm import LayerNormalization
from keras_transformer.layers.positional_encoding import (
    PositionalEncoding,
    positions_in_segments,
    sinusoidal_encoding,
)
from keras_transformer.layers.residual import Residual
from tests.layers.contract import check_layer, save_and_load
from tests.reference import transformer as reference

DRAW = np.random.default_rng(1)
INPUTS = DRAW.normal(size=(3, 5, 6)).astype("float32")
OUTPUT = DRAW.normal(size=(3, 5, 6)).astype("float32")
TOKENS = DRAW.integers(0, 13, (3, 5)).astype("int32")
PRE_NORM = ModelConfig(
    vocab_size=13,
    num_layers=1,
    d_model=6,
    d_ff=7,
    num_heads=2,
    norm_placement="pre",
)
CONFIG = ModelConfig(vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2)


def test_feed_forward_is_equation_2(tmp_path):
    layer = FeedForward(6, 7)
    outputs = layer(INPUTS)
    for weight in layer.weights:
        weight.assign(DRAW.normal(size=weight.shape))
    weights = {"/".join(w.path.split("/")[-2:]): w.numpy() for w in layer.weights}
    expected = reference.feed_forward(
        INPUTS,
        weights["hidden/kernel"],
        weights["hidden/bias"],
        weights["output/kernel"],
        weights["output/bias"],
    )
    outputs = layer(INPUTS)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    loaded = save_and_load(layer, (INPUTS,), tmp_path / "layer.keras")
    np.testing.assert_allclose(loaded, outputs, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("shape", [(4, 6), (3, 5, 6)])
def test_layer_norm_and_its_gradient_are_those_of_keras(shape, jit_compile, tmp_path):
    """Its gradient is written by hand; Keras's is found step by step."""
    inputs = tf.constant(DRAW.normal(2.0, 3.0, shape), tf.float32)
    weights = tf.constant(DRAW.normal(size=shape), tf.float32)
    results = []
    layers = LayerNormalization(1e-6), keras.layers.LayerNormalization(epsilon=1e-6)
    for layer in layers:
        layer.build(shape)
        layer.gamma.assign(np.linspace(0.5, 2.0, 6))
        layer.beta.assign(np.linspace(-1.0, 1.0, 6))
        options = {"training": True} if layer is layers[0] else {}

        @tf.function(jit_compile=jit_compile)
        def run(inputs, layer=layer, options=options):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = layer(inputs, **options)
                total = tf.reduce_sum(outputs * weights)
            return outputs, *tape.gradient(
                total, [inputs, layer.gamma.value, layer.beta.value]
            )

        results.append(run(inputs))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    without_gradient = layers[0](inputs)
    np.testing.assert_allclose(without_gradient, results[1][0], rtol=1e-4, atol=1e-5)
    loaded = save_and_load(layers[0], (inputs,), tmp_path / "layer.keras")
    np.testing.assert_array_equal(loaded, without_gradient)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_layer_norm_and_its_gradient_are_rounded_at_the_ends_alone(dtype):
    """In between they are float32: by hand from the rounded input, in float64."""
    layer = LayerNormalization(1e-6, dtype=dtype)
    layer.build((4, 6))
    gamma, beta = np.linspace(0.5, 2.0, 6), np.linspace(-1.0, 1.0, 6)
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    inputs = tf.constant(DRAW.normal(300.0, 3.0, (4, 6)), layer.compute_dtype)
    weights = tf.cast(DRAW.normal(size=(4, 6)), layer.compute_dtype)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, training=True)
        total = tf.reduce_sum(tf.cast(outputs * weights, "float32"))
    found = tape.gradient(total, [inputs, layer.gamma.value, layer.beta.value])
    assert [part.dtype for part in (outputs, *found)] == [
        *(layer.compute_dtype, layer.compute_dtype, "float32", "float32")
    ]

    x, upstream = (np.array(tf.cast(part, "float64")) for part in (inputs, weights))
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    unit, of_unit = centred * inverse, upstream * gamma
    along = (of_unit * unit).mean(-1, keepdims=True)
    of_inputs = inverse * (of_unit - of_unit.mean(-1, keepdims=True) - unit * along)
    wanted = (unit * gamma + beta, of_inputs)
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[layer.compute_dtype]
    for ours, exact in zip((outputs, found[0]), wanted, strict=True):
        np.testing.assert_allclose(
            tf.cast(ours, "float64"), exact, rtol=1.1 * rounding, atol=1e-5
        )
    sums = ((upstream * unit).sum(0), upstream.sum(0))
    for ours, exact in zip(found[1:], sums, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-5)


def test_residual_normalizes_after_or_before_the_sublayer():
    """§3.1: LayerNorm(x + f(x)); pre-norm: x + f(LayerNorm(x))."""
    ones, zeros = np.ones(6), np.zeros(6)
    post, pre = Residual("post"), Residual("pre")
    np.testing.assert_allclose(
        post(INPUTS, OUTPUT),
        reference.layer_norm(INPUTS + OUTPUT, ones, zeros),
        atol=1e-5,
    )
    np.testing.assert_array_equal(post.sublayer_input(INPUTS), INPUTS)
    np.testing.assert_allclose(pre(INPUTS, OUTPUT), INPUTS + OUTPUT, atol=1e-6)
    np.testing.assert_allclose(
        pre.sublayer_input(INPUTS),
        reference.layer_norm(INPUTS, ones, zeros),
        atol=1e-5,
    )
    with pytest.raises(ValueError, match="`norm_placement` must be one of 'post'"):
        Residual("after")


def test_embedding_is_scaled_and_gives_the_logits_too():
    """§3.4: rows times sqrt(d_model); logits are products with the same rows."""
    layer = TokenEmbedding(13, 6, use_output_bias=True)
    vectors = layer(TOKENS)
    table = layer.embeddings.numpy()
    layer.output_bias.assign(np.arange(13.0))
    np.testing.assert_allclose(vectors, table[TOKENS] * np.sqrt(6), rtol=1e-5)
    np.testing.assert_allclose(
        layer.logits(INPUTS), INPUTS @ table.T + np.arange(13), rtol=1e-4, atol=1e-5
    )
    half = TokenEmbedding(13, 6, dtype="mixed_bfloat16")
    assert half(TOKENS).dtype == "bfloat16"
    assert half.logits(INPUTS).dtype == "float32"


def test_embedding_starts_with_variance_one_over_d_model():
    layer = TokenEmbedding(2000, 64)
    layer.build()
    np.testing.assert_allclose(np.std(layer.embeddings.numpy()), 1 / 8, rtol=0.01)


def test_positions_by_hand():
    """d_model 4: frequencies 1 and 1/100; at position 2 angles of 2 and 0.02."""
    expected = [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)]
    np.testing.assert_allclose(sinusoidal_encoding([2], 4)[0], expected, rtol=1e-6)
    # tensor2tensor's: sines first, and the last frequency is 1/10000.
    expected = [np.sin(2), np.sin(2e-4), np.cos(2), np.cos(2e-4)]
    halves = sinusoidal_encoding([2], 4, layout="halves")
    np.testing.assert_allclose(halves[0], expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_positions_are_computed_in_float32(dtype):
    """Position 500 is right to bfloat16's last bit, not off by 1."""
    layer = PositionalEncoding(6, dtype=dtype)
    encoded = np.asarray(layer(np.zeros((1, 503, 6), "float32")), "float32")
    tolerance = 1e-4 if dtype == "float32" else 2**-8
    np.testing.assert_allclose(encoded[0], reference.positions(503, 6), atol=tolerance)


def test_a_step_has_the_position_of_its_place_in_the_sentence():
    for encoding in ("sinusoidal", "learned"):
        layer = PositionalEncoding(6, encoding, first_position=1, num_positions=17)
        whole = layer(np.zeros((1, 7, 6), "float32"))
        step = layer(np.zeros((1, 1, 6), "float32"), start=4)
        np.testing.assert_allclose(step[:, 0], whole[:, 4], atol=1e-6)


def masks_of(counter, seed=3):
    with step_seed(seed, tf.constant(counter)):
        layer = Dropout(0.5)
        ones = np.ones((3, 101), "float32")
        return np.asarray(layer(ones, training=True)), np.asarray(
            layer(ones, training=True)
        )


def test_dropout_masks_follow_seed_counter_and_order_alone():
    first, second = masks_of(7)
    np.testing.assert_array_equal(first, masks_of(7)[0])
    for other in (second, masks_of(8)[0], masks_of(7, seed=4)[0]):
        assert (first != other).any()
    assert set(np.unique(first)) == {0.0, 2.0}
    assert 0.3 < (first == 0).mean() < 0.7


def test_dropout_is_off_at_inference_and_random_in_a_notebook():
    layer, ones = Dropout(0.5, seed=1), np.ones((3, 101), "float32")
    np.testing.assert_array_equal(layer(ones), ones)
    first, second = (np.asarray(layer(ones, training=True)) for _ in range(2))
    assert (first != second).any()
    with pytest.raises(ValueError, match=r"`rate` must be in \[0, 1\)"):
        Dropout(1.0)


def test_masks_by_hand():
    """True = keep."""
    padding = masks.padding_mask(np.array([[5, 3, 0]]), pad_id=0)
    np.testing.assert_array_equal(padding, [[True, True, False]])
    np.testing.assert_array_equal(masks.key_mask(padding), [[[True, True, False]]])
    np.testing.assert_array_equal(
        masks.causal_mask(3)[0], np.tril(np.ones((3, 3), bool))
    )


def test_segments_of_a_packed_row_by_hand():
    """Two sentences, of 2 tokens and of EOS alone, then padding."""
    segments = masks.segments(np.array([[5, 3, 3, 0, 0], [4, 5, 6, 3, 0]]), eos_id=3)
    np.testing.assert_array_equal(segments, [[0, 0, 1, 2, 2], [0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(
        positions_in_segments(segments), [[0, 1, 0, 0, 1], [0, 1, 2, 3, 0]]
    )
    keep = masks.segment_mask(segments[:1, :3], segments[:1])
    np.testing.assert_array_equal(
        keep, [[[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0]]]
    )


@pytest.mark.parametrize("encoding", ["sinusoidal", "learned"])
def test_positions_that_begin_anew_have_the_encodings_of_the_first(encoding):
    layer = PositionalEncoding(6, encoding, first_position=1, num_positions=3)
    inputs = np.zeros((2, 5, 6), "float32")
    alone = layer(inputs[:1, :3])
    positions = np.array([[0, 1, 2, 0, 1], [0, 0, 1, 2, 0]])
    np.testing.assert_allclose(
        layer(inputs, positions=positions), np.asarray(alone)[0][positions], atol=1e-6
    )


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda **kw: FeedForward(6, 7, **kw), (INPUTS,)),
        (lambda **kw: Residual("post", 0.1, **kw), (INPUTS, OUTPUT)),
        (lambda **kw: EncoderLayer(PRE_NORM, **kw), (INPUTS,)),
        (lambda **kw: TokenEmbedding(13, 6, **kw), (TOKENS,)),
        (lambda **kw: PositionalEncoding(6, **kw), (INPUTS,)),
        (lambda **kw: PositionalEncoding(6, "learned", **kw), (INPUTS,)),
        (lambda **kw: EncoderLayer(CONFIG, **kw), (INPUTS,)),
        (lambda **kw: DecoderLayer(CONFIG, **kw), (INPUTS, OUTPUT)),
    ],
    ids=[
        "feed-forward",
        "post-norm",
        "pre-norm encoder layer",
        "embedding",
        "sinusoids",
        "learned positions",
        "encoder layer",
        "decoder layer",
    ],
)
def test_keeps_the_layer_contract(make, inputs):
    check_layer(make, *inputs)


def test_an_embedding_is_saved_without_a_copy_of_it():
    """Keras saves what `np.array` makes of the values."""
    layer = TokenEmbedding(7, 6, use_output_bias=True)
    layer.build()
    store = {}
    layer.save_own_variables(store)
    for saved, variable in zip(
        store.values(), (layer.embeddings, layer.output_bias), strict=True
    ):
        values = np.asarray(variable.value.read_value())
        assert np.shares_memory(np.array(saved), values)
        np.testing.assert_array_equal(np.array(saved), values)
