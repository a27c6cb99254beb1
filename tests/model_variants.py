"""Small models with every option of the config, and a batch of pairs for them."""

import keras
import numpy as np
import pytest

from keras_transformer.config import ModelConfig
from keras_transformer.model.transformer import Transformer

SOURCE = np.array([[4, 5, 12, 7, 3], [8, 9, 3, 0, 0], [6, 3, 0, 0, 0]], "int32")
TARGET = np.array(
    [[5, 4, 6, 11, 10, 7, 3], [8, 9, 4, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0]], "int32"
)
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"norm_placement": "pre"},
    "learned positions": {"position_encoding": "learned", "num_positions": 19},
    "separate vocabularies": {
        "share_embeddings": False,
        "target_vocab_size": 17,
        "output_bias": True,
        "attention_bias": True,
    },
    "two matrices": {
        "share_embeddings": False,
        "share_decoder_embeddings": True,
        "target_vocab_size": 17,
        "output_bias": True,
    },
    "own head sizes": {"key_dim": 5, "value_dim": 11},
    "heads of whole words": {"key_dim": 4, "value_dim": 8},
    "restricted attention": {"attention_window": 3},
    "halves from 1": {"position_layout": "halves", "first_position": 1},
    "one layer": {"num_layers": 1},
    "as in Marian": {
        "activation": "silu",
        "num_decoder_layers": 1,
        "decoder_d_ff": 11,
        "position_layout": "concatenated",
        "normalize_embeddings": True,
        "zero_first_input": True,
    },
    "gelu in a deep decoder": {
        "activation": "gelu",
        "num_encoder_layers": 1,
        "num_decoder_layers": 3,
        "encoder_d_ff": 5,
        "norm_placement": "pre",
    },
}
# For tests that save or trace each model: all variants, a few of them in quick tests.
FEW_QUICK = [
    pytest.param(
        fields,
        id=name,
        marks=[]
        if name in ("post-norm", "separate vocabularies", "as in Marian")
        else pytest.mark.release,
    )
    for name, fields in VARIANTS.items()
]


def make(**fields):
    """A small model of distinct sizes whose every weight is random."""
    keras.utils.set_random_seed(11)
    sizes = {"vocab_size": 13, "num_layers": 2, "d_model": 6, "d_ff": 7, "num_heads": 2}
    model = Transformer(ModelConfig(**{**sizes, **fields}))
    draw = np.random.default_rng(5)
    for weight in model.trainable_weights:
        weight.assign(weight.numpy() + 0.3 * draw.normal(size=weight.shape))
    return model
