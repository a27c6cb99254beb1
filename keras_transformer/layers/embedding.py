"""Token embeddings and the pre-softmax map with the same matrix, §3.4."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers import masks
from keras_transformer.layers.initialization import initializer_unless_skipped
from keras_transformer.layers.linear import (
    flatten_positions,
    matmul_transpose_b,
    reshape,
)
from keras_transformer.layers.masked_layer import MaskedLayer

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
class TokenEmbedding(MaskedLayer):
    """Embedding scaled by sqrt(d_model), §3.4; its matrix can also compute the logits.

    The matrix is initialized with N(0, 1 / d_model), so scaled embeddings and logits of
    normalized outputs have unit variance.

    Args:
        vocab_size: Number of subwords.
        d_model: Width of an embedding (paper: d_model).
        use_output_bias: Whether `logits` adds a bias.
        mask_zero: Whether padding gets a Keras mask, which the layers that follow use.
        pad_id: The id of padding; 0 in Keras's `Embedding`.

    Call arguments:
        tokens: int32 `[batch, length]`, ids in [0, vocab_size); also as float32, which
            `keras.Input` has unless told.
        reverse: Whether to return `logits(tokens)` instead, `tokens` being float
            `[batch, length, d_model]`: for models on `keras.Input`.

    Returns:
        float `[batch, length, d_model]`, in the compute dtype.

    Raises:
        ValueError: If a size is below 1, or `tokens` are float16 or bfloat16.

    Examples:
        >>> embedding = kt.layers.TokenEmbedding(vocab_size=11, d_model=8)
        >>> embedded = embedding(np.array([[5, 3, 2]]))
        >>> embedded.shape.as_list(), embedding.logits(embedded).shape.as_list()
        ([1, 3, 8], [1, 3, 11])
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        use_output_bias: bool = False,
        mask_zero: bool = False,
        pad_id: int = config_lib.PAD_ID,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = config_lib.check_at_least("vocab_size", vocab_size, 1)
        self.d_model = config_lib.check_at_least("d_model", d_model, 1)
        self.use_output_bias = use_output_bias
        self.mask_zero = mask_zero
        self.pad_id = pad_id

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

    def call(self, tokens, reverse=False):
        if reverse:
            return self.logits(tokens)
        tokens = self._as_integers(tokens)
        vectors = ops.take(self.embeddings, tokens, axis=0)
        return vectors * ops.cast(math.sqrt(self.d_model), vectors.dtype)

    def compute_mask(self, tokens, mask=None):
        mask = super().compute_mask(tokens, mask)
        has_features = keras.backend.is_float_dtype(tokens.dtype)
        is_reverse = has_features and len(tokens.shape) > 2
        if not self.mask_zero or is_reverse:
            return mask
        return masks.combined(masks.padding_mask(tokens, self.pad_id), mask)

    def compute_output_shape(self, tokens_shape, reverse=False):
        if reverse:
            return (*tokens_shape[:-1], self.vocab_size)
        return (*tokens_shape, self.d_model)

    def compute_output_spec(self, tokens, reverse=False):
        if not reverse:
            self._as_integers(tokens)
        return keras.KerasTensor(
            self.compute_output_shape(tokens.shape, reverse),
            "float32" if reverse else self.compute_dtype,
        )

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

    def _as_integers(self, tokens):
        """Return tokens as integers; `Sequential` and `keras.Input` make them float32.

        Floats of 16 bits are refused: they have rounded ids of more than 8 or 11 bits.
        """
        dtype = keras.backend.standardize_dtype(tokens.dtype)
        if dtype in ("float16", "bfloat16"):
            raise ValueError(
                f"`tokens` must be integers. Received: dtype={dtype}, which has "
                "rounded large ids. Begin the model with keras.Input(shape, "
                'dtype="int32"). For logits of floats, pass reverse=True.'
            )
        return ops.cast(tokens, "int32") if "float" in dtype else tokens

    def save_own_variables(self, store):
        for number, variable in enumerate(self.weights):
            store[str(number)] = _Uncopied(np.asarray(variable.value.read_value()))

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "use_output_bias": self.use_output_bias,
            "mask_zero": self.mask_zero,
            "pad_id": self.pad_id,
        }
