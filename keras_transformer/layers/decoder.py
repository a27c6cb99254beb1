"""The decoder stack, §3.1, for whole sentences and for one token at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers import masks, traces
from keras_transformer.layers.attention import added_mask
from keras_transformer.layers.cache import CacheArea, cache_area, write
from keras_transformer.layers.encoder import ConfiguredLayer
from keras_transformer.layers.panels import Panels

Tensor = Any
# Keys float [batch, heads, columns, key_dim] and values [..., value_dim]; a column is
# that of one slot of the beam at one step.
LayerCache = tuple[Tensor, Tensor]


class StepWeights(NamedTuple):
    """All weights of a layer's step, as it uses them."""

    self_attention: list[Panels]  # of query, key and value
    self_output: Panels
    cross_attention: list[Panels]  # of query
    cross_output: Panels
    ffn: tuple[Panels, Panels]
    norms: list[Tensor]


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
            self_output=self.self_attention.output_panels(),
            cross_attention=self.cross_attention.panels("query"),
            cross_output=self.cross_attention.output_panels(),
            ffn=self.ffn.panels(),
            norms=traces.values(self._norm_variables),
        )

    def step(
        self,
        inputs: Tensor,
        beam_size: int | Tensor,
        areas: tuple[CacheArea, CacheArea],
        past_mask: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor,
        cache: LayerCache,
        weights: StepWeights,
    ) -> tuple[Tensor, LayerCache]:
        """Decode one token of each hypothesis; see `Decoder.step`.

        What differs between layers is all given: any of them takes the step of each.

        Args:
            inputs: float `[batch * beam, d_model]`.
            beam_size: Hypotheses of each sentence.
            areas: Where keys and values of this step go.
            past_mask: float32 `[batch, 1, beam, columns]`, from `added_mask`.
            memory: Keys and values of the encoder's output, projected once a sentence.
            memory_mask: float32 `[batch, 1, 1, source_length]`, from `added_mask`.
            cache: Keys and values of the steps before.
            weights: From `step_weights`.

        Returns:
            float `[batch * beam, d_model]`, and the cache with this step in it.
        """
        with traces.replaced(self._norm_variables, weights.norms):
            own, cross = self.self_attention, self.cross_attention
            query, *new = own.project_step(
                self.self_attention_residual.sublayer_input(inputs),
                weights.self_attention,
                beam_size,
            )
            cache = tuple(map(write, cache, new, areas))
            attended = own.attend_step(query, *cache, past_mask, weights.self_output)
            x = self.self_attention_residual(inputs, attended)
            (query,) = cross.project_step(
                self.cross_attention_residual.sublayer_input(x),
                weights.cross_attention,
                beam_size,
            )
            attended = cross.attend_step(
                query, *memory, memory_mask, weights.cross_output
            )
            x = self.cross_attention_residual(x, attended)
            widened = self.ffn.step(self.ffn_residual.sublayer_input(x), weights.ffn)
            return self.ffn_residual(x, widened), cache

    @property
    def _norm_variables(self) -> list[keras.Variable]:
        residuals = (
            self.self_attention_residual,
            self.cross_attention_residual,
            self.ffn_residual,
        )
        return [each for residual in residuals for each in residual.norm.weights]


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
        self_mask = self._self_mask(inputs, target_mask)
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

    def output(
        self, inputs: Tensor, encoder_output: Tensor, source_mask: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode whole sentences without training.

        Args:
            inputs: As of a call.
            encoder_output: As of a call.
            source_mask: As of a call.

        Returns:
            float `[batch, target_length, d_model]`, and a list with the weights of
            every layer's encoder-decoder attention.
        """

        def run(layer, x, encoder_output, self_mask, source_mask):
            x, _, weights = layer(
                x,
                encoder_output,
                self_attention_mask=self_mask,
                cross_attention_mask=source_mask,
                training=False,
            )
            return x, weights

        decode = traces.by_number(self.layers, run)
        self_mask = self._self_mask(inputs)
        x, cross_weights = inputs, []
        for number in range(self.config.num_layers):
            x, weights = decode(number, x, encoder_output, self_mask, source_mask)
            cross_weights.append(weights)
        return self.normed(x, training=False), cross_weights

    def project_memory(self, encoder_output: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Project the encoder's output for every layer, once a sentence.

        Returns:
            Per layer the keys, float `[batch, heads, source_length, key_dim]`, and the
            values, float `[batch, heads, source_length, value_dim]`.
        """
        project = traces.by_number(
            [layer.cross_attention for layer in self.layers],
            lambda attention, source: attention.project_source(source),
            lambda attention: attention.source_variables,
        )
        return [project(n, encoder_output) for n in range(self.config.num_layers)]

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
        empty = [ops.zeros((*rows, dim), self.compute_dtype) for dim in widths]
        return [tuple(empty) for _ in self.layers]

    def step_weights(self) -> StepWeights:
        """Cut every layer's matrices for `step`.

        Returns:
            Those of all layers, each kind in one tensor with the layer as first axis:
            the fewer tensors a search's loops carry, the sooner their graph is made.
        """
        cut = traces.by_number(self.layers, DecoderLayer.step_weights)
        return traces.stacked([cut(n) for n in range(self.config.num_layers)])

    def step(
        self,
        inputs: Tensor,
        place: Tensor,
        is_past: Tensor,
        memory: list[tuple[Tensor, Tensor]],
        memory_mask: Tensor,
        cache: list[LayerCache],
        weights: StepWeights,
    ) -> tuple[Tensor, list[LayerCache]]:
        """Decode one token of each hypothesis.

        Slot k writes the cache at column place + k, and nothing there is moved: a
        hypothesis finds its own past through `is_past`.

        Args:
            inputs: float `[batch * beam, d_model]`.
            place: int32 scalar.
            is_past: bool `[batch, beam, columns]`: which columns each hypothesis sees.
            memory: From `project_memory`.
            memory_mask: bool `[batch, 1, source_length]`.
            cache: Per layer keys and values of the steps before.
            weights: From `step_weights`.

        Returns:
            float `[batch * beam, d_model]`, and the cache with this step in it.
        """
        _, beam_size, num_columns = ops.shape(is_past)
        config = self.config
        areas = tuple(
            cache_area(
                place, num_columns, beam_size, config.num_heads, dim, self.compute_dtype
            )
            for dim in (config.head_key_dim, config.head_value_dim)
        )
        past_mask, memory_mask = added_mask(is_past), added_mask(memory_mask)
        step = traces.traced_once(self.layers[0].step)
        x, new_cache = inputs, []
        for own_memory, own_cache, own_weights in zip(
            memory,
            cache,
            traces.unstacked(weights, config.num_layers),
            strict=True,
        ):
            x, layer_cache = step(
                x,
                beam_size,
                areas,
                past_mask,
                own_memory,
                memory_mask,
                own_cache,
                own_weights,
            )
            new_cache.append(layer_cache)
        return self.normed(x), new_cache

    def _self_mask(self, inputs, target_mask=None):
        """Return what hides the future, and what `target_mask` does."""
        if self.config.attention_window is not None:
            return target_mask  # a causal window hides the future
        mask = masks.causal_mask(inputs.shape[1] or ops.shape(inputs)[1])
        return mask if target_mask is None else ops.logical_and(mask, target_mask)
