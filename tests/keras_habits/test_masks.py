"""Masks as a Keras user has them: of embeddings, by name, of attention."""

import keras
import numpy as np
import pytest

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.positional_encoding import PositionalEncoding
from tests.keras_habits.models import VOCAB_SIZE, arrays, make_config

TOKENS, _ = arrays()
IS_REAL = TOKENS != 0
FEATURES = np.random.default_rng(3).normal(size=(6, 5, 6)).astype("float32")
STACKS = {
    "encoder": lambda: Encoder(make_config()),
    "pre-norm encoder": lambda: Encoder(make_config(norm_placement="pre")),
    "restricted encoder": lambda: Encoder(make_config(attention_window=3)),
    "encoder layer": lambda: EncoderLayer(make_config()),
    "decoder": lambda: Decoder(make_config()),
    "attention": lambda: MultiHeadAttention(6, 2, key_dim=3, value_dim=3),
}
EMBEDDINGS = {
    "of Keras": lambda: keras.layers.Embedding(VOCAB_SIZE, 6, mask_zero=True),
    "ours": lambda: TokenEmbedding(VOCAB_SIZE, 6, mask_zero=True),
}


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("stack", STACKS)
def test_a_mean_over_masked_outputs_does_not_depend_on_padding(stack, embedding):
    """Ten zeros changed it by 1.1."""
    tokens = keras.Input((None,), dtype="int32")
    x = PositionalEncoding(6)(EMBEDDINGS[embedding]()(tokens))
    x, *_ = STACKS[stack]()(x)
    model = keras.Model(tokens, keras.layers.GlobalAveragePooling1D()(x))
    longer = np.pad(TOKENS, ((0, 0), (0, 10)))
    np.testing.assert_allclose(model(longer), model(TOKENS), atol=1e-5)


@pytest.mark.parametrize("stack", ["encoder", "encoder layer", "attention"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_a_mask_of_zeros_and_ones_is_a_mask_in_every_dtype(stack, dtype):
    """Floats were added to the logits, integers failed."""
    layer = STACKS[stack]()
    pairs = np.broadcast_to(IS_REAL[:, None], (6, 5, 5))
    expected, *_ = layer(FEATURES, attention_mask=pairs)
    outputs, *_ = layer(FEATURES, attention_mask=pairs.astype(dtype))
    np.testing.assert_array_equal(outputs, expected)
    assert not np.allclose(expected, layer(FEATURES)[0])


@pytest.mark.parametrize("stack", ["encoder", "restricted encoder", "attention"])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_mask_of_padding_is_not_taken_for_one_of_attention(stack, batch):
    """[batch, length] was, where batch is 1 or the number of heads."""
    sequence = FEATURES[:batch]
    mask = np.ones((batch, 5), bool)
    layer = STACKS[stack]()
    if batch > 1:  # a single row means the same for every query
        with pytest.raises(ValueError, match="`attention_mask` must have the shape"):
            layer(sequence, attention_mask=mask)
    given = {"query_mask": mask} if stack == "attention" else {"mask": mask}
    outputs, *_ = layer(sequence, **given)
    np.testing.assert_array_equal(outputs, layer(sequence)[0])


@pytest.mark.parametrize("shape", [(6, 5, 5), (6, 4), (6, 1), (5,)])
def test_a_mask_of_attention_is_not_taken_for_one_of_padding(shape):
    expected = r"must have the shape \[batch, length\]. Received: shape=\("
    mask = np.ones(shape, bool)
    with pytest.raises(ValueError, match=expected):
        STACKS["encoder"]()(FEATURES, mask=mask)
    with pytest.raises(ValueError, match=expected):
        STACKS["attention"]()(FEATURES, value_mask=mask)


def test_a_sequential_model_begins_with_our_embedding():
    """It has no `keras.Input`, so Keras makes the tokens float32."""
    model = keras.Sequential(
        [
            TokenEmbedding(VOCAB_SIZE, 6, mask_zero=True),
            PositionalEncoding(6),
            keras.layers.GlobalAveragePooling1D(),
        ]
    )
    longer = np.pad(TOKENS, ((0, 0), (0, 10)))
    np.testing.assert_allclose(model(longer), model(TOKENS), atol=1e-5)
    expected = model.layers[0](TOKENS.astype("int64"))
    np.testing.assert_array_equal(model.layers[0](TOKENS.astype("float32")), expected)


def test_tokens_that_half_precision_has_rounded_are_refused():
    """Of `keras.Input` without a dtype, under a policy of mixed precision."""
    for dtype in ("mixed_float16", "mixed_bfloat16"):
        embedding = TokenEmbedding(VOCAB_SIZE, 6, dtype=dtype)
        with pytest.raises(ValueError, match="`tokens` must be integers. .*=b?float16"):
            embedding(keras.Input((None,)))
        assert embedding(keras.Input((None,), dtype="int32")).shape == (None, None, 6)
