"""A model's weights in the layouts that the decoder step reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.inference import packed_kernels, shared_traces
from keras_transformer.inference.decoder_step import LayerWeights, StepWeights
from keras_transformer.inference.packed_kernels import PackedKernel
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import DecoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.model.transformer import Transformer

# The weights that take time to prepare; `PreparedWeights` stores them. For XLA, a list
# of each layer's.
Prepared = tuple[LayerWeights | list[LayerWeights], PackedKernel | None]
# By id(variable): the number of its kind, and of its layer; None: of no layer.
Places = dict[int, tuple[int, int | None]]

# With two cores and AVX-512, 4 rows and 256 x 8,000 weights take 0.27 ms instead of
# 0.53, but 128 x 16,000 take 0.43 instead of 0.31.
_FEW_WORDS = 10_000


def step_weights(
    model: Transformer,
    prepared: Prepared | None = None,
    listed: tf.Tensor | None = None,
    table: Callable | None = None,
) -> StepWeights:
    """Return the weights that the decoder step reads.

    Args:
        model: A built model.
        prepared: From `prepare` or `for_xla`; None: prepare the layers here.
        listed: int32 `[size]`, ids that the step gives logits of; None: all. The
            pre-softmax kernel must not be `prepared`.
        table: Returns the matrix of an embedding, or its rows `listed`; None: floats.
    """
    table = table or _table
    layers, packed_output = prepared or prepare(model)
    positions, final_norm = model.target_positions, model.decoder.norm
    embedding_norm = model.target_norm
    output = model.output_embedding
    output_bias = output.output_bias
    return StepWeights(
        embeddings=table(model.target_embedding),
        positions=_rows(positions.table) if positions.encoding == "learned" else None,
        embedding_norm=None if embedding_norm is None else norm_weights(embedding_norm),
        layers=layers,
        final_norm=None if final_norm is None else norm_weights(final_norm),
        output=table(output, listed),
        output_bias=None if output_bias is None else _rows(output_bias, listed),
        packed_output=packed_output,
    )


def prepare(model: Transformer, with_output: bool = False) -> Prepared:
    """Pack the kernels of a decoder and stack each kind over all layers.

    Args:
        model: A built model.
        with_output: Also pack the pre-softmax kernel. It is the largest, so this pays
            off only when many searches share the result.
    """
    # The largest first: kernels packed before stacking leave gaps in memory.
    output = None
    if with_output:
        output = packed_kernels.pack_transposed(_table(model.output_embedding))
    layers = model.decoder.layers
    pack_layer = shared_traces.call_nth_layer(
        layers, functools.partial(layer_weights, pack=packed_kernels.pack)
    )
    packed = [pack_layer(number) for number in range(len(layers))]
    return shared_traces.stacked(packed), output


def for_xla(model: Transformer, packed: PreparedWeights | None = None) -> Prepared:
    """Return the weights of a search that is one XLA program: kernels as they are.

    XLA lays them out itself, once for all steps of a search.

    Args:
        model: A built model.
        packed: Those of the model. A CPU multiplies few rows faster by its pre-softmax
            kernel, as one matrix, than by the embedding, except with many words.
    """
    join_layer = shared_traces.call_nth_layer(
        model.decoder.layers,
        functools.partial(layer_weights, pack=packed_kernels.whole),
    )
    layers = [join_layer(number) for number in range(model.config.decoder_depth)]
    has_few_words = model.config.output_vocab_size <= _FEW_WORDS
    output = packed.read_output() if packed and has_few_words else None
    return layers, output and packed_kernels.unpacked(output)


def layer_weights(layer: DecoderLayer, pack: Callable) -> LayerWeights:
    """Pack the kernels of a decoder layer."""
    own, cross = layer.self_attention, layer.cross_attention
    residuals = (
        layer.self_attention_residual,
        layer.cross_attention_residual,
        layer.ffn_residual,
    )
    return LayerWeights(
        *own_attention(pack, own),
        cross_attention=projections(pack, cross, "query"),
        cross_attention_output=_whole(pack, cross.output_projection),
        feed_forward=feed_forward(pack, layer.ffn),
        norms=tuple(norm_weights(residual.norm) for residual in residuals),
    )


def own_attention(
    pack: Callable, attention: MultiHeadAttention
) -> tuple[list[PackedKernel], PackedKernel]:
    """Pack the kernels of self-attention: of the projections, and of their output."""
    return (
        projections(pack, attention, "query", "key", "value"),
        _whole(pack, attention.output_projection),
    )


def feed_forward(
    pack: Callable, layer: FeedForward
) -> tuple[PackedKernel, PackedKernel]:
    """Pack the kernels of a feed-forward network."""
    return _whole(pack, layer.hidden), _whole(pack, layer.output_projection)


def projections(
    pack: Callable, attention: MultiHeadAttention, *names: str
) -> list[PackedKernel]:
    """Pack projections by heads, those of equal width in one kernel."""
    groups = [names]
    if attention.key_dim != attention.value_dim:
        groups = [
            [name for name in names if name != "value"],
            [name for name in names if name == "value"],
        ]
    packed = []
    for group in filter(None, groups):
        layers = [getattr(attention, f"{name}_projection") for name in group]
        packed.append(pack(layers, unit=layers[0].units // attention.num_heads))
    return packed


def _whole(pack: Callable, layer: keras.layers.Dense) -> PackedKernel:
    return pack([layer], unit=layer.units)


def norm_weights(layer: keras.layers.Layer) -> tuple[tf.Tensor, tf.Tensor]:
    """Return gamma and beta of a layer normalization."""
    return tuple(shared_traces.values([layer.gamma, layer.beta]))


def _table(embedding: keras.layers.Layer, listed: tf.Tensor | None = None) -> tf.Tensor:
    """Return the matrix of an embedding, or its rows `listed`: `[rows, d_model]`."""
    return tf.cast(_rows(embedding.embeddings, listed), embedding.compute_dtype)


def _rows(variable: keras.Variable, listed: tf.Tensor | None = None) -> tf.Tensor:
    """Return a variable's rows of these ids; None: all.

    It is read as a whole. Gathering rows of the variable itself would make TensorFlow
    copy it at each later read, such as the encoder's: with 37,000 x 512 weights, 76 MB.
    """
    (values,) = shared_traces.values([variable])
    return values if listed is None else tf.gather(values, listed)


class PreparedWeights(tf.Module):
    """The result of `prepare` as variables, shared by searches and saved in exports.

    Args:
        model: A built model.
        with_output: Same as in `prepare`.
    """

    def __init__(self, model: Transformer, with_output: bool):
        super().__init__(name="prepared_weights")
        prepared = prepare(model, with_output)
        self._variables = [
            tf.Variable(weight, trainable=False)
            for weight in tf.nest.flatten(prepared)
            if weight is not None
        ]
        has_value = tf.nest.map_structure(lambda weight: weight is not None, prepared)
        # A function, because TensorFlow wraps lists and tuples in attributes.
        self._structure = lambda: has_value

    def read(self) -> Prepared:
        """Read the variables in the current graph."""
        values = map(tf.convert_to_tensor, self._variables)
        return tf.nest.map_structure(
            lambda has_value: next(values) if has_value else None, self._structure()
        )

    def read_output(self) -> PackedKernel | None:
        """Read only the pre-softmax kernel, if it is prepared."""
        has_output = any(tf.nest.flatten(self._structure()[1]))
        # It is the last one, and has no bias.
        blocks = self._variables[-1]
        return PackedKernel(tf.convert_to_tensor(blocks)) if has_output else None


class StackedLayers(tf.Module):
    """The weights of a model's layers, each kind stacked in one variable.

    Every function of a graph lists the variables it reads and loading visits each
    entry, so fewer variables load faster.

    Args:
        model: A built model.
    """

    def __init__(self, model: Transformer):
        super().__init__(name="stacked_layers")
        self._stacks: list[tf.Variable] = []
        places: Places = {}
        for same_kind in kinds_of_layers(model):
            for number, variable in enumerate(same_kind):
                places[id(variable)] = len(self._stacks), number
            stack = tf.stack(shared_traces.values(same_kind))
            self._stacks.append(tf.Variable(stack, trainable=False))
        # A function, because TensorFlow wraps dicts in attributes.
        self._places = lambda: places

    def reading(self) -> StoredScope:
        """Return a context in which layers read their weights from the stacks.

        The context caches tensors, so it must be used within a single graph.
        """
        return StoredScope(
            lambda kind: tf.convert_to_tensor(self._stacks[kind]), self._places()
        )


class StoredScope(keras.StatelessScope):
    """Gives variables the values of their kind, those of layers unstacked, each once.

    Args:
        values: Returns the values of a kind by its number.
        places: Of the variables.
    """

    def __init__(self, values: Callable[[int], tf.Tensor], places: Places):
        super().__init__()
        self._values = functools.cache(values)
        self._unstacked = functools.cache(lambda kind: tf.unstack(self._values(kind)))
        self._places = places

    def get_current_value(self, variable: keras.Variable) -> Any:
        if id(variable) not in self._places:
            return super().get_current_value(variable)
        kind, layer = self._places[id(variable)]
        return self._values(kind) if layer is None else self._unstacked(kind)[layer]


def kinds_of_layers(model: Transformer) -> Iterator[tuple[keras.Variable, ...]]:
    """Yield each kind of weight of encoder and decoder: that of every layer."""
    for layers in (model.encoder.layers, model.decoder.layers):
        yield from zip(*(layer.weights for layer in layers), strict=True)
