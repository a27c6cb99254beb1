"""Scaled dot-product and multi-head attention, §3.2."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers import masks
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initialization import initializer_unless_skipped
from keras_transformer.layers.linear import (
    flatten_positions,
    matmul_transpose_b,
    reshape,
)
from keras_transformer.layers.masked_layer import MaskedLayer, sequence_spec

Tensor = Any

# Added to the logits of masked positions. Finite, so that a fully masked row does not
# give NaN; low enough that a masked weight is exactly zero in float32.
MASKED_LOGIT = -1e9


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    mask_term: Tensor | None = None,
    has_transposed_key: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute softmax(Q K^T / sqrt(d_k)) V for every head, Eq. 1.

    The softmax runs in float32 for every dtype of the inputs.

    Args:
        query: float `[batch, heads, query_length, key_dim]`.
        key: float `[batch, heads, key_length, key_dim]`.
        value: float `[batch, heads, key_length, value_dim]`.
        attention_mask: bool, broadcasts to `[batch, query_length, key_length]` or
            `[batch, heads, query_length, key_length]`, True = may attend. The weights
            of a fully masked query are finite but meaningless.
        dropout: Applied to the weights; the paper does not use it.
        mask_term: In place of `attention_mask`, what `added_mask` makes of it.
        has_transposed_key: Whether `key` is `[batch, heads, key_dim, key_length]`.

    Returns:
        The outputs, float `[batch, heads, query_length, value_dim]`, and the weights,
        float `[batch, heads, query_length, key_length]`, both in the inputs' dtype.
    """
    scale = 1.0 / math.sqrt(query.shape[-1])
    multiply = ops.matmul if has_transposed_key else matmul_transpose_b
    logits = multiply(query * ops.cast(scale, query.dtype), key)
    logits = ops.cast(logits, "float32")
    if attention_mask is not None:
        mask_term = added_mask(attention_mask)
    if mask_term is not None:
        logits = logits + mask_term
    if logits.shape[-1] == 1:  # one key; Keras's softmax would warn
        weights = ops.ones_like(logits)
    else:
        weights = ops.softmax(logits, axis=-1)
    weights = ops.cast(weights, query.dtype)
    dropped = weights if dropout is None else dropout(weights)
    return ops.matmul(dropped, value), weights


