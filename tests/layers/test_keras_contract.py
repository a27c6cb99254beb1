"""Keras's own test of layers, passed by each public layer."""

import keras
import numpy as np
import pytest
from keras.src import testing
from keras.src.testing import test_case

from keras_transformer import saved_classes
from keras_transformer.config import ModelConfig
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

SIZES = {"vocab_size": 13, "num_layers": 2, "d_model": 6, "d_ff": 7, "num_heads": 2}
CONFIG = ModelConfig(**SIZES)
PRE_NORM = ModelConfig(**SIZES, norm_placement="pre")
WINDOW = ModelConfig(**SIZES, attention_window=3)
HEADS = {"d_model": 6, "num_heads": 2, "key_dim": 5, "value_dim": 13}
SEQUENCE, WEIGHTS = (3, 5, 6), (3, 2, 5, 5)
BLOCKS = (3, 2, 5, 1, 3)  # 5 blocks of 1 query, which sees 3 keys

pytestmark = [
    pytest.mark.long,
    # Keras's test trains on a generator, also layers without weights.
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
    pytest.mark.filterwarnings("ignore:The model does not have any trainable weights"),
]

# Layers of one sequence: class, arguments, shapes of the outputs.
LAYERS = {
    "attention": (MultiHeadAttention, HEADS, (SEQUENCE, WEIGHTS)),
    "restricted attention": (
        *(RestrictedSelfAttention, {**HEADS, "window": 3}),
        (SEQUENCE, BLOCKS),
    ),
    "feed-forward": (FeedForward, {"d_model": 6, "d_ff": 7}, SEQUENCE),
    "layer norm": (LayerNormalization, {}, SEQUENCE),
    "dropout": (Dropout, {"rate": 0.5}, SEQUENCE),
    "sinusoids": (PositionalEncoding, {"d_model": 6}, SEQUENCE),
    "learned positions": (
        *(PositionalEncoding, {"d_model": 6, "encoding": "learned"}),
        SEQUENCE,
    ),
    "encoder layer": (EncoderLayer, {"config": CONFIG}, (SEQUENCE, WEIGHTS)),
    "restricted encoder layer": (
        *(EncoderLayer, {"config": WINDOW}),
        (SEQUENCE, BLOCKS),
    ),
    "encoder": (Encoder, {"config": PRE_NORM}, (SEQUENCE, [WEIGHTS] * 2)),
    "causal encoder": (
        *(Encoder, {"config": CONFIG, "causal": True}),
        (SEQUENCE, [WEIGHTS] * 2),
    ),
    "decoder layer alone": (DecoderLayer, {"config": CONFIG}, (SEQUENCE, WEIGHTS)),
    "decoder alone": (Decoder, {"config": PRE_NORM}, (SEQUENCE, [WEIGHTS] * 2)),
}
# Layers of two: the name of the second, whose length is 7.
LAYERS_OF_TWO = {
    "attention": (MultiHeadAttention, HEADS, ("query", "source")),
    "residual": (Residual, {}, ("inputs", "output")),
    "decoder layer": (DecoderLayer, {"config": CONFIG}, ("inputs", "encoder_output")),
    "decoder": (Decoder, {"config": PRE_NORM}, ("inputs", "encoder_output")),
}


@pytest.fixture
def masked_inputs(monkeypatch):
    """Keras's test makes symbolic inputs without masks: give them some."""
    create = test_case.create_keras_tensors

    def create_with_masks(*arguments):
        tensor = create(*arguments)
        tensor._keras_mask = keras.KerasTensor(tensor.shape[:2], "bool")
        return tensor

    monkeypatch.setattr(test_case, "create_keras_tensors", create_with_masks)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_one_sequence_passes_the_test_of_keras(name, masked_inputs):
    layer_class, arguments, output_shape = LAYERS[name]
    # Keras's training check cannot compare lists inside a tuple of outputs.
    is_nested = isinstance(output_shape[1], list)
    testing.TestCase().run_layer_test(
        layer_class,
        arguments,
        input_data=np.ones(SEQUENCE, "float32"),
        expected_output_shape=output_shape,
        supports_masking=True,
        expected_mask_shape=(3, 5),
        run_training_check=not is_nested,
    )


def test_an_embedding_passes_the_test_of_keras():
    testing.TestCase().run_layer_test(
        TokenEmbedding,
        {"vocab_size": 13, "d_model": 6, "mask_zero": True},
        input_data=np.arange(15).reshape(3, 5) % 7,
        expected_output_shape=SEQUENCE,
        expected_num_trainable_weights=1,
        supports_masking=True,
        expected_mask_shape=(3, 5),
    )


@pytest.mark.parametrize("name", LAYERS_OF_TWO)
def test_a_layer_of_two_sequences_passes_the_test_of_keras(name):
    """Keras's check of training calls a layer with one argument."""
    layer_class, arguments, names = LAYERS_OF_TWO[name]
    length = 5 if layer_class is Residual else 7
    shapes = {f"{names[0]}_shape": SEQUENCE, f"{names[1]}_shape": (3, length, 6)}
    outputs = layer_class(**arguments).compute_output_shape(*shapes.values())
    testing.TestCase().run_layer_test(
        layer_class,
        arguments,
        input_shape=shapes,
        expected_output_shape=outputs,
        supports_masking=True,
        run_training_check=False,
    )


def test_no_public_layer_is_left_out():
    tested = {row[0] for row in (*LAYERS.values(), *LAYERS_OF_TWO.values())}
    public = {
        name
        for name, module in saved_classes.MODULES.items()
        if module.startswith("layers.")
    }
    assert {each.__name__ for each in tested} | {"TokenEmbedding"} == public
