"""Self-attention restricted to a neighbourhood of each position, §4 and Table 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers.attention import (
    MASKED_LOGIT,
    MultiHeadAttention,
)
from keras_transformer.layers.linear import matmul_transpose_b

Tensor = Any


def neighbourhood(window: int, causal: bool) -> tuple[int, int]:
    """Split a window into the positions before and after the query's own.

    The paper centres the r positions on the query (§4). In a decoder they end at the
    query, because later positions are masked.

    Args:
        window: Positions that a query sees, including its own (paper: r).
        causal: Whether later positions are hidden.

    Raises:
        ValueError: If `window` is below 1.
    """
    config_lib.check_at_least("window", window, 1)
    before = window - 1 if causal else window // 2
    return before, window - 1 - before


def restricted_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    before: int,
    after: int,
    padding: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    pair_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute Eq. 1 where position i attends to i - before to i + after only.

    The sentence is split into blocks as long as the longer side of the window. The
    queries of a block attend to the keys of the same and the neighbouring blocks. Time
    and memory grow with length x (before + after), not with length squared.

    Args:
        query: float `[batch, heads, length, key_dim]`.
        key: float `[batch, heads, length, key_dim]`.
        value: float `[batch, heads, length, value_dim]`.
        before: Positions of the window before the query's own.
        after: Positions of the window after the query's own.
        padding: bool `[batch, length]` or `[batch, heads, length]`, True = real token;
            None: no padding.
        dropout: Applied to the weights; the paper does not use it.
        pair_mask: bool, broadcasts to `[batch, heads, length, length]` (query, key),
            True = may attend.

    Returns:
        The outputs, float `[batch, heads, length, value_dim]`, and the weights in
        blocks, float `[batch, heads, blocks, block, keys]`; `spread` converts them to
        a matrix.
    """
    length = query.shape[2] or ops.shape(query)[2]
    block = max(before, after, 1)
    if padding is None:
        padding = ops.ones_like(query[:1, 0, :, 0], dtype="bool")
    if len(padding.shape) == 2:
        padding = ops.expand_dims(padding, 1)  # equal for all heads
    scale = ops.cast(query.shape[-1] ** -0.5, query.dtype)
    queries = _blocks(query * scale, block)
    keys, values, real = (
        _beside(_blocks(tensor, block), before, after)
        for tensor in (key, value, padding)
    )
    # B batch, H heads, N blocks, T query, S key, V value_dim
    logits = matmul_transpose_b(queries, keys)
    near = _near(block, before, after)  # [T, S]
    keep = ops.logical_and(near, ops.expand_dims(real, 3))  # [B, H or 1, N, T, S]
    if pair_mask is not None:
        pairs = _pairs_in_blocks(pair_mask, length, block, real.shape[-1], before)
        keep = ops.logical_and(keep, pairs)
    logits = ops.where(keep, ops.cast(logits, "float32"), MASKED_LOGIT)
    if logits.shape[-1] == 1:  # one key; Keras's softmax would warn
        weights = ops.ones_like(logits)
    else:
        weights = ops.softmax(logits, axis=-1)
    weights = ops.cast(weights, query.dtype)
    dropped = weights if dropout is None else dropout(weights)
    outputs = ops.einsum("BHNTS,BHNSV->BHNTV", dropped, values)
    batch, heads, num_blocks, _, width = ops.shape(outputs)
    outputs = ops.reshape(outputs, (batch, heads, num_blocks * block, width))
    return outputs[:, :, :length], weights


