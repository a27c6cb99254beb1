"""A model's weights as 8-bit integers: stored once, read in three ways.

A search on a CPU that is fast with them multiplies the integers themselves, in the
encoder too. On any other it reads floats, which are computed once, when an export is
loaded. What runs the layers on whole sentences reads floats that are computed anew in
each call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference import (
    int8_product,
    packed_kernels,
    prepared_weights,
    shared_traces,
    sublayers,
)
from keras_transformer.inference.decoder_step import StepWeights
from keras_transformer.inference.int8_product import Int8Matrix
from keras_transformer.inference.loaded_tensors import WithoutInt8
from keras_transformer.inference.packed_kernels import PackedKernel
from keras_transformer.inference.prepared_weights import Places, StoredScope
from keras_transformer.inference.sublayers import Norm
from keras_transformer.layers import masks
from keras_transformer.layers.attention import added_mask
from keras_transformer.layers.restricted_attention import neighbourhood
from keras_transformer.model.transformer import Transformer


class EncoderLayerWeights(NamedTuple):
    """The weights of one encoder layer, or of all layers stacked on the first axis."""

    self_attention: list[PackedKernel]  # query, key and value
    self_attention_output: PackedKernel
    feed_forward: tuple[PackedKernel, PackedKernel]
    norms: tuple[Norm, Norm]


class QuantizedWeights(tf.Module):
    """A model's embeddings and layers, the matrices as integers of 8 bits.

    Vectors, such as biases, and a table of learned positions stay floats.

    Args:
        model: A built model.
    """

    def __init__(self, model: Transformer):
        super().__init__(name="quantized_weights")
        self._model = model
        self._parts: list[tf.Variable] = []
        # Of each kind: its variable, or an `Int8Matrix` of two.
        kinds: list[tf.Variable | Int8Matrix] = []
        places: Places = {}
        for same_kind in prepared_weights.kinds_of_layers(model):
            for number, variable in enumerate(same_kind):
                places[id(variable)] = len(kinds), number
            stack = tf.stack(shared_traces.values(same_kind))
            is_matrix = stack.shape.rank == 3
            kinds.append(self._store(stack, axis=-2 if is_matrix else None))
        for layer in (model.embedding, model.target_embedding, model.output_embedding):
            if id(layer.embeddings) not in places:  # not shared
                places[id(layer.embeddings)] = len(kinds), None
                (table,) = shared_traces.values([layer.embeddings])
                kinds.append(self._store(table, axis=-1))
        # Functions, because TensorFlow wraps lists and dicts in attributes.
        self._kinds, self._places = (lambda: kinds), (lambda: places)

    def _store(self, value: tf.Tensor, axis: int | None) -> tf.Variable | Int8Matrix:
        """Make a variable, or those of an `Int8Matrix` with ranges over an axis."""
        values = [value] if axis is None else int8_product.quantized(value, axis)
        variables = [tf.Variable(value, trainable=False) for value in values]
        self._parts += variables
        return variables[0] if axis is None else Int8Matrix(*variables)

    @property
    def num_kinds(self) -> int:
        """Number of kinds of weights."""
        return len(self._kinds())

    def floats(self) -> list[tf.Tensor]:
        """Compute the floats of all kinds, in their order."""
        return [self._float(number) for number in range(self.num_kinds)]

    def reading(self, floats: Callable[[int], tf.Tensor] | None = None) -> StoredScope:
        """Return a context in which layers read floats.

        The context caches tensors, so it must be used within a single graph.

        Args:
            floats: Returns the floats of a kind by its number; None: computes them.
        """
        return StoredScope(floats or self._float, self._places())

    def start(self, source_tokens: tf.Tensor) -> dict[str, Any]:
        """Encode with products of integers; same as `full_pass.start`."""
        model, config = self._model, self._model.config
        transpose = packed_kernels.transpose
        length = tf.shape(source_tokens)[1]
        mask = masks.key_mask(masks.padding_mask(source_tokens, config.pad_id))
        step = functools.partial(
            _encoder_layer, config, transpose, length, _visible(config, mask, length)
        )
        x = self._embed(source_tokens)
        for weights in shared_traces.unstacked(self._encoder(), config.encoder_depth):
            x = step(x, weights)
        if (norm := model.encoder.norm) is not None:
            x = sublayers.normalize(config, x, prepared_weights.norm_weights(norm))
        memory = [
            sublayers.memory(
                transpose, *sublayers.project(config, transpose, x, kernels, length)
            )
            for kernels in shared_traces.unstacked(
                self._sources(), config.decoder_depth
            )
        ]
        return {"memory": memory, "mask": mask}

    def step_weights(self, listed: tf.Tensor | None = None) -> StepWeights:
        """Return the weights of a step; same as `prepared_weights.step_weights`."""
        with _StackScope(self):
            layers = prepared_weights.layer_weights(
                self._model.decoder.layers[0], self._pack
            )
        weights = prepared_weights.step_weights(
            self._model, (layers, None), listed, self._table
        )
        return weights._replace(is_output_constant=listed is None)

    def _read(self, variable: keras.Variable) -> tf.Tensor | Int8Matrix:
        """Read a variable; of those in layers all layers' at once."""
        number, _ = self._places()[id(variable)]
        return tf.nest.map_structure(tf.convert_to_tensor, self._kinds()[number])

    def _float(self, number: int) -> tf.Tensor:
        kind = tf.nest.map_structure(tf.convert_to_tensor, self._kinds()[number])
        if not isinstance(kind, Int8Matrix):
            return kind
        is_table = kind.values.shape.rank == 2
        return int8_product.dequantized(kind, axis=-1 if is_table else -2)

    def _table(
        self, embedding: keras.layers.Layer, listed: tf.Tensor | None = None
    ) -> Int8Matrix:
        """Return the matrix of an embedding, or its rows `listed`."""
        table = self._read(embedding.embeddings)
        if listed is None:
            return table
        return Int8Matrix(*(tf.gather(part, listed) for part in table))

    def _pack(self, layers: Sequence[keras.layers.Dense], unit: int) -> PackedKernel:
        """Join linear maps of the same input: `packed_kernels.whole` of all layers."""
        del unit
        parts = zip(*(self._read(layer.kernel) for layer in layers), strict=True)
        values, ranges = (tf.concat(part, axis=-1) for part in parts)
        bias = None
        if layers[0].use_bias:
            bias = tf.concat([self._read(layer.bias) for layer in layers], axis=-1)
        return PackedKernel(values, bias, ranges)

    def _encoder(self) -> EncoderLayerWeights:
        layer = self._model.encoder.layers[0]
        residuals = (layer.self_attention_residual, layer.ffn_residual)
        with _StackScope(self):
            return EncoderLayerWeights(
                *prepared_weights.own_attention(self._pack, layer.self_attention),
                prepared_weights.feed_forward(self._pack, layer.ffn),
                tuple(prepared_weights.norm_weights(each.norm) for each in residuals),
            )

    def _sources(self) -> list[PackedKernel]:
        """Return what maps encoder outputs to keys and values, of all layers."""
        attention = self._model.decoder.layers[0].cross_attention
        return prepared_weights.projections(self._pack, attention, "key", "value")

    def _embed(self, tokens: tf.Tensor) -> tf.Tensor:
        """Embed the source, §3.4, §3.5: `[batch * source_length, d_model]`."""
        model, width = self._model, self._model.config.d_model
        x = int8_product.rows(self._table(model.embedding), tokens)
        x = model.source_positions(x * math.sqrt(width))
        if model.source_norm is not None:
            x = model.source_norm(x)
        return tf.reshape(x, (-1, width))


