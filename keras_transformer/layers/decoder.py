"""The decoder stack, §3.1: self-attention, attention to the encoder, feed-forward."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.stack import ConfiguredLayer

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(ConfiguredLayer):
    """One layer of the decoder, §3.1 (right half of Figure 1).

    Call arguments:
        inputs: float `[batch, target_length, d_model]`.
        encoder_output: float `[batch, source_length, d_model]`.
        self_attention_mask: bool, broadcasts to
            `[batch, target_length, target_length]`.
        cross_attention_mask: bool, broadcasts to
            `[batch, target_length, source_length]`.

    Returns:
        float `[batch, target_length, d_model]`, the self-attention weights, float
        `[batch, heads, target_length, target_length]`, and the encoder-decoder
        attention weights, float `[batch, heads, target_length, source_length]`.
    """

    def build(self, inputs_shape=None, encoder_output_shape=None):
        self.self_attention = self.own_attention("self_attention", causal=True)
        self.self_attention_residual = self.residual("self_attention_residual")
        self.cross_attention = self.attention("cross_attention")
        self.cross_attention_residual = self.residual("cross_attention_residual")
        self.ffn = self.feed_forward("feed_forward", self.config.decoder_ffn_dim)
        self.ffn_residual = self.residual("feed_forward_residual")
        self.built = True

    def call(
        self,
        inputs,
        encoder_output,
        self_attention_mask=None,
        cross_attention_mask=None,
        training=None,
    ):
        query = self.self_attention_residual.sublayer_input(inputs, training)
        attended, self_weights = self.self_attention(
            query, attention_mask=self_attention_mask, training=training
        )
        x = self.self_attention_residual(inputs, attended, training=training)
        attended, cross_weights = self.cross_attention(
            self.cross_attention_residual.sublayer_input(x, training),
            encoder_output,
            attention_mask=cross_attention_mask,
            training=training,
        )
        x = self.cross_attention_residual(x, attended, training=training)
        widened = self.ffn(
            self.ffn_residual.sublayer_input(x, training), training=training
        )
        x = self.ffn_residual(x, widened, training=training)
        return x, self_weights, cross_weights


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(ConfiguredLayer):
    """The decoder: a stack of N layers, §3.1.

    Call arguments:
        inputs: float `[batch, target_length, d_model]`: embeddings of the target
            shifted right, plus positions.
        encoder_output: float `[batch, source_length, d_model]`.
        target_mask: bool, broadcasts to `[batch, target_length, target_length]`; this
            layer combines it with the causal mask.
        source_mask: bool, broadcasts to `[batch, target_length, source_length]`.

    Returns:
        float `[batch, target_length, d_model]`, and two lists: the weights of every
        layer's self-attention and of its encoder-decoder attention.
    """

    @property
    def depth(self) -> int:
        """N, the number of layers."""
        return self.config.decoder_depth

    def build(self, inputs_shape=None, encoder_output_shape=None):
        self.add_layers(DecoderLayer)
        self.norm = self.final_norm()
        self.built = True

    def call(
        self,
        inputs,
        encoder_output,
        target_mask=None,
        source_mask=None,
        training=None,
    ):
        self_mask = self.self_attention_mask(inputs, target_mask)
        x, self_weights, cross_weights = inputs, [], []
        for layer in self.layers:
            x, own, cross = layer(
                x,
                encoder_output,
                self_attention_mask=self_mask,
                cross_attention_mask=source_mask,
                training=training,
            )
            self_weights.append(own)
            cross_weights.append(cross)
        return self.normed(x, training), self_weights, cross_weights

    def self_attention_mask(
        self, inputs: Tensor, target_mask: Tensor | None = None
    ) -> Tensor | None:
        """Combine the causal mask with `target_mask`; arguments same as in `call`."""
        if self.config.attention_window is not None:
            return target_mask  # restricted attention is causal by its window
        mask = masks.causal_mask(inputs.shape[1] or ops.shape(inputs)[1])
        return mask if target_mask is None else ops.logical_and(mask, target_mask)
