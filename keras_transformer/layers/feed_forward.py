"""The position-wise feed-forward network, §3.3."""

from __future__ import annotations

import keras
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initialization import initializer_unless_skipped
from keras_transformer.layers.linear import flatten_positions, reshape
from keras_transformer.layers.masked_layer import MaskedLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(MaskedLayer):
    """Position-wise feed-forward network, §3.3, Eq. 2.

    Applies the same two linear maps at every position: widen to `d_ff`, activation,
    return to `d_model`.

    Args:
        d_model: Width of the input and output (paper: d_model).
        d_ff: Width of the hidden layer (paper: d_ff).
        dropout_rate: Share of hidden activations dropped while training, in [0, 1).
        activation: "relu" (the paper's), "silu" or "gelu".

    Call arguments:
        inputs: float `[batch, length, d_model]`.

    Returns:
        float `[batch, length, d_model]`, in the compute dtype. Padded positions are
        computed and carry no meaning.

    Raises:
        ValueError: If `d_model` or `d_ff` is below 1, `dropout_rate` is outside [0, 1),
            or `activation` is unknown.

    Differs from the paper: dropout on the hidden activation, off by default.

    Examples:
        >>> kt.layers.FeedForward(d_model=8, d_ff=16)(
        ...     np.ones([3, 5, 8])
        ... ).shape.as_list()
        [3, 5, 8]
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout_rate: float = 0.0,
        activation: str = "relu",
        **kwargs,
    ):
        super().__init__(**kwargs)
        config_lib.check_rate("dropout_rate", dropout_rate)
        config_lib.check_choice("activation", activation, config_lib.ACTIVATIONS)
        self.d_model = config_lib.check_at_least("d_model", d_model, 1)
        self.d_ff = config_lib.check_at_least("d_ff", d_ff, 1)
        self.dropout_rate = dropout_rate
        self.activation = activation

    def build(self, inputs_shape):
        self.hidden = keras.layers.Dense(
            self.d_ff,
            activation=self.activation,
            kernel_initializer=initializer_unless_skipped("glorot_uniform"),
            dtype=self.dtype_policy,
            name="hidden",
        )
        self.dropout = Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )
        self.output_projection = keras.layers.Dense(
            self.d_model,
            kernel_initializer=initializer_unless_skipped("glorot_uniform"),
            dtype=self.dtype_policy,
            name="output",
        )
        self.hidden.build((None, self.d_model))
        self.output_projection.build((None, self.d_ff))
        self.built = True

    def call(self, inputs, training=None):
        hidden = self.hidden(flatten_positions(inputs))
        outputs = self.output_projection(self.dropout(hidden, training=training))
        return reshape(outputs, ops.shape(inputs))

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "dropout_rate": self.dropout_rate,
            "activation": self.activation,
        }
