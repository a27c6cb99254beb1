"""The position-wise feed-forward network, §3.3."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers import panels as panels_lib
from keras_transformer.layers import rows
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initialization import drawn
from keras_transformer.layers.panels import Panels

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """Position-wise feed-forward network, §3.3, Eq. 2.

    Applies the same two linear maps at every position: widen to `d_ff`, ReLU, return to
    `d_model`.

    Args:
        d_model: Width of the input and output (paper: d_model).
        d_ff: Width of the hidden layer (paper: d_ff).
        dropout_rate: Share of hidden activations dropped while training, in [0, 1).

    Call arguments:
        inputs: float `[batch, length, d_model]`.

    Returns:
        float `[batch, length, d_model]`, in the compute dtype. Padded positions are
        computed and carry no meaning.

    Raises:
        ValueError: If `d_model` or `d_ff` is below 1, or `dropout_rate` is outside
            [0, 1).

    Differs from the paper: dropout on the hidden activation, off by default.
    """

    def __init__(self, d_model: int, d_ff: int, dropout_rate: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        config_lib.check_at_least("d_model", d_model, 1)
        config_lib.check_at_least("d_ff", d_ff, 1)
        config_lib.check_rate("dropout_rate", dropout_rate)
        self.d_model = d_model
        self.d_ff = d_ff
        self.dropout_rate = dropout_rate

    def build(self, inputs_shape):
        self.hidden = keras.layers.Dense(
            self.d_ff,
            activation="relu",
            kernel_initializer=drawn("glorot_uniform"),
            dtype=self.dtype_policy,
            name="hidden",
        )
        self.dropout = Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        self.output_projection = keras.layers.Dense(
            self.d_model,
            kernel_initializer=drawn("glorot_uniform"),
            dtype=self.dtype_policy,
            name="output",
        )
        self.hidden.build((None, self.d_model))
        self.output_projection.build((None, self.d_ff))
        self.built = True

    def call(self, inputs, training=None):
        hidden = self.hidden(rows.flat(inputs))
        hidden = self.dropout(hidden, training=training)
        return rows.unflat(self.output_projection(hidden), like=inputs)

    def panels(self) -> tuple[Panels, Panels]:
        """Cut both maps for `step`."""
        return tuple(
            panels_lib.cut([layer], unit=layer.units)
            for layer in (self.hidden, self.output_projection)
        )

    def step(self, inputs: Tensor, panels: tuple[Panels, Panels]) -> Tensor:
        """Map one token of each hypothesis.

        Args:
            inputs: float `[rows, d_model]`.
            panels: From `panels`.

        Returns:
            float `[rows, d_model]`.
        """
        for_hidden, for_output = panels
        hidden = ops.relu(panels_lib.mapped(inputs, for_hidden))
        return panels_lib.mapped(hidden, for_output)

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "dropout_rate": self.dropout_rate,
        }
