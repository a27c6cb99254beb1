"""A small model and arrays, as a Keras user would make them in a notebook."""

import keras
import numpy as np

import keras_transformer as kt

VOCAB_SIZE = 13


def make_model(**fields):
    """Return a model of one layer; equal weights each time."""
    dtype = fields.pop("dtype", None)
    keras.utils.set_random_seed(7)
    return kt.Transformer(make_config(**fields), dtype=dtype)


def make_config(**fields):
    """Return the configuration of `make_model`."""
    sizes = {"vocab_size": VOCAB_SIZE, "d_model": 6, "d_ff": 7, "num_heads": 2}
    return kt.ModelConfig(**{"num_layers": 1, "dropout_rate": 0.0, **sizes, **fields})


def compiled(optimizer="sgd", loss=None, dtype=None, **options):
    """Return a compiled model."""
    model = make_model(dtype=dtype)
    model.compile(optimizer, loss or kt.LabelSmoothedCrossEntropy(0.1), **options)
    return model


def arrays(rows=6, length=5, seed=0):
    """Return sources and targets, some of them with padding."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(4, VOCAB_SIZE, (2, rows, length)).astype("int32")
    tokens[:, ::2, -2:] = 0
    return tokens[0], tokens[1]
