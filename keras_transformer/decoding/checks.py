"""Checks of the arguments of `beam_search` and of the results of the step function."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_transformer.config import DecodingConfig, check_at_least


def check_arguments(
    max_lengths: tf.Tensor,
    max_steps: int | tf.Tensor,
    config: DecodingConfig,
    eos_id: int,
    pad_id: int,
    num_best: int | tf.Tensor,
    steps_at_once: int | None,
) -> None:
    """Raise ValueError or TypeError if arguments of `beam_search` are not valid."""
    if not max_lengths.dtype.is_integer or max_lengths.shape.rank != 1:
        raise ValueError(
            "`max_lengths` must be int32 with shape [batch]. Received: "
            f"dtype={max_lengths.dtype.name}, shape={max_lengths.shape}."
        )
    if not tf.is_tensor(max_steps):
        check_at_least("max_steps", max_steps, 1)
    if steps_at_once is not None:
        check_at_least("steps_at_once", steps_at_once, 1)
    if not tf.is_tensor(num_best) and not 1 <= num_best <= config.beam_size:
        raise ValueError(
            "`num_best` must be at least 1 and at most `beam_size`. "
            f"Received: num_best={num_best}, beam_size={config.beam_size}."
        )
    if eos_id == pad_id:
        raise ValueError(
            "`pad_id` and `eos_id` must differ, or the end of an output is lost in its "
            f"padding. Received: pad_id={pad_id}, eos_id={eos_id}."
        )


def checked_prefix(
    forced_prefix: tf.Tensor | None, max_lengths: tf.Tensor
) -> tf.Tensor:
    """Return the forced prefix as int32 `[batch, prefix_length]`; `[batch, 0]` if None.

    ValueError if it has another dtype or shape.
    """
    if forced_prefix is None:
        return tf.zeros([tf.shape(max_lengths)[0], 0], tf.int32)
    prefix = tf.convert_to_tensor(forced_prefix)
    batch = max_lengths.shape[:1]
    is_shaped = prefix.shape.rank == 2 and prefix.shape[:1].is_compatible_with(batch)
    if not (is_shaped and prefix.dtype.is_integer):
        raise ValueError(
            "`forced_prefix` must be int32 with shape [batch, prefix_length]. "
            f"Received: dtype={prefix.dtype.name}, shape={prefix.shape}."
        )
    return tf.cast(prefix, tf.int32)


def checked_answer(
    answer: Any, old_cache: Any, num_slots: int | None, eos_id: int
) -> tuple[tf.Tensor, Any]:
    """Return the results of `step_fn`: float32 logits, and the cache.

    Raises:
        ValueError: If the logits have a wrong shape or dtype or no `eos_id`, or if the
            cache has another structure than `old_cache`.
    """
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ValueError(
            f"`step_fn` must return (logits, cache). Received: {type(answer).__name__}."
        )
    logits, cache = tf.convert_to_tensor(answer[0]), answer[1]
    _check_logits(logits, num_slots, eos_id)
    try:
        cache = tf.nest.map_structure(_in_old_shape, cache, old_cache)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`step_fn` must return the cache with the structure, dtypes and shapes "
            f"it was given. Received: {error}"
        ) from error
    return tf.cast(logits, tf.float32), cache


def _check_logits(logits, num_slots, eos_id):
    is_shaped = logits.shape.rank == 3 and logits.shape[1] == num_slots
    if not (is_shaped and logits.shape[2] != 0 and logits.dtype.is_floating):
        slots = "beam" if num_slots is None else num_slots
        raise ValueError(
            f"`step_fn` must return float logits [batch, {slots}, vocab], with the "
            "size of the beam known when the graph is built if that of the tokens is. "
            f"Received: dtype={logits.dtype.name}, shape={logits.shape}."
        )
    if logits.shape[2] and not 0 <= eos_id < logits.shape[2]:
        raise ValueError(
            f"`eos_id` must be an id of the vocabulary, in [0, {logits.shape[2]}). "
            f"Received: eos_id={eos_id}."
        )


def _in_old_shape(new, old):
    new, old = tf.convert_to_tensor(new), tf.convert_to_tensor(old)
    if new.dtype != old.dtype or not new.shape.is_compatible_with(old.shape):
        raise ValueError(
            f"dtype={new.dtype.name}, shape={new.shape} in place of "
            f"dtype={old.dtype.name}, shape={old.shape}."
        )
    # Known sizes must stay known, or a loop in a graph rejects the state.
    return tf.ensure_shape(new, old.shape)
