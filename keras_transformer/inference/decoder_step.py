"""One token of every hypothesis through the decoder, in the order of Figure 1.

`layers/` implements the paper for whole sentences. A step of a search has one new
position per hypothesis, and other layouts are faster: heads before positions, joined
projections, packed kernels, one trace for all layers. So this module implements the
decoder a second time, as a pure function of prepared weights and the cache. Both give
equal logits for every option of `ModelConfig`: tests/inference/test_decoder_step.py.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.decoding.working_set import Past, trace_once
from keras_transformer.inference import (
    int8_product,
    kv_cache,
    packed_kernels,
    shared_traces,
    sublayers,
)
from keras_transformer.inference.int8_product import Int8Matrix
from keras_transformer.inference.kv_cache import CacheArea, LayerCache
from keras_transformer.inference.packed_kernels import PackedKernel
from keras_transformer.inference.sublayers import Norm, Transpose
from keras_transformer.layers.attention import added_mask
from keras_transformer.layers.linear import matmul_transpose_b
from keras_transformer.layers.positional_encoding import sinusoidal_encoding

# The packed pre-softmax kernel is used for at most this many rows. With 37,000 x 512
# weights in float32, TensorFlow on two cores with AVX2 then takes 4.2 ms instead of 6.5
# for 4 rows and 6.6 instead of 8.4 for 16; it would take 33 instead of 31 for 128.
FEW_ROWS = 16
# The same in a program, which has it whole. With 8,000 x 128 weights on two cores 4
# rows take 0.10 ms instead of 0.17 with AVX-512, and 5 rows 0.15 either way.
_FEW_ROWS_OF_PROGRAM = 5


class LayerWeights(NamedTuple):
    """The weights of one decoder layer, or of all layers stacked on the first axis."""

    self_attention: list[PackedKernel]  # query, key and value
    self_attention_output: PackedKernel
    cross_attention: list[PackedKernel]  # query
    cross_attention_output: PackedKernel
    feed_forward: tuple[PackedKernel, PackedKernel]
    norms: tuple[Norm, Norm, Norm]


class StepWeights(NamedTuple):
    """All weights that a step reads."""

    embeddings: tf.Tensor | Int8Matrix  # [vocab_size, d_model], target embedding
    positions: tf.Tensor | None  # [num_positions, d_model], if learned
    embedding_norm: Norm | None  # of `normalize_embeddings`
    layers: LayerWeights | list[LayerWeights]  # stacked; under XLA each layer's
    final_norm: Norm | None  # of pre-norm models
    # [vocab_size, d_model], pre-softmax map. Of a shortlist, its rows: then the step
    # gives their logits.
    output: tf.Tensor | Int8Matrix
    output_bias: tf.Tensor | None
    packed_output: PackedKernel | None  # copy of `output`, transposed, for few rows
    is_output_constant: bool = True  # of integers: whether all searches have the same

    @property
    def has_integers(self) -> bool:
        """Whether matrices are of integers.

        Each of their products keeps its matrix, so layers must not share a trace, which
        TensorFlow does not always inline.
        """
        return isinstance(self.output, Int8Matrix)

    @property
    def is_for_xla(self) -> bool:
        """Whether they are from `prepared_weights.for_xla`."""
        return isinstance(self.layers, list)


class StepInputs(NamedTuple):
    """The inputs of a step that are equal for all layers."""

    beam_size: int | tf.Tensor
    # Where keys and values are written; under XLA the first column.
    areas: tuple[CacheArea, CacheArea] | tuple[tf.Tensor, tf.Tensor]
    past_mask: tf.Tensor  # float32 [batch, 1, beam, columns], from `added_mask`
    memory_mask: tf.Tensor  # float32 [batch, 1, 1, source_length], from `added_mask`


def decode_step(
    config: ModelConfig,
    weights: StepWeights,
    tokens: tf.Tensor,
    step: tf.Tensor,
    past: Past,
    source: dict[str, Any],
    cache: list[LayerCache],
) -> tuple[tf.Tensor, list[LayerCache]]:
    """Decode one token of each hypothesis.

    Slot k of the beam writes its keys and values to column `past.first_column + k` of
    the cache. Columns are never moved: a hypothesis finds its own past by
    `past.ancestry`. Under XLA only with weights from `prepared_weights.for_xla`.

    Args:
        config: Configuration of the model.
        weights: From `prepared_weights.step_weights`.
        tokens: int32 `[batch, beam]`: the previous token (BOS at step 0).
        step: int32 scalar, from 0.
        past: The columns of the cache that each hypothesis reads, and where to write.
        source: From `full_pass.start`.
        cache: From `kv_cache.empty`, later from the previous step.

    Returns:
        Logits of the next token, float32 `[batch, beam, size]`, and the cache.
        `size` is that of the vocabulary, or of a shortlist.
    """
    beam_size = tokens.shape[1] or tf.shape(tokens)[1]
    x = _embed(config, weights, tokens, step)  # [batch * beam, d_model]
    if weights.is_for_xla:
        layers, areas = weights.layers, (past.first_column, past.first_column)
    else:
        layers = shared_traces.unstacked(weights.layers, config.decoder_depth)
        num_columns = tf.shape(past.ancestry)[2]
        areas = kv_cache.areas(
            config, past.first_column, num_columns, beam_size, x.dtype
        )
    inputs = StepInputs(
        beam_size,
        areas,
        past_mask=added_mask(_visible(config, past, step)),
        memory_mask=added_mask(source["mask"]),
    )
    # XLA moves a transpose into the products beside it.
    transpose = tf.transpose if weights.is_for_xla else packed_kernels.transpose
    layer_step = functools.partial(_layer_step, config, transpose)
    if not weights.has_integers:
        layer_step = trace_once(layer_step)
    new_cache = []
    for own_weights, memory, layer_cache in zip(
        layers, source["memory"], cache, strict=True
    ):
        x, layer_cache = layer_step(x, own_weights, inputs, memory, layer_cache)
        new_cache.append(layer_cache)
    if weights.final_norm is not None:
        x = sublayers.normalize(config, x, weights.final_norm)
    logits = _logits(weights, x)
    size = logits.shape[-1] or tf.shape(logits)[-1]
    return tf.reshape(logits, (-1, beam_size, size)), new_cache


def _embed(config, weights, tokens, step) -> tf.Tensor:
    """Embed tokens and add their position, §3.4, §3.5: `[batch * beam, d_model]`."""
    tokens = tf.reshape(tokens, [-1])
    x = int8_product.rows(weights.embeddings, tokens)
    x *= tf.cast(math.sqrt(config.d_model), x.dtype)
    if config.zero_first_input:
        x = tf.where((tokens == config.bos_id)[:, tf.newaxis], tf.zeros_like(x), x)
    if weights.positions is not None:
        position = tf.gather(weights.positions, step)
    else:
        position = sinusoidal_encoding(
            step + config.first_position, config.d_model, config.position_layout
        )
    x += tf.cast(position, x.dtype)
    if weights.embedding_norm is not None:
        x = sublayers.normalize(config, x, weights.embedding_norm)
    return x


def _visible(config, past, step) -> tf.Tensor:
    """Return the columns hypotheses attend to, bool `[batch, beam, columns]`."""
    if config.attention_window is None:
        return past.ancestry
    is_near = past.steps > step - config.attention_window
    return past.ancestry & is_near[:, tf.newaxis]


def _layer_step(
    config: ModelConfig,
    transpose: Transpose,
    x: tf.Tensor,
    weights: LayerWeights,
    inputs: StepInputs,
    memory: tuple[tf.Tensor, tf.Tensor],
    cache: LayerCache,
) -> tuple[tf.Tensor, LayerCache]:
    """Apply one decoder layer to one token per hypothesis, right half of Figure 1.

    Args:
        config: Configuration of the model.
        transpose: Transposes the heads.
        x: float `[batch * beam, d_model]`.
        weights: Weights of this layer.
        inputs: Inputs of the step.
        memory: Keys and values of the encoder output, from `sublayers.memory`.
        cache: Keys and values of earlier steps.

    Returns:
        float `[batch * beam, d_model]`, and the cache including this step.
    """

    def self_attention(x):
        nonlocal cache
        query, *new = sublayers.project(
            config, transpose, x, weights.self_attention, inputs.beam_size
        )
        cache = tuple(map(kv_cache.write, cache, new, inputs.areas))
        return sublayers.attend(
            config,
            transpose,
            query,
            *cache,
            inputs.past_mask,
            weights.self_attention_output,
        )

    def cross_attention(x):
        (query,) = sublayers.project(
            config, transpose, x, weights.cross_attention, inputs.beam_size
        )
        return sublayers.attend(
            config,
            transpose,
            query,
            *memory,
            inputs.memory_mask,
            weights.cross_attention_output,
            has_transposed_key=True,
        )

    def feed_forward(x):
        return sublayers.feed_forward(config, x, weights.feed_forward)

    for sublayer, norm in zip(
        (self_attention, cross_attention, feed_forward), weights.norms, strict=True
    ):
        x = sublayers.residual(config, x, sublayer, norm)
    return x, cache


def _logits(weights: StepWeights, x: tf.Tensor) -> tf.Tensor:
    """Map `[batch * beam, d_model]` to logits, float32 `[batch * beam, size]`.

    `size` is that of the vocabulary, or of a shortlist.
    """

    def by_matrix():
        if weights.is_for_xla:
            # On a CPU 16 rows take 2.0 ms instead of 3.4 the other way round, 4 rows
            # as long (8,000 words, AVX2).
            return tf.transpose(matmul_transpose_b(weights.output, x))
        # As a batch of one: on a CPU TensorFlow's product of plain matrices, one of
        # them transposed, takes 1.5 times as long (128 rows, 37,000 words).
        logits = matmul_transpose_b(x[tf.newaxis], weights.output)[0]
        return tf.ensure_shape(logits, [None, weights.output.shape[0]])

    if weights.has_integers:
        logits = int8_product.multiply(
            x,
            weights.output,
            transpose_b=True,
            is_constant=weights.is_output_constant,
        )
    elif weights.packed_output is None:
        logits = by_matrix()
    else:
        size = weights.output.shape[0]
        most = _FEW_ROWS_OF_PROGRAM if weights.is_for_xla else FEW_ROWS
        logits = tf.cond(
            tf.shape(x)[0] <= most,
            lambda: packed_kernels.multiply(x, weights.packed_output)[:, :size],
            by_matrix,
        )
    logits = tf.cast(logits, tf.float32)
    if weights.output_bias is None:
        return logits
    return logits + tf.cast(weights.output_bias, tf.float32)