class _StackScope(keras.StatelessScope):
    """Gives the variables of a first layer the values of all layers, stacked."""

    def __init__(self, weights: QuantizedWeights):
        super().__init__()
        self._weights = weights

    def get_current_value(self, variable: keras.Variable) -> Any:
        return self._weights._read(variable)


class FloatWeights:
    """The floats of quantized weights, where a search does not multiply integers.

    Args:
        model: The model.
        quantized: Its quantized weights.
        with_output: Same as in `prepared_weights.prepare`.
    """

    def __init__(
        self, model: Transformer, quantized: QuantizedWeights, with_output: bool
    ):
        self._quantized = quantized
        # The structure of prepared weights, known when `compute` was traced.
        self._has_value: Any = None

        def compute():
            floats = quantized.floats()
            with quantized.reading(floats.__getitem__):
                prepared = prepared_weights.prepare(model, with_output)
            self._has_value = tf.nest.map_structure(
                lambda weight: weight is not None, prepared
            )
            packed = [part for part in tf.nest.flatten(prepared) if part is not None]
            return [*floats, *packed]

        self.loaded = WithoutInt8(compute)

    def reading(self) -> StoredScope:
        """Same as `QuantizedWeights.reading`."""
        floats = self.loaded.tensors
        return self._quantized.reading(lambda number: floats[number].read())

    def prepared(self) -> prepared_weights.Prepared:
        """Same as `PreparedWeights.read`."""
        packed = iter(self.loaded.tensors[self._quantized.num_kinds :])
        return tf.nest.map_structure(
            lambda has_value: next(packed).read() if has_value else None,
            self._has_value,
        )


def _visible(config: ModelConfig, mask: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Return the mask that is added in the encoder, of a restricted attention too."""
    if config.attention_window is not None:
        sides = neighbourhood(config.attention_window, causal=False)
        mask &= tf.linalg.band_part(tf.ones([length, length], tf.int32), *sides) > 0
    return added_mask(mask)


def _encoder_layer(config, transpose, length, mask_term, x, weights) -> tf.Tensor:
    """Apply one encoder layer to `[batch * length, d_model]`, left half of Figure 1."""

    def self_attention(x):
        heads = sublayers.project(config, transpose, x, weights.self_attention, length)
        return sublayers.attend(
            config, transpose, *heads, mask_term, weights.self_attention_output
        )

    def feed_forward(x):
        return sublayers.feed_forward(config, x, weights.feed_forward)

    for sublayer, norm in zip(
        (self_attention, feed_forward), weights.norms, strict=True
    ):
        x = sublayers.residual(config, x, sublayer, norm)
    return x
