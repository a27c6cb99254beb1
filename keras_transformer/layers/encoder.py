"""The encoder stack, §3.1: N layers of self-attention and feed-forward network."""

from __future__ import annotations

import keras

from keras_transformer.layers import masks
from keras_transformer.layers.stack import ConfiguredLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(ConfiguredLayer):
    """One layer of the encoder, §3.1 (left half of Figure 1).

    Call arguments:
        inputs: float `[batch, source_length, d_model]`.
        attention_mask: Same as in `MultiHeadAttention`.
        mask: bool `[batch, source_length]`, True = real token; None: the mask that
            Keras keeps at `inputs`.

    Returns:
        float `[batch, source_length, d_model]`, and the attention weights returned by
        `self_attention`.

    Examples:
        >>> config = kt.ModelConfig(num_layers=2, d_model=8, d_ff=16, num_heads=2)
        >>> output, weights = kt.layers.EncoderLayer(config)(np.ones([3, 5, 8]))
        >>> output.shape.as_list(), weights.shape.as_list()
        ([3, 5, 8], [3, 2, 5, 5])
    """

    def build(self, inputs_shape=None):
        self.self_attention = self.own_attention("self_attention", self.causal)
        self.self_attention_residual = self.residual("self_attention_residual")
        self.ffn = self.feed_forward("feed_forward", self.config.encoder_ffn_dim)
        self.ffn_residual = self.residual("feed_forward_residual")
        self.built = True

    def call(self, inputs, attention_mask=None, training=None, mask=None):
        inputs = masks.masked(inputs, mask)
        attended, weights = self.self_attention(
            self.self_attention_residual.sublayer_input(inputs, training),
            attention_mask=self.self_attention_mask(inputs, attention_mask),
            training=training,
        )
        x = self.self_attention_residual(inputs, attended, training=training)
        widened = self.ffn(
            self.ffn_residual.sublayer_input(x, training), training=training
        )
        return self.ffn_residual(x, widened, training=training), weights

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape), self.self_weights_shape(inputs_shape)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(ConfiguredLayer):
    """The encoder: a stack of N layers, §3.1.

    Call arguments:
        inputs: float `[batch, source_length, d_model]`: embeddings plus positions.
        attention_mask: Same as in `MultiHeadAttention`.
        mask: bool `[batch, source_length]`, True = real token; None: the mask that
            Keras keeps at `inputs`.

    Returns:
        float `[batch, source_length, d_model]` (paper: z), and a list with the
        attention weights of every layer, float
        `[batch, heads, source_length, source_length]`; in blocks if attention is
        restricted.

    Examples:
        >>> config = kt.ModelConfig(num_layers=2, d_model=8, d_ff=16, num_heads=2)
        >>> output, weights = kt.layers.Encoder(config)(np.ones([3, 5, 8]))
        >>> output.shape.as_list(), len(weights)
        ([3, 5, 8], 2)
    """

    @property
    def depth(self) -> int:
        """N, the number of layers."""
        return self.config.encoder_depth

    def build(self, inputs_shape=None):
        self.add_layers(EncoderLayer, inputs_shape)
        self.norm = self.final_norm()
        self.built = True

    def call(self, inputs, attention_mask=None, training=None, mask=None):
        attention_mask = self.self_attention_mask(inputs, attention_mask)
        x, all_weights = masks.masked(inputs, mask), []
        for layer in self.layers:
            x, weights = layer(x, attention_mask=attention_mask, training=training)
            all_weights.append(weights)
        return self.normed(x, training), all_weights

    def compute_output_shape(self, inputs_shape):
        weights_shape = self.self_weights_shape(inputs_shape)
        return tuple(inputs_shape), [weights_shape] * self.depth
