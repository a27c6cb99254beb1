"""What encoder and decoder share: layers made from one configuration, stacked, §3.1."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_transformer.config import ModelConfig, from_dict
from keras_transformer.layers import masks
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.layer_norm import LayerNormalization
from keras_transformer.layers.masked_layer import MaskedLayer, sequence_spec
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.restricted_attention import (
    RestrictedSelfAttention,
    blocks_shape,
    neighbourhood,
)

Tensor = Any


class ConfiguredLayer(MaskedLayer):
    """Base of layers that are configured by a whole `ModelConfig`.

    Args:
        config: Configuration of the model, or its fields as a mapping.
        causal: Whether self-attention hides later positions.
    """

    def __init__(self, config: ModelConfig | dict, causal: bool = False, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(config, ModelConfig):
            config = from_dict(ModelConfig, config)
        self.config = config
        self.causal = causal
        self.input_spec = sequence_spec(config.d_model)

    def get_config(self):
        return {
            **super().get_config(),
            "config": dataclasses.asdict(self.config),
            "causal": self.causal,
        }

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """The N layers of a stack, in order."""
        return [getattr(self, f"layer_{n}") for n in range(self.depth)]

    def add_layers(self, layer_class: type[ConfiguredLayer], *shapes: Any) -> None:
        """Create the N layers of a stack, N being its `depth`.

        Each layer is an attribute, because Keras 3.15 does not report layers in a list
        to `tf.train.Checkpoint`.

        Args:
            layer_class: Class of the layers.
            *shapes: Of what the layers are called with; see their `build`.
        """
        for number in range(self.depth):
            name = f"layer_{number}"
            layer = layer_class(
                self.config,
                # The mask of the stack is causal: computed once for all layers.
                causal=self.causal and not self._needs_causal_mask,
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build(*shapes)
            setattr(self, name, layer)

    def attention(
        self, name: str, layer_class: type = MultiHeadAttention, **options: Any
    ) -> MultiHeadAttention:
        """Create a multi-head attention with the sizes of the config."""
        config = self.config
        layer = layer_class(
            config.d_model,
            config.num_heads,
            config.head_key_dim,
            config.head_value_dim,
            use_bias=config.attention_bias,
            dropout_rate=config.attention_dropout_rate,
            dtype=self.dtype_policy,
            name=name,
            **options,
        )
        return self._built(layer)

    def own_attention(self, name: str, causal: bool) -> MultiHeadAttention:
        """Create a self-attention; restricted if the config has a window."""
        window = self.config.attention_window
        if window is None:
            return self.attention(name)
        return self.attention(
            name, RestrictedSelfAttention, window=window, causal=causal
        )

    def self_attention_mask(
        self, inputs: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor | None:
        """Combine a mask of self-attention with the causal one, if there is one."""
        if not self._needs_causal_mask:
            return attention_mask
        mask = masks.causal_mask(inputs)
        if attention_mask is None:
            return mask
        heads = self.config.num_heads
        given = masks.with_heads(attention_mask, inputs, inputs, heads)
        return ops.logical_and(mask, given)

    def self_weights_shape(self, inputs_shape: tuple) -> tuple:
        """Return the shape of the weights of self-attention."""
        batch, length, _ = inputs_shape
        heads, window = self.config.num_heads, self.config.attention_window
        if window is None:
            return batch, heads, length, length
        sides = neighbourhood(window, self.causal)
        return batch, heads, *blocks_shape(length, *sides)

    @property
    def _needs_causal_mask(self) -> bool:
        """Whether a mask must hide later positions; a window can end at the query."""
        return self.causal and self.config.attention_window is None

    def feed_forward(self, name: str, d_ff: int) -> FeedForward:
        """Create a feed-forward network of width `d_ff`."""
        config = self.config
        layer = FeedForward(
            config.d_model,
            d_ff,
            config.ffn_dropout_rate,
            config.activation,
            dtype=self.dtype_policy,
            name=name,
        )
        return self._built(layer)

    def residual(self, name: str) -> Residual:
        """Create the dropout, addition and normalization around a sub-layer."""
        config = self.config
        layer = Residual(
            config.norm_placement,
            config.dropout_rate,
            config.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )
        return self._built(layer)

    def normed(self, outputs: Tensor, training: bool | None = None) -> Tensor:
        """Apply the final norm of a stack, if it has one."""
        if self.norm is None:
            return outputs
        return self.norm(outputs, training=training)

    def final_norm(self) -> keras.layers.Layer | None:
        """Create the norm after a pre-norm stack; a post-norm stack has none."""
        if self.config.norm_placement == "post":
            return None
        layer = LayerNormalization(
            self.config.layer_norm_epsilon, dtype=self.dtype_policy, name="final_norm"
        )
        return self._built(layer)

    def _built(self, layer: keras.layers.Layer) -> Any:
        layer.build((None, None, self.config.d_model))
        return layer
