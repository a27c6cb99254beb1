"""All attention masks of the model (§3.2.3).

True always means "keep": a real token, or a position that may be attended to.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops

Tensor = Any


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Return which tokens are not padding.

    Args:
        tokens: int32 `[batch, length]`.
        pad_id: The id of padding.

    Returns:
        bool `[batch, length]`, True = real token.

    Examples:
        >>> np.asarray(kt.layers.padding_mask(np.array([[5, 3, 0]]), pad_id=0)).tolist()
        [[True, True, False]]
    """
    return ops.not_equal(tokens, pad_id)


def causal_mask(length: int | Tensor, key_length: int | Tensor | None = None) -> Tensor:
    """Allow each position to attend to itself and earlier positions, §3.2.3.

    Args:
        length: int or int32 scalar; or the sequence itself, `[batch, length, ...]`,
            also a `keras.Input` of unknown length.
        key_length: The same for the keys, where they are another sequence.

    Returns:
        bool `[1, length, key_length]` (query, key), True = may attend.

    Raises:
        ValueError: If `length` is None.

    Examples:
        >>> np.asarray(kt.layers.causal_mask(3))[0].astype(int).tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    queries = _positions(length)
    keys = queries if key_length is None else _positions(key_length)
    return ops.expand_dims(queries[:, None] >= keys[None, :], 0)


def key_mask(padding: Tensor) -> Tensor:
    """Mask padded keys for every query.

    Args:
        padding: bool `[batch, key_length]`, True = real token.

    Returns:
        bool `[batch, 1, key_length]`; broadcasts over queries.

    Examples:
        >>> padding = kt.layers.padding_mask(np.array([[5, 3, 0]]), pad_id=0)
        >>> kt.layers.key_mask(padding).shape.as_list()
        [1, 1, 3]
    """
    return ops.expand_dims(padding, 1)


def keras_mask(sequence: Tensor) -> Tensor | None:
    """Return the mask that Keras keeps at a sequence, bool `[batch, length]`, or None.

    Keras itself hands `mask` only to layers that get a single tensor.
    """
    return getattr(sequence, "_keras_mask", None)


def masked(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """Return the sequence with this mask, bool `[batch, length]`; None: with its own.

    The given sequence keeps what it has.
    """
    if mask is None or mask is keras_mask(sequence):
        return sequence
    mask = ops.convert_to_tensor(mask)
    check_padding_mask(mask, sequence)
    sequence = ops.copy(sequence)
    sequence._keras_mask = mask
    return sequence


def check_padding_mask(mask: Tensor, sequence: Tensor) -> None:
    """Check that a Keras mask has the shape `[batch, length]` of a sequence."""
    if len(mask.shape) != 2 or not _fits(tuple(mask.shape), tuple(sequence.shape[:2])):
        raise ValueError(
            "A mask of padding must have the shape [batch, length]. Received: "
            f"shape={tuple(mask.shape)} for a sequence {list(sequence.shape)}. For "
            "pairs of query and key, give `attention_mask`."
        )


def with_heads(
    attention_mask: Tensor, query: Tensor, source: Tensor, num_heads: int
) -> Tensor:
    """Return an attention mask as bool, with an axis for the heads.

    Args:
        attention_mask: bool, integers or floats of 0 and 1, `[query_length,
            key_length]`, `[batch, query_length, key_length]` or `[batch, heads,
            query_length, key_length]`; 1 in place of a size, but not of `key_length`,
            stands for all. True or 1 = may attend.
        query: The sequence that attends, `[batch, query_length, ...]`.
        source: The sequence that is attended to, `[batch, key_length, ...]`.
        num_heads: Number of heads (paper: h).

    Returns:
        bool, four axes, broadcasts to `[batch, heads, query_length, key_length]`.

    Raises:
        ValueError: If the mask has another shape.
    """
    mask = ops.convert_to_tensor(attention_mask)
    shape, queries = tuple(mask.shape), query.shape[1]
    sizes = {
        2: (queries, source.shape[1]),
        3: (query.shape[0], queries, source.shape[1]),
        4: (query.shape[0], num_heads, queries, source.shape[1]),
    }.get(len(shape))
    # Of two axes, an unknown first one is a batch's: that mask is one of padding.
    is_batch = len(shape) == 2 and shape[0] is None and queries is not None
    if sizes is None or is_batch or not _fits(shape, sizes):
        raise ValueError(
            "`attention_mask` must have the shape [query, key], [batch, query, key] or "
            f"[batch, heads, query, key]. Received: shape={shape} for queries "
            f"{list(query.shape)}."
        )
    if len(shape) < 4:
        mask = ops.expand_dims(mask, 1 if len(shape) == 3 else (0, 1))
    return mask if ops.dtype(mask) == "bool" else ops.cast(mask, "bool")


def combined(*parts: Tensor | None) -> Tensor | None:
    """Return what all masks keep; None: keeps everything."""
    given = [part for part in parts if part is not None]
    return functools.reduce(ops.logical_and, given) if given else None


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


def _positions(length: int | Tensor) -> Tensor:
    """Return 0, 1, ..., `length` - 1."""
    if length is None:
        raise ValueError(
            "`length` must be an integer, or a tensor [batch, length, ...]. Received: "
            "None, the unknown length of a symbolic tensor. Pass that tensor itself."
        )
    axes = range(len(getattr(length, "shape", ())))
    if len(axes) < 2:
        return ops.arange(length)
    if length.shape[1] is None and isinstance(length, keras.KerasTensor):
        # A size that is not known yet is no tensor: count along the axis.
        others = [axis for axis in axes if axis != 1]
        zeros = ops.sum(ops.zeros_like(length, dtype="int32"), axis=others)
        return ops.cumsum(zeros + 1) - 1
    return ops.arange(length.shape[1] or ops.shape(length)[1])


def _fits(shape: tuple, sizes: tuple) -> bool:
    """Whether a mask's shape broadcasts to these sizes, None being any size."""
    keys = len(shape) - 1
    return all(
        None in (size, wanted) or size == wanted or (size == 1 and axis != keys)
        for axis, (size, wanted) in enumerate(zip(shape, sizes, strict=True))
    )