def blocks_shape(
    length: int | None, before: int, after: int
) -> tuple[int | None, int, int]:
    """Return the sizes of a head's weights in blocks: blocks, queries, keys."""
    block = max(before, after, 1)
    num_blocks = None if length is None else -(-length // block)
    return num_blocks, block, block * (1 + bool(before) + bool(after))


def spread(weights: Tensor, length: int | Tensor, before: int, after: int) -> Tensor:
    """Convert blocks of weights to a matrix of all queries and keys.

    Args:
        weights: From `restricted_attention`.
        length: Positions of the sentence.
        before: Same as in `restricted_attention`.
        after: Same as in `restricted_attention`.

    Returns:
        float `[batch, heads, length, length]`, zero outside of the window.
    """
    batch, heads, num_blocks, block, num_keys = ops.shape(weights)
    rows = ops.reshape(weights, (batch, heads, num_blocks * block, num_keys))
    rows = rows[:, :, :length]
    positions = ops.arange(length)
    first_key = positions // block * block - (block if before else 0)
    column = positions[None, :] - first_key[:, None]  # [query, key]
    inside = ops.logical_and(column >= 0, column < num_keys)
    column = ops.broadcast_to(
        ops.clip(column, 0, num_keys - 1), (batch, heads, length, length)
    )
    found = ops.take_along_axis(rows, column, axis=-1)
    return ops.where(inside, found, ops.zeros_like(found))


@keras.saving.register_keras_serializable(package="keras_transformer")
class RestrictedSelfAttention(MultiHeadAttention):
    """Multi-head self-attention over a neighbourhood of each position, §4.

    Args:
        window: Positions that a query sees, including its own (paper: r).
        causal: Whether the window ends at the query (decoder), or is centred on it.
        **kwargs: Same as in `MultiHeadAttention`.

    Call arguments:
        query: float `[batch, length, d_model]`.
        source: None, or the query itself.
        attention_mask, query_mask, value_mask, key_mask, use_causal_mask, training:
            Same as in `MultiHeadAttention`. Cheapest is a mask of padding: a mask of
            pairs takes memory for all pairs of positions.

    Returns:
        float `[batch, length, d_model]`, and the weights in blocks, see
        `restricted_attention`.

    Raises:
        ValueError: If `window` is below 1, or a `source` other than the query is given.

    Examples:
        >>> attention = kt.layers.RestrictedSelfAttention(
        ...     8, num_heads=2, key_dim=4, value_dim=4, window=3
        ... )
        >>> output, _ = attention(np.ones([2, 11, 8]))
        >>> output.shape.as_list()
        [2, 11, 8]
    """

    def __init__(self, *args, window: int, causal: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.before, self.after = neighbourhood(window, causal)
        self.window = window
        self.causal = causal

    def compute_output_shape(self, query_shape, source_shape=None):
        output_shape, _ = super().compute_output_shape(query_shape)
        blocks = blocks_shape(query_shape[1], self.before, self.after)
        return output_shape, (query_shape[0], self.num_heads, *blocks)

    def attend(self, query, key, value, attention_mask, dropout):
        padding, pair_mask = None, attention_mask
        if attention_mask is not None and attention_mask.shape[2] == 1:
            padding, pair_mask = attention_mask[:, :, 0], None  # equal for all queries
        return restricted_attention(
            *(query, key, value, self.before, self.after), padding, dropout, pair_mask
        )

    def full_weights(self, weights: Tensor, length: int | Tensor) -> Tensor:
        return spread(weights, length, self.before, self.after)

    def _keep(self, query, source, *options):
        if source is not query:
            raise ValueError(
                "Restricted attention is self-attention: a neighbourhood in another "
                "sequence means nothing. Leave `source` out."
            )
        return super()._keep(query, source, *options)

    def get_config(self):
        return {**super().get_config(), "window": self.window, "causal": self.causal}


def _blocks(tensor: Tensor, block: int) -> Tensor:
    """Split axis 2, the length, into `[batch, heads, blocks, block, ...]`."""
    batch, heads, length, *rest = ops.shape(tensor)
    num_blocks = (length + block - 1) // block
    ends = [(0, 0), (0, 0), (0, block - 1)] + [(0, 0)] * len(rest)
    padded = ops.pad(tensor, ends)[:, :, : num_blocks * block]
    return ops.reshape(padded, (batch, heads, num_blocks, block, *rest))


def _beside(blocks: Tensor, before: int, after: int) -> Tensor:
    """Join each block with its neighbours: `[batch, heads, blocks, keys, ...]`."""
    none = ops.zeros_like(blocks[:, :, :1])
    parts = [blocks]
    if before:
        parts.insert(0, ops.concatenate([none, blocks[:, :, :-1]], axis=2))
    if after:
        parts.append(ops.concatenate([blocks[:, :, 1:], none], axis=2))
    return ops.concatenate(parts, axis=3)


def _pairs_in_blocks(pair_mask, length, block, num_keys, before):
    """Take the pairs of `_blocks` and `_beside` from a mask of all pairs.

    Returns:
        bool `[batch, heads, blocks, block, keys]`, False beyond the ends.
    """
    batch, heads = ops.shape(pair_mask)[:2]
    pairs = ops.broadcast_to(pair_mask, (batch, heads, length, length))
    rows = _blocks(pairs, block)  # [B, H, N, T, length]
    num_blocks = (length + block - 1) // block
    first_key = ops.arange(num_blocks) * block - (block if before else 0)
    keys = first_key[:, None] + ops.arange(num_keys)  # [N, S]
    inside = ops.logical_and(keys >= 0, keys < length)[:, None, :]
    columns = ops.broadcast_to(
        ops.clip(keys, 0, length - 1)[:, None, :],
        (batch, heads, num_blocks, block, num_keys),
    )
    return ops.logical_and(inside, ops.take_along_axis(rows, columns, axis=-1))


def _near(block: int, before: int, after: int) -> Tensor:
    """Return which keys of `_beside` are in the window, bool `[block, keys]`."""
    first = -block if before else 0
    last = 2 * block if after else block
    distance = ops.arange(first, last)[None, :] - ops.arange(block)[:, None]
    return ops.logical_and(distance >= -before, distance <= after)
