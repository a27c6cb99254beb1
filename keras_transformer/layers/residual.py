"""Dropout, addition and normalization around every sub-layer, §3.1 and §5.4."""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer import config as config_lib
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.layer_norm import LayerNormalization
from keras_transformer.layers.masked_layer import MaskedLayer

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(MaskedLayer):
    """Residual connection, dropout and layer normalization around a sub-layer.

    A layer calls `output = sublayer(residual.sublayer_input(x))`, then
    `residual(x, output)`:

    *   post-norm (the paper's): LayerNorm(x + Dropout(Sublayer(x)));
    *   pre-norm: x + Dropout(Sublayer(LayerNorm(x))).

    Args:
        norm_placement: "post" or "pre".
        dropout_rate: Share of the sub-layer's output dropped while training, in [0, 1)
            (paper: P_drop).
        epsilon: Added to the variance in the layer normalization.

    Call arguments:
        inputs: float `[batch, length, d_model]`: x.
        output: float `[batch, length, d_model]`: the sub-layer's output.

    Returns:
        float `[batch, length, d_model]`.

    Raises:
        ValueError: If `norm_placement` is unknown, or `dropout_rate` is outside [0, 1).

    Examples:
        >>> residual, sublayer = kt.layers.Residual(), keras.layers.Dense(8)
        >>> inputs = keras.ops.ones([3, 5, 8])
        >>> output = sublayer(residual.sublayer_input(inputs))
        >>> residual(inputs, output).shape.as_list()
        [3, 5, 8]
    """

    def __init__(
        self,
        norm_placement: str = "post",
        dropout_rate: float = 0.1,
        epsilon: float = 1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        config_lib.check_choice(
            "norm_placement", norm_placement, config_lib.NORM_PLACEMENTS
        )
        config_lib.check_rate("dropout_rate", dropout_rate)
        self.norm_placement = norm_placement
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon

    def build(self, inputs_shape, output_shape=None):
        self.norm = LayerNormalization(
            self.epsilon, dtype=self.dtype_policy, name="norm"
        )
        self.norm.build(inputs_shape)
        self.dropout = Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        self.built = True

    def sublayer_input(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Return the input of the sub-layer, float `[batch, length, d_model]`."""
        if self.norm_placement == "post":
            return inputs
        return self.norm(inputs, training=training)

    def call(self, inputs, output, training=None):
        total = inputs + self.dropout(output, training=training)
        if self.norm_placement == "pre":
            return total
        return self.norm(total, training=training)

    def compute_output_shape(self, inputs_shape, output_shape=None):
        return super().compute_output_shape(inputs_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "norm_placement": self.norm_placement,
            "dropout_rate": self.dropout_rate,
            "epsilon": self.epsilon,
        }
