"""The parts of a layer on rows of positions, with prepared weights, Figure 1.

A row is a position of a sentence or of a hypothesis. "Beam" means the positions that
a batch has for each sentence: in the encoder those of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference import packed_kernels
from keras_transformer.inference.packed_kernels import PackedKernel
from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.layers.layer_norm import layer_norm
from keras_transformer.layers.linear import reshape

Norm = tuple[tf.Tensor, tf.Tensor]  # gamma and beta, float32 [d_model]
Transpose = Callable[[tf.Tensor, tuple[int, ...]], tf.Tensor]


def feed_forward(
    config: ModelConfig, x: tf.Tensor, kernels: tuple[PackedKernel, PackedKernel]
) -> tf.Tensor:
    """Apply the feed-forward network, Eq. 2, to float `[rows, d_model]`."""
    hidden, output = kernels
    activation = keras.activations.get(config.activation)
    return packed_kernels.multiply(
        activation(packed_kernels.multiply(x, hidden)), output
    )


def residual(
    config: ModelConfig, x: tf.Tensor, sublayer: Callable, norm: Norm
) -> tf.Tensor:
    """Add the residual and normalize, §3.1: `layers.residual` without dropout."""
    if config.norm_placement == "pre":
        return x + sublayer(normalize(config, x, norm))
    return normalize(config, x + sublayer(x), norm)


def normalize(config: ModelConfig, x: tf.Tensor, norm: Norm) -> tf.Tensor:
    """Normalize each row in float32: `layers.layer_norm`."""
    gamma, beta = (tf.cast(part, tf.float32) for part in norm)
    normalized = layer_norm(
        tf.cast(x, tf.float32), gamma, beta, config.layer_norm_epsilon
    )
    return tf.cast(normalized, x.dtype)


def project(
    config: ModelConfig,
    transpose: Transpose,
    inputs: tf.Tensor,
    kernels: list[PackedKernel],
    beam_size: int | tf.Tensor,
) -> list[tf.Tensor]:
    """Project rows and split the heads.

    Args:
        config: Configuration of the model.
        transpose: Transposes the heads.
        inputs: float `[batch * beam, d_model]`.
        kernels: The projections, those of equal width joined in one kernel. Values of
            another width than queries and keys come last.
        beam_size: Rows of each sentence.

    Returns:
        For each projection float `[batch, heads, beam, width]`.
    """
    projected = []
    dims = (config.head_key_dim, config.head_value_dim)
    for kernel, dim in zip(kernels, dims, strict=False):
        heads = (config.num_heads, dim)
        split = _whole_heads if kernel.is_whole else _packed_heads
        projected += tf.unstack(split(transpose, inputs, kernel, heads, beam_size))
    return projected


def memory(
    transpose: Transpose, key: tf.Tensor, value: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return keys and values of an encoder output as a step reads them.

    Keys are transposed once, as no step adds any: on a CPU a step's product with them
    then takes 0.4 to 0.9 of the time.

    Args:
        transpose: Transposes tensors.
        key: float `[batch, heads, source_length, key_dim]`.
        value: float `[batch, heads, source_length, value_dim]`.

    Returns:
        float `[batch, heads, key_dim, source_length]` and `value`.
    """
    return transpose(key, (0, 1, 3, 2)), value


def _whole_heads(transpose, inputs, kernel, heads, beam_size) -> tf.Tensor:
    """Map to `[projections, batch, heads, beam, width]`."""
    product = packed_kernels.multiply(inputs, kernel)
    num_heads, width = heads
    count = product.shape[-1] // (num_heads * width)
    split = reshape(product, (-1, beam_size, count, num_heads, width))
    return transpose(split, (2, 0, 3, 1, 4))


def _packed_heads(transpose, inputs, kernel, heads, beam_size) -> tf.Tensor:
    """Same as `_whole_heads`, for a kernel in blocks."""
    product = packed_kernels.multiply_blocks(inputs, kernel)
    num_heads, dim = heads
    width = product.shape[-1]
    if kernel.bias is not None:
        product = product + tf.reshape(kernel.bias, (-1, 1, width))
    blocks_of_head = dim // width
    count = kernel.blocks.shape[0] // (num_heads * blocks_of_head)
    sizes = (count, num_heads, blocks_of_head, -1, beam_size, width)
    split = transpose(reshape(product, sizes), (0, 3, 1, 4, 2, 5))
    return tf.reshape(split, (count, -1, num_heads, beam_size, dim))


def attend(
    config: ModelConfig,
    transpose: Transpose,
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask_term: tf.Tensor,
    output: PackedKernel,
    has_transposed_key: bool = False,
) -> tf.Tensor:
    """Attend and join the heads, Eq. 1 and §3.2.2.

    Args:
        config: Configuration of the model.
        transpose: Transposes the heads.
        query: float `[batch, heads, beam, key_dim]`.
        key: float `[batch, heads, key_length, key_dim]`.
        value: float `[batch, heads, key_length, value_dim]`.
        mask_term: From `added_mask`.
        output: Projection of the joined heads.
        has_transposed_key: Same as in `scaled_dot_product_attention`.

    Returns:
        float `[batch * beam, d_model]`.
    """
    batch, _, beam_size, _ = query.shape
    heads, _ = scaled_dot_product_attention(
        query,
        key,
        value,
        mask_term=mask_term,
        has_transposed_key=has_transposed_key,
    )
    joined = transpose(heads, (0, 2, 1, 3))
    # A known number of rows must stay known: shapes in a loop must not change.
    num_rows = batch * beam_size if batch and beam_size else -1
    joined = tf.reshape(joined, (num_rows, config.num_heads * config.head_value_dim))
    return packed_kernels.multiply(joined, output)
