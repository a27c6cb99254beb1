"""Our layers in models of others: an encoder alone, a decoder alone, their shapes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import masks
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.positional_encoding import PositionalEncoding
from keras_transformer.layers.restricted_attention import RestrictedSelfAttention
from tests.keras_habits.models import VOCAB_SIZE, arrays, make_config

TOKENS, TARGET = arrays()
LABELS = (TOKENS.sum(1) % 2).astype("int32")
SHAPE = (3, 5, 6)


def classifier():
    tokens = keras.Input((None,), dtype="int32")
    x = TokenEmbedding(VOCAB_SIZE, 6, mask_zero=True)(tokens)
    x, _ = Encoder(make_config())(PositionalEncoding(6)(x))
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, keras.layers.Dense(2)(x))


def language_model(**fields):
    tokens = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(VOCAB_SIZE, 6, mask_zero=True)
    x, _ = Decoder(make_config(**fields))(PositionalEncoding(6)(embedding(tokens)))
    return keras.Model(tokens, embedding(x, reverse=True))


@pytest.mark.long(first=1)
@pytest.mark.parametrize("make", [language_model, classifier])
def test_a_functional_model_of_our_layers_is_like_any_other(make, tmp_path):
    """Trained under XLA, saved, loaded, cloned and exported, for every length."""
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=True)
    labels = LABELS if make is classifier else TARGET
    assert np.isfinite(model.train_on_batch(TOKENS, labels))
    expected = model(TOKENS)
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for each in (keras.saving.load_model(tmp_path / "model.keras"), clone):
        np.testing.assert_allclose(each(TOKENS), expected, atol=1e-6)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(TOKENS), expected, atol=1e-5)
    assert served.serve(TOKENS[:1, :2]).shape[0] == 1


@pytest.mark.parametrize(
    "fields", [{}, {"norm_placement": "pre"}, {"attention_window": 2}]
)
def test_a_decoder_alone_does_not_look_ahead(fields):
    """It attended to its own inputs as if they were an encoder's, without a mask."""
    model = language_model(**fields)
    changed = TOKENS.copy()
    changed[:, 3:] = 11
    before, after = model(TOKENS), model(changed)
    is_real = TOKENS[:, :3] != 0
    np.testing.assert_allclose(before[:, :3][is_real], after[:, :3][is_real], atol=1e-6)
    assert not any("cross" in weight.path for weight in model.weights)


def test_a_causal_mask_is_made_of_a_symbolic_input():
    """Its length, `ops.shape(x)[1]`, is None, and no tensor."""
    inputs = keras.Input((None, 6))
    attention = MultiHeadAttention(6, 2, key_dim=3, value_dim=3)
    by_mask, _ = attention(inputs, attention_mask=masks.causal_mask(inputs))
    by_name, _ = attention(inputs, use_causal_mask=True)
    model = keras.Model(inputs, [by_mask, by_name])
    outputs = model(np.random.default_rng(5).normal(size=(3, 7, 6)))
    np.testing.assert_allclose(*outputs, atol=1e-6)
    with pytest.raises(ValueError, match="Pass that tensor itself"):
        masks.causal_mask(keras.ops.shape(inputs)[1])


@pytest.mark.parametrize(
    ("make", "arguments", "expected"),
    [
        (
            lambda: MultiHeadAttention(6, 2, key_dim=3, value_dim=3),
            (SHAPE, (3, 7, 6)),
            (SHAPE, (3, 2, 5, 7)),
        ),
        (lambda: EncoderLayer(make_config()), (SHAPE,), (SHAPE, (3, 2, 5, 5))),
        (lambda: Encoder(make_config()), (SHAPE,), (SHAPE, [(3, 2, 5, 5)])),
        (
            lambda: DecoderLayer(make_config()),
            (SHAPE, (3, 7, 6)),
            (SHAPE, (3, 2, 5, 5), (3, 2, 5, 7)),
        ),
        (lambda: Decoder(make_config()), (SHAPE,), (SHAPE, [(3, 2, 5, 5)])),
        (
            lambda: Encoder(make_config(attention_window=3)),
            ((None, None, 6),),
            ((None, None, 6), [(None, 2, None, 1, 3)]),
        ),
        (lambda: PositionalEncoding(6), (SHAPE,), SHAPE),
        (lambda: TokenEmbedding(13, 6), ((3, None),), (3, None, 6)),
    ],
)
def test_a_layer_knows_its_outputs_shape_before_it_is_built(make, arguments, expected):
    layer = make()
    assert layer.compute_output_shape(*arguments) == expected
    assert not layer.built


SEQUENCE_LAYERS = {
    "encoder": lambda: Encoder(make_config()),
    "encoder layer": lambda: EncoderLayer(make_config()),
    "decoder": lambda: Decoder(make_config()),
    "decoder layer": lambda: DecoderLayer(make_config()),
    "attention": lambda: MultiHeadAttention(6, 2, 3, 3),
    "restricted": lambda: RestrictedSelfAttention(6, 2, 3, 3, window=3, causal=False),
}
WRONG_INPUTS = {
    "token ids": (TOKENS, "expected ndim=3, found ndim=2"),
    "symbolic ids": (keras.Input((None,), dtype="int32"), "found ndim=2"),
    "rank 4": (np.zeros((2, 3, 5, 6), "float32"), "expected ndim=3, found ndim=4"),
    "other width": (np.zeros((2, 5, 7), "float32"), "expected axis -1 .* value 6"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
@pytest.mark.parametrize("make", SEQUENCE_LAYERS.values(), ids=SEQUENCE_LAYERS)
def test_a_layer_names_inputs_of_another_shape(make, name):
    """In Keras's words, before anything is computed."""
    inputs, message = WRONG_INPUTS[name]
    with pytest.raises(ValueError, match=f"Input 0 .*{message}") as raised:
        make()(inputs)
    assert "\n" not in str(raised.value)
