"""The decoder stack, §3.1, for whole sentences and for one token at a time."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.encoder import ConfiguredLayer

Tensor = Any
# Keys float [batch, step, beam slot, heads, key_dim] and values [..., value_dim].
LayerCache = tuple[Tensor, Tensor]


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
        self.ffn = self.feed_forward("feed_forward")
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
        query = self.self_attention_residual.sublayer_input(inputs)
        attended, self_weights = self.self_attention(
            query, attention_mask=self_attention_mask, training=training
        )
        memory = self.cross_attention.project_source(encoder_output)
        x, cross_weights = self._after_self_attention(
            inputs, attended, memory, cross_attention_mask, training
        )
        return x, self_weights, cross_weights

    def step(
        self,
        inputs: Tensor,
        step: Tensor,
        ancestry: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor,
        cache: LayerCache,
    ) -> tuple[Tensor, LayerCache]:
        """Decode one token of each hypothesis.

        The cache is written at (step, slot) and never moved: a hypothesis finds its own
        past through `ancestry`.

        Args:
            inputs: float `[batch, beam, d_model]`.
            step: int32 scalar: where in the cache this step goes.
            ancestry: bool `[batch, beam, steps_seen, beam]`: whether the hypothesis in
                slot k passed through slot j at step s. Of the cache, as many steps are
                read.
            memory: Keys and values of the encoder's output, projected once a sentence.
            memory_mask: bool `[batch, 1, source_length]`.
            cache: Keys and values of the steps before.

        Returns:
            float `[batch, beam, d_model]`, and the cache with this step in it.
        """
        query = self.self_attention_residual.sublayer_input(inputs)
        new = self.self_attention.project_source(query)
        cache = tuple(
            _write(old, step, part) for old, part in zip(cache, new, strict=True)
        )
        num_seen = ops.shape(ancestry)[2]
        attended, _ = self.self_attention.attend_cached(
            query,
            *(_flatten_steps(part[:, :num_seen]) for part in cache),
            _flatten_ancestry(ancestry),
            training=False,
        )
        outputs, _ = self._after_self_attention(
            inputs, attended, memory, memory_mask, training=False
        )
        return outputs, cache

    def _after_self_attention(self, inputs, attended, memory, memory_mask, training):
        """Run the rest of the layer, with the memory projected already."""
        x = self.self_attention_residual(inputs, attended, training=training)
        attended, cross_weights = self.cross_attention.attend(
            self.cross_attention_residual.sublayer_input(x),
            *memory,
            memory_mask,
            training,
        )
        x = self.cross_attention_residual(x, attended, training=training)
        widened = self.ffn(self.ffn_residual.sublayer_input(x), training=training)
        return self.ffn_residual(x, widened, training=training), cross_weights


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(ConfiguredLayer):
    """The decoder: a stack of N layers, §3.1.

    Call arguments:
        inputs: float `[batch, target_length, d_model]`: embeddings of the target
            shifted right, with positions.
        encoder_output: float `[batch, source_length, d_model]`.
        target_mask: bool, broadcasts to `[batch, target_length, target_length]`; the
            causal mask is added here.
        source_mask: bool, broadcasts to `[batch, target_length, source_length]`.

    Returns:
        float `[batch, target_length, d_model]`, and two lists with the weights of every
        layer's self-attention and encoder-decoder attention.
    """

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
        length = inputs.shape[1] or ops.shape(inputs)[1]
        self_mask = target_mask
        if self.config.attention_window is None:  # a causal window hides the future
            self_mask = masks.causal_mask(length)
            if target_mask is not None:
                self_mask = ops.logical_and(self_mask, target_mask)
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
        return (x if self.norm is None else self.norm(x)), self_weights, cross_weights

    def project_memory(self, encoder_output: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Project the encoder's output for every layer, once a sentence.

        Returns:
            Per layer the keys, float `[batch, source_length, heads, key_dim]`, and the
            values, float `[batch, source_length, heads, value_dim]`.
        """
        return [
            layer.cross_attention.project_source(encoder_output)
            for layer in self.layers
        ]

    def empty_cache(
        self, batch_size: int | Tensor, beam_size: int, num_steps: int | Tensor
    ) -> list[LayerCache]:
        """Make the self-attention cache of a search, filled with zeros.

        Restricted attention needs no more steps than its window.

        Returns:
            Per layer keys and values, float `[batch, step, beam slot, heads, dim]`.
        """
        window = self.config.attention_window
        if window is not None:
            is_known = isinstance(num_steps, int)
            num_steps = (min if is_known else ops.minimum)(num_steps, window)
        heads = (batch_size, num_steps, beam_size, self.config.num_heads)
        widths = (self.config.head_key_dim, self.config.head_value_dim)
        return [
            tuple(ops.zeros((*heads, dim), self.compute_dtype) for dim in widths)
            for _ in self.layers
        ]

    def step(
        self,
        inputs: Tensor,
        step: Tensor,
        ancestry: Tensor,
        memory: list[tuple[Tensor, Tensor]],
        memory_mask: Tensor,
        cache: list[LayerCache],
    ) -> tuple[Tensor, list[LayerCache]]:
        """Decode one token of each hypothesis; see `DecoderLayer.step`.

        Returns:
            float `[batch, beam, d_model]`, and the cache with this step in it.
        """
        place = step
        if self.config.attention_window is not None:
            place, ancestry = _in_ring(step, ancestry, ops.shape(cache[0][0])[1])
        x, new_cache = inputs, []
        for layer, own_memory, own_cache in zip(
            self.layers, memory, cache, strict=True
        ):
            x, layer_cache = layer.step(
                x, place, ancestry, own_memory, memory_mask, own_cache
            )
            new_cache.append(layer_cache)
        return (x if self.norm is None else self.norm(x)), new_cache


def _in_ring(
    step: Tensor, ancestry: Tensor, size: int | Tensor
) -> tuple[Tensor, Tensor]:
    """Find the place of a step in a cache of the last `size` steps, used in turn.

    Returns:
        The place, int32 scalar, and the ancestry of the steps that lie at the places,
        bool `[batch, beam, size, beam]`.
    """
    places = ops.arange(size)
    steps = step - ops.mod(step - places, size)  # the latest that was put there
    there = ops.take(ancestry, ops.maximum(steps, 0), axis=2)
    return ops.mod(step, size), ops.logical_and(there, (steps >= 0)[:, None])


def _write(cache: Tensor, step: Tensor, update: Tensor) -> Tensor:
    """Put `update` `[batch, beam, heads, dim]` at `step` of the cache."""
    rows = ops.arange(ops.shape(cache)[0])
    indices = ops.stack([rows, ops.zeros_like(rows) + step], axis=1)  # [batch, 2]
    return ops.scatter_update(cache, indices, ops.cast(update, cache.dtype))


def _flatten_steps(cache: Tensor) -> Tensor:
    """Turn `[batch, step, slot, ...]` into `[batch, step * slot, ...]`."""
    batch, steps, slots, *rest = ops.shape(cache)
    return ops.reshape(cache, (batch, steps * slots, *rest))


def _flatten_ancestry(ancestry: Tensor) -> Tensor:
    """Join steps and slots of the ancestry: `[batch, beam, step * slot]`."""
    batch, beam, steps, slots = ops.shape(ancestry)
    return ops.reshape(ancestry, (batch, beam, steps * slots))
