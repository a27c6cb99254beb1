"""The decoder stack, §3.1, for whole sentences and for one token at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.encoder import ConfiguredLayer
from keras_transformer.layers.panels import Panels

Tensor = Any
# Keys float [batch, heads, columns, key_dim] and values [..., value_dim]; a column is
# that of one slot of the beam at one step.
LayerCache = tuple[Tensor, Tensor]


class StepWeights(NamedTuple):
    """The matrices of a layer as a step uses them."""

    self_attention: list[Panels]  # of query, key and value
    cross_attention: list[Panels]  # of query
    ffn: tuple[Panels, Panels]


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

    def step_weights(self) -> StepWeights:
        """Cut this layer's matrices for `step`."""
        return StepWeights(
            self_attention=self.self_attention.panels("query", "key", "value"),
            cross_attention=self.cross_attention.panels("query"),
            ffn=self.ffn.panels(),
        )

    def step(
        self,
        inputs: Tensor,
        place: Tensor,
        is_past: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor,
        cache: LayerCache,
        weights: StepWeights,
    ) -> tuple[Tensor, LayerCache]:
        """Decode one token of each hypothesis.

        Slot k writes the cache at column place + k, and nothing there is moved: a
        hypothesis finds its own past through `is_past`.

        Args:
            inputs: float `[batch * beam, d_model]`.
            place: int32 scalar.
            is_past: bool `[batch, beam, columns]`: which columns each hypothesis sees.
            memory: Keys and values of the encoder's output, projected once a sentence.
            memory_mask: bool `[batch, 1, source_length]`.
            cache: Keys and values of the steps before.
            weights: From `step_weights`.

        Returns:
            float `[batch * beam, d_model]`, and the cache with this step in it.
        """
        own, cross = self.self_attention, self.cross_attention
        beam_size = is_past.shape[1] or ops.shape(is_past)[1]
        query, *new = own.project_step(
            self.self_attention_residual.sublayer_input(inputs),
            weights.self_attention,
            beam_size,
        )
        cache = tuple(
            _write(old, place, part) for old, part in zip(cache, new, strict=True)
        )
        attended = own.attend_step(query, *cache, is_past, like=inputs)
        x = self.self_attention_residual(inputs, attended)
        (query,) = cross.project_step(
            self.cross_attention_residual.sublayer_input(x),
            weights.cross_attention,
            beam_size,
        )
        attended = cross.attend_step(query, *memory, memory_mask, like=x)
        x = self.cross_attention_residual(x, attended)
        widened = self.ffn.step(self.ffn_residual.sublayer_input(x), weights.ffn)
        return self.ffn_residual(x, widened), cache


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
        return self.normed(x, training), self_weights, cross_weights

    def project_memory(self, encoder_output: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Project the encoder's output for every layer, once a sentence.

        Returns:
            Per layer the keys, float `[batch, heads, source_length, key_dim]`, and the
            values, float `[batch, heads, source_length, value_dim]`.
        """
        return [
            layer.cross_attention.project_source(encoder_output)
            for layer in self.layers
        ]

    def empty_cache(
        self, batch_size: int | Tensor, num_columns: int | Tensor = 0
    ) -> list[LayerCache]:
        """Make the self-attention cache of a search, filled with zeros.

        Args:
            batch_size: Sentences.
            num_columns: What it holds: one of each slot of the beam a step.

        Returns:
            Per layer keys and values, float `[batch, heads, columns, dim]`.
        """
        rows = (batch_size, self.config.num_heads, num_columns)
        widths = (self.config.head_key_dim, self.config.head_value_dim)
        return [
            tuple(ops.zeros((*rows, dim), self.compute_dtype) for dim in widths)
            for _ in self.layers
        ]

    def step_weights(self) -> list[StepWeights]:
        """Cut every layer's matrices for `step`, once a search."""
        return [layer.step_weights() for layer in self.layers]

    def step(
        self,
        inputs: Tensor,
        place: Tensor,
        is_past: Tensor,
        memory: list[tuple[Tensor, Tensor]],
        memory_mask: Tensor,
        cache: list[LayerCache],
        weights: list[StepWeights],
    ) -> tuple[Tensor, list[LayerCache]]:
        """Decode one token of each hypothesis; see `DecoderLayer.step`.

        Returns:
            float `[batch * beam, d_model]`, and the cache with this step in it.
        """
        x, new_cache = inputs, []
        for layer, own_memory, own_cache, own_weights in zip(
            self.layers, memory, cache, weights, strict=True
        ):
            x, layer_cache = layer.step(
                x, place, is_past, own_memory, memory_mask, own_cache, own_weights
            )
            new_cache.append(layer_cache)
        return self.normed(x), new_cache


def _write(cache: Tensor, place: Tensor, update: Tensor) -> Tensor:
    """Put `update` `[batch, heads, beam, dim]` at the columns from `place` on."""
    update = ops.cast(update, cache.dtype)
    if keras.backend.backend() != "tensorflow":
        return ops.slice_update(cache, (0, 0, place, 0), update)
    # The one operation of TensorFlow that writes where the cache lies; Keras's, and
    # tf.tensor_scatter_nd_update, copy it at every step.
    import tensorflow as tf

    heads, beam_size, dim = update.shape[1:]
    if beam_size is None:
        beam_size = tf.shape(update)[2]
    columns = tf.shape(cache)[2]
    # As matrices, [batch * heads, columns * dim], of the widest elements there are,
    # which it writes the fastest.
    element = _widest_element(dim, cache.dtype)
    words = dim * cache.dtype.size // element.size  # of a column
    begin = tf.convert_to_tensor(place) * words
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=_viewed(cache, columns * words, element),
        begin=tf.stack([0, begin]),
        end=tf.stack([0, begin + beam_size * words]),
        strides=[1, 1],
        value=_viewed(update, beam_size * words, element),
        begin_mask=0b01,  # every row
        end_mask=0b01,
    )
    if element != cache.dtype:
        written = tf.bitcast(written, cache.dtype)
    return tf.reshape(written, [-1, heads, columns, dim])


def _widest_element(dim, dtype):
    """Return the largest type of TensorFlow that cuts vectors of `dim` numbers."""
    import tensorflow as tf

    return tf.complex128 if dim * dtype.size % tf.complex128.size == 0 else dtype


def _viewed(values, words, element):
    """View `[batch, heads, columns, dim]` as `[batch * heads, words]` of a type."""
    import tensorflow as tf

    if element == values.dtype:
        return tf.reshape(values, [-1, words])
    parts = element.size // values.dtype.size
    return tf.bitcast(tf.reshape(values, [-1, words, parts]), element)