def added_mask(attention_mask: Tensor) -> Tensor:
    """Convert a mask to a term that is added to the logits of all heads.

    An addition takes one pass over the logits and none in the gradient.

    Args:
        attention_mask: bool `[batch, query_length, key_length]` or `[batch, heads,
            query_length, key_length]`, True = may attend.

    Returns:
        float32 `[batch, heads, query_length, key_length]`; `heads` is 1 where the mask
        has no such axis.
    """
    hidden = ops.where(attention_mask, ops.cast(0.0, "float32"), MASKED_LOGIT)
    return hidden if len(hidden.shape) == 4 else ops.expand_dims(hidden, 1)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(MaskedLayer):
    """Multi-head attention, §3.2.2: Concat(head_1, ..., head_h) W^O.

    Args:
        d_model: Width of inputs and outputs (paper: d_model).
        num_heads: Number of heads (paper: h).
        key_dim: Width of a head's queries and keys (paper: d_k).
        value_dim: Width of a head's values (paper: d_v).
        use_bias: Whether the four projections have a bias; not in the paper.
        dropout_rate: Share of attention weights dropped while training, in [0, 1); 0
            in the paper's translation models.

    Call arguments:
        query: float `[batch, query_length, d_model]`.
        source: Sequence to attend to, float `[batch, key_length, d_model]`; None: the
            query itself (self-attention).
        attention_mask: `[query_length, key_length]`, `[batch, query_length,
            key_length]` or `[batch, heads, query_length, key_length]`, bool, integers
            or floats of 0 and 1; True or 1 = may attend.
        query_mask, value_mask, key_mask: bool `[batch, length]`, True = real token;
            None: the masks that Keras keeps at `query` and `source`. Padding of the
            source is hidden; the output has the mask of the query.
        use_causal_mask: Whether a position attends to itself and earlier ones only.
        training: Whether dropout is active.

    Returns:
        float `[batch, query_length, d_model]`, and the attention weights, float
        `[batch, heads, query_length, key_length]`.

    Raises:
        ValueError: If a size is below 1, `dropout_rate` is outside [0, 1), or
            `attention_mask` has another shape.

    Examples:
        >>> attention = kt.layers.MultiHeadAttention(
        ...     8, num_heads=2, key_dim=4, value_dim=4
        ... )
        >>> output, weights = attention(np.ones([3, 7, 8]), np.ones([3, 5, 8]))
        >>> output.shape.as_list(), weights.shape.as_list()
        ([3, 7, 8], [3, 2, 7, 5])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        key_dim: int,
        value_dim: int,
        use_bias: bool = False,
        dropout_rate: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        config_lib.check_rate("dropout_rate", dropout_rate)
        self.d_model = config_lib.check_at_least("d_model", d_model, 1)
        self.num_heads = config_lib.check_at_least("num_heads", num_heads, 1)
        self.key_dim = config_lib.check_at_least("key_dim", key_dim, 1)
        self.value_dim = config_lib.check_at_least("value_dim", value_dim, 1)
        self.use_bias = use_bias
        self.dropout_rate = dropout_rate
        self.input_spec = sequence_spec(self.d_model)

    def build(self, query_shape, source_shape=None):
        # One matrix for all heads: [d_model, heads * width].
        heads = self.num_heads
        self.query_projection = self._linear(
            self.d_model, heads * self.key_dim, "query"
        )
        self.key_projection = self._linear(self.d_model, heads * self.key_dim, "key")
        self.value_projection = self._linear(
            self.d_model, heads * self.value_dim, "value"
        )
        self.output_projection = self._linear(
            heads * self.value_dim, self.d_model, "output"
        )
        self.dropout = Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        self.built = True

    def call(
        self,
        query,
        source=None,
        attention_mask=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        use_causal_mask=False,
        training=None,
    ):
        query = masks.masked(query, query_mask)
        source = query if source is None else source
        if value_mask is None:
            value_mask = masks.keras_mask(source)
        key, value = self.project_source(source)
        heads, weights = self.attend(
            self._heads(self.query_projection, query),
            key,
            value,
            self._keep(
                query, source, attention_mask, (value_mask, key_mask), use_causal_mask
            ),
            lambda weights: self.dropout(weights, training=training),
        )
        output = self.output_projection(self._join_heads(heads))
        output = reshape(output, (*ops.shape(query)[:2], self.d_model))
        return masks.masked(output, query_mask), weights

    def compute_output_shape(self, query_shape, source_shape=None):
        batch, length, _ = query_shape
        key_length = length if source_shape is None else source_shape[1]
        weights_shape = (batch, self.num_heads, length, key_length)
        return (batch, length, self.d_model), weights_shape

    def project_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Compute keys and values of the sequence to attend to.

        Args:
            source: float `[batch, key_length, d_model]`.

        Returns:
            The keys, float `[batch, heads, key_length, key_dim]`, and the values,
            float `[batch, heads, key_length, value_dim]`.
        """
        return (
            self._heads(self.key_projection, source),
            self._heads(self.value_projection, source),
        )

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Apply Eq. 1 to every head; see `scaled_dot_product_attention`."""
        return scaled_dot_product_attention(query, key, value, attention_mask, dropout)

    def full_weights(self, weights: Tensor, length: int | Tensor) -> Tensor:
        """Return weights as `[batch, heads, query_length, key_length]`.

        Args:
            weights: The weights returned by `call`.
            length: Number of keys.
        """
        return weights

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "use_bias": self.use_bias,
            "dropout_rate": self.dropout_rate,
        }

    def _keep(self, query, source, attention_mask, padding_masks, is_causal):
        """Combine masks to one, bool, broadcasts to `[batch, heads, query, key]`."""
        parts = [] if attention_mask is None else [attention_mask]
        for mask in padding_masks:
            if mask is not None:
                masks.check_padding_mask(mask, source)
                parts.append(masks.key_mask(mask))
        if is_causal:
            parts.append(masks.causal_mask(query, source))
        return masks.combined(
            *(masks.with_heads(part, query, source, self.num_heads) for part in parts)
        )

    def _linear(self, width_in: int, width_out: int, name: str) -> keras.layers.Dense:
        # Half of Glorot's range (the paper does not say). With the full range,
        # untrained attention adds nearly the same large vector at every position, which
        # post-norm layers pass on: the encoder may never learn to distinguish
        # positions.
        layer = keras.layers.Dense(
            width_out,
            use_bias=self.use_bias,
            kernel_initializer=initializer_unless_skipped(
                keras.initializers.VarianceScaling(
                    0.25, mode="fan_avg", distribution="uniform"
                )
            ),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, width_in))
        return layer

    def _heads(self, projection: keras.layers.Dense, inputs: Tensor) -> Tensor:
        """Project `[batch, length, d_model]` to `[batch, heads, length, width]`."""
        projected = projection(flatten_positions(inputs))
        width = projection.units // self.num_heads
        sizes = (*ops.shape(inputs)[:2], self.num_heads, width)
        return ops.transpose(reshape(projected, sizes), (0, 2, 1, 3))

    def _join_heads(self, heads: Tensor) -> Tensor:
        """`[batch, heads, length, width]` -> `[batch * length, heads * width]`."""
        width = self.num_heads * self.value_dim
        return ops.reshape(ops.transpose(heads, (0, 2, 1, 3)), (-1, width))
