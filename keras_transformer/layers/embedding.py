"""Token embeddings and the pre-softmax map with the same matrix, §3.4."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers.initialization import initializer_unless_skipped
from keras_transformer.layers.linear import (
    flatten_positions,
    matmul_transpose_b,
    reshape,
)

Tensor = Any


class _Uncopied:
    """An array that `np.array` does not copy.

    Keras saves `np.array` of each variable, and the embedding is the largest. NumPy
    leaves it to `__array__` whether to copy.
    """

    def __init__(self, array: np.ndarray):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Embedding scaled by sqrt(d_model), §3.4; its matrix can also compute the logits.

    The matrix is initialized with N(0, 1 / d_model), so scaled embeddings and logits of
    normalized outputs have unit variance.

    Args:
        vocab_size: Number of subwords.
        d_model: Width of an embedding (paper: d_model).
        use_output_bias: Whether `logits` adds a bias.

    Call arguments:
        tokens: int32 `[batch, length]`, ids in [0, vocab_size).

    Returns:
        float `[batch, length, d_model]`, in the compute dtype.

    Raises:
        ValueError: If a size is below 1.
    """

    def __init__(
        self, vocab_size: int, d_model: int, use_output_bias: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        config_lib.check_at_least("vocab_size", vocab_size, 1)
        config_lib.check_at_least("d_model", d_model, 1)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.use_output_bias = use_output_bias

    def build(self, tokens_shape=None):
        self.embeddings = self.add_weight(
            shape=(self.vocab_size, self.d_model),
            initializer=initializer_unless_skipped(
                keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
            ),
            name="embeddings",
        )
        self.output_bias = None
        if self.use_output_bias:
            self.output_bias = self.add_weight(
                shape=(self.vocab_size,), initializer="zeros", name="output_bias"
            )
        self.built = True

    def call(self, tokens):
        vectors = ops.take(self.embeddings, tokens, axis=0)
        return vectors * ops.cast(math.sqrt(self.d_model), vectors.dtype)

    def logits(self, inputs: Tensor) -> Tensor:
        """Map decoder outputs to unnormalized scores of the vocabulary.

        Args:
            inputs: float `[batch, length, d_model]`.

        Returns:
            float32 `[batch, length, vocab_size]`; the product itself runs in the
            compute dtype.
        """
        vectors = flatten_positions(ops.cast(inputs, self.compute_dtype))
        table = ops.cast(self.embeddings, self.compute_dtype)
        logits = ops.cast(matmul_transpose_b(vectors, table), "float32")
        logits = reshape(logits, (*ops.shape(inputs)[:-1], self.vocab_size))
        if self.output_bias is None:
            return logits
        return logits + ops.cast(self.output_bias, "float32")

    def save_own_variables(self, store):
        for number, variable in enumerate(self.weights):
            store[str(number)] = _Uncopied(np.asarray(variable.value.read_value()))

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "use_output_bias": self.use_output_bias,
        }
