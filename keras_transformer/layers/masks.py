"""Every attention mask of the model, made in one place (§3.2.3).

True always means "keep": a real token, or a position that may be attended to.
"""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Tell real tokens from padding.

    Args:
        tokens: int32 `[batch, length]`.
        pad_id: The id that fills a row up.

    Returns:
        bool `[batch, length]`, True = real token.
    """
    return ops.not_equal(tokens, pad_id)


def causal_mask(length: int | Tensor) -> Tensor:
    """Let each position see itself and what came before it, §3.2.3.

    Returns:
        bool `[1, length, length]` (query, key), True = may attend.
    """
    positions = ops.arange(length)
    return ops.expand_dims(positions[:, None] >= positions[None, :], 0)


def key_mask(padding: Tensor) -> Tensor:
    """Hide padded keys from every query.

    Args:
        padding: bool `[batch, key_length]`, True = real token.

    Returns:
        bool `[batch, 1, key_length]`, to be used for any number of queries.
    """
    return ops.expand_dims(padding, 1)


def segments(tokens: Tensor, eos_id: int) -> Tensor:
    """Number the sentences that are packed into each row.

    Args:
        tokens: int32 `[batch, length]`, EOS at the end of every sentence and nowhere
            else, then padding.
        eos_id: The id that ends a sentence.

    Returns:
        int32 `[batch, length]`: 0 for the tokens of the first sentence, EOS included,
        then 1, 2, ...; padding has the number after the last.
    """
    ends = ops.cast(ops.equal(tokens, eos_id), "int32")
    return ops.cumsum(ends, axis=1) - ends


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Let each position see its own sentence alone, of those packed into a row.

    It hides padding too, which is a segment of its own.

    Args:
        query_segments: int32 `[batch, query_length]`, from `segments`.
        key_segments: int32 `[batch, key_length]`, likewise.

    Returns:
        bool `[batch, query_length, key_length]`, True = may attend.
    """
    return ops.equal(query_segments[:, :, None], key_segments[:, None, :])
