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
