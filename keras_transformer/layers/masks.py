"""All attention masks of the model (§3.2.3).

True always means "keep": a real token, or a position that may be attended to.
"""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Return which tokens are not padding.

    Args:
        tokens: int32 `[batch, length]`.
        pad_id: The id of padding.

    Returns:
        bool `[batch, length]`, True = real token.
    """
    return ops.not_equal(tokens, pad_id)


def causal_mask(length: int | Tensor) -> Tensor:
    """Allow each position to attend to itself and earlier positions, §3.2.3.

    Returns:
        bool `[1, length, length]` (query, key), True = may attend.
    """
    positions = ops.arange(length)
    return ops.expand_dims(positions[:, None] >= positions[None, :], 0)


def key_mask(padding: Tensor) -> Tensor:
    """Mask padded keys for every query.

    Args:
        padding: bool `[batch, key_length]`, True = real token.

    Returns:
        bool `[batch, 1, key_length]`; broadcasts over queries.
    """
    return ops.expand_dims(padding, 1)


def segments(tokens: Tensor, eos_id: int) -> Tensor:
    """Number the sentences that are packed into each row.

    Args:
        tokens: int32 `[batch, length]`: sentences, each ending in its only EOS, then
            padding.
        eos_id: The id of EOS.

    Returns:
        int32 `[batch, length]`: 0 for the first sentence including its EOS, then 1, 2,
        ...; padding has the next number.
    """
    ends = ops.cast(ops.equal(tokens, eos_id), "int32")
    return ops.cumsum(ends, axis=1) - ends


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Allow each position to attend to its own sentence of a packed row.

    Also masks padding, which is a separate segment.

    Args:
        query_segments: int32 `[batch, query_length]`, from `segments`.
        key_segments: int32 `[batch, key_length]`, from `segments`.

    Returns:
        bool `[batch, query_length, key_length]`, True = may attend.
    """
    return ops.equal(query_segments[:, :, None], key_segments[:, None, :])
