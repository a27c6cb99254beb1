"""Token embeddings and the pre-softmax map that shares their matrix, §3.4."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers import panels as panels_lib
from keras_transformer.layers import products, rows
from keras_transformer.layers.initialization import drawn
from keras_transformer.layers.panels import Panels

Tensor = Any

# So many rows, or fewer, `logits` takes through panels. With 37,000 x 512 weights in
# float32, TensorFlow on two cores with AVX2 maps 4 rows so in 4.2 ms instead of 6.5, 16
# in 6.6 instead of 8.4; 128 would take 33 instead of 31.
FEW_ROWS = 16


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Embedding scaled by sqrt(d_model), §3.4; its matrix can give the logits too.

    The matrix starts as N(0, 1 / d_model), so that scaled embeddings have unit variance
    and the logits of normalized outputs do too.

    Args:
        vocab_size: Number of words.
        d_model: Width of an embedding (paper: d_model).
        use_output_bias: Whether `logits` adds a bias a word.

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
            initializer=drawn(
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

    def panels(self) -> Panels:
        """Cut the matrix for the `logits` of few rows."""
        return panels_lib.cut_transposed(self._table())

    def logits(self, inputs: Tensor, panels: Panels | None = None) -> Tensor:
        """Map decoder outputs to unnormalized scores of the vocabulary.

        Args:
            inputs: float `[..., d_model]`.
            panels: From `panels`, for the few rows of a step of a search; None: the
                matrix is read as it is.

        Returns:
            float32 `[..., vocab_size]`; the product itself runs in the
            compute dtype.
        """
        vectors = rows.flat(ops.cast(inputs, self.compute_dtype))
        if panels is not None:
            logits = ops.cond(
                ops.shape(vectors)[0] <= FEW_ROWS,
                lambda: panels_lib.mapped(vectors, panels)[:, : self.vocab_size],
                lambda: self._product(vectors),
            )
        elif len(inputs.shape) == 2:
            logits = self._product(vectors)
        else:
            logits = products.with_transposed(vectors, self._table())
        logits = rows.unflat(ops.cast(logits, "float32"), like=inputs)
        if self.output_bias is None:
            return logits
        return logits + ops.cast(self.output_bias, "float32")

    def _table(self) -> Tensor:
        return ops.cast(self.embeddings, self.compute_dtype)

    def _product(self, vectors: Tensor) -> Tensor:
        """Multiply the rows of a search, as a batch of one.

        On a CPU, TensorFlow's plain product with a transposed matrix takes half as long
        again (128 rows, 37,000 words).
        """
        return products.with_transposed(ops.expand_dims(vectors, 0), self._table())[0]

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "use_output_bias": self.use_output_bias,
        }
