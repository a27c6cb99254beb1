"""A model's weights in the layouts that a search reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.inference import packed_kernels, shared_traces
from keras_transformer.inference.decoder_step import LayerWeights, StepWeights
from keras_transformer.inference.packed_kernels import PackedKernel
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import DecoderLayer
from keras_transformer.model.transformer import Transformer

# What takes time to make, and is therefore kept by `PreparedWeights`.
Prepared = tuple[LayerWeights, PackedKernel | None]


def step_weights(model: Transformer, prepared: Prepared | None = None) -> StepWeights:
    """Return what the steps of a search read of a model.

    Args:
        model: A built model.
        prepared: From `prepare`; None prepares the layers for this search alone.
    """
    layers, packed_output = prepared or prepare(model)
    positions, final_norm = model.target_positions, model.decoder.norm
    output_bias = model.output_embedding.output_bias
    return StepWeights(
        embeddings=_table(model.target_embedding),
        positions=positions.table.value if positions.encoding == "learned" else None,
        layers=layers,
        final_norm=None if final_norm is None else _norm(final_norm),
        output=_table(model.output_embedding),
        output_bias=None if output_bias is None else output_bias.value,
        packed_output=packed_output,
    )


def prepare(model: Transformer, with_output: bool = False) -> Prepared:
    """Pack the kernels of a model's decoder, each kind of all layers in one tensor.

    Args:
        model: A built model.
        with_output: Also pack the pre-softmax map, the largest: worth it where many
            searches read what is prepared once.
    """
    # The largest first: what is packed before it is stacked leaves gaps in memory.
    output = None
    if with_output:
        output = packed_kernels.pack_transposed(_table(model.output_embedding))
    layers = model.decoder.layers
    pack_layer = shared_traces.call_nth_layer(layers, _layer_weights)
    packed = [pack_layer(number) for number in range(len(layers))]
    return shared_traces.stacked(packed), output


def _layer_weights(layer: DecoderLayer) -> LayerWeights:
    own, cross = layer.self_attention, layer.cross_attention
    residuals = (
        layer.self_attention_residual,
        layer.cross_attention_residual,
        layer.ffn_residual,
    )
    return LayerWeights(
        self_attention=_projections(own, "query", "key", "value"),
        self_attention_output=_whole(own.output_projection),
        cross_attention=_projections(cross, "query"),
        cross_attention_output=_whole(cross.output_projection),
        feed_forward=(_whole(layer.ffn.hidden), _whole(layer.ffn.output_projection)),
        norms=tuple(_norm(residual.norm) for residual in residuals),
    )


def _projections(attention: MultiHeadAttention, *names: str) -> list[PackedKernel]:
    """Pack projections by heads; equally wide neighbours become one kernel."""
    layers = [getattr(attention, f"{name}_projection") for name in names]
    groups = [layers]
    if attention.key_dim != attention.value_dim:
        groups = [layers[:2], layers[2:]]
    return [
        packed_kernels.pack(group, unit=group[0].units // attention.num_heads)
        for group in groups
        if group
    ]


def _whole(layer: keras.layers.Dense) -> PackedKernel:
    return packed_kernels.pack([layer], unit=layer.units)


def _norm(layer: keras.layers.Layer) -> tuple[tf.Tensor, tf.Tensor]:
    return tuple(shared_traces.values([layer.gamma, layer.beta]))


def _table(embedding: keras.layers.Layer) -> tf.Tensor:
    """Return the matrix of an embedding, float `[vocab_size, d_model]`."""
    return tf.cast(embedding.embeddings.value, embedding.compute_dtype)


class PreparedWeights(tf.Module):
    """What `prepare` gave once, in variables: read by many searches, saved in exports.

    Use only when weights are final: later changes silently mix old and new weights.

    Args:
        model: A built model.
        with_output: As in `prepare`.
    """

    def __init__(self, model: Transformer, with_output: bool):
        super().__init__(name="prepared_weights")
        prepared = prepare(model, with_output)
        self._kept = [
            tf.Variable(weight, trainable=False)
            for weight in tf.nest.flatten(prepared)
            if weight is not None
        ]
        is_there = tf.nest.map_structure(lambda weight: weight is not None, prepared)
        # As a function: TensorFlow would wrap what an attribute holds.
        self._structure = lambda: is_there

    def read(self) -> Prepared:
        """Read the variables, within the graph that is made."""
        values = map(tf.convert_to_tensor, self._kept)
        return tf.nest.map_structure(
            lambda is_there: next(values) if is_there else None, self._structure()
        )


class StackedLayers(tf.Module):
    """The weights of a model's equal layers, one variable a kind.

    Every function of a graph lists the variables it reads, and loading visits each
    entry: fewer variables load faster. Use only when weights are final.

    Args:
        model: A built model.
    """

    def __init__(self, model: Transformer):
        super().__init__(name="stacked_layers")
        self._stacks: list[tf.Variable] = []
        places: dict[int, tuple[int, int]] = {}  # of a variable: stack, number in it
        for layers in (model.encoder.layers, model.decoder.layers):
            for equal in zip(*(layer.weights for layer in layers), strict=True):
                for number, variable in enumerate(equal):
                    places[id(variable)] = len(self._stacks), number
                stack = tf.stack(shared_traces.values(equal))
                self._stacks.append(tf.Variable(stack, trainable=False))
        # As a function: TensorFlow would wrap what an attribute holds.
        self._places = lambda: places

    def reading(self) -> _Reading:
        """Return a context in which layers read their weights from the stacks.

        What is first read there must be in the graph that all of it is read in.
        """
        return _Reading(self._stacks, self._places())


class _Reading(keras.StatelessScope):
    """Gives variables the values they have in stacks; takes apart what is read."""

    def __init__(
        self, stacks: Sequence[tf.Variable], places: dict[int, tuple[int, int]]
    ):
        super().__init__()
        self._stacks, self._places = stacks, places
        self._unstacked: dict[int, list[tf.Tensor]] = {}

    def get_current_value(self, variable: keras.Variable) -> Any:
        if id(variable) not in self._places:
            return super().get_current_value(variable)
        stack, number = self._places[id(variable)]
        if stack not in self._unstacked:
            self._unstacked[stack] = tf.unstack(self._stacks[stack])
        return self._unstacked[stack][number]
