"""Drawing an output by chance instead of searching for the best one.

A step: the model's step -> `kept_distribution` -> `draw`. The paper searches; drawing
is for varied outputs, such as synthetic sources.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding.beam_search import StepFunction
from keras_transformer.decoding.checks import checked_answer
from keras_transformer.decoding.working_set import Past, empty_columns

# The least and the largest number that logits are divided by. An infinite one would
# make NaN of a logit of -inf.
_TEMPERATURES = (1e-6, 1e6)


class SampleResult(NamedTuple):
    """One drawn output a sentence."""

    tokens: tf.Tensor  # int32 [batch, max_steps]: no BOS; EOS, then pad_id
    lengths: tf.Tensor  # int32 [batch]: tokens, EOS counted
    log_probs: tf.Tensor  # float32 [batch]: sum of the model's own log p


def no_sample(
    batch: int | tf.Tensor, max_steps: int | tf.Tensor, pad_id: int
) -> SampleResult:
    """Return outputs of no tokens."""
    return SampleResult(
        tokens=tf.fill([batch, max_steps], pad_id),
        lengths=tf.zeros([batch], tf.int32),
        log_probs=tf.zeros([batch]),
    )


def sample(
    step_fn: StepFunction,
    source: Any,
    cache: Any,
    *,
    max_lengths: tf.Tensor,
    max_steps: int | tf.Tensor,
    uniforms: tf.Tensor,
    temperature: tf.Tensor,
    top_k: tf.Tensor,
    top_p: tf.Tensor,
    bos_id: int,
    eos_id: int,
    pad_id: int,
) -> SampleResult:
    """Draw the tokens of an output one after another.

    Args:
        step_fn: As of `beam_search`, for a beam of 1.
        source: As of `beam_search`.
        cache: As of `beam_search`.
        max_lengths: int32 `[batch]`. Tokens an output may have, EOS counted.
        max_steps: Bound on all `max_lengths`, and the last axis of `tokens`.
        uniforms: float32 `[batch, at least max_steps]`, in [0, 1): the chance of each
            step. Equal ones give equal outputs, whatever else is in the batch.
        temperature: float32 `[batch]`. Divides the logits: below 1 likely tokens become
            likelier; at 0, below it and for NaN the best one is taken.
        top_k: int32 `[batch]`. As many of the likeliest tokens are drawn from; 0 or
            less: all.
        top_p: float32 `[batch]`. The likeliest tokens whose probabilities first add up
            to this are drawn from; 1 or more: all; 0, less or NaN: the best one.
        bos_id: The first input.
        eos_id: Ends an output.
        pad_id: Fills `tokens` after the end.
    """
    limits = tf.minimum(tf.cast(max_lengths, tf.int32), max_steps)
    batch = tf.shape(limits)[0]

    steps = tf.range(max_steps)  # each has one column
    steps_of_all = tf.tile(steps[tf.newaxis], [batch, 1])

    def has_work(step, tokens, last_tokens, log_probs, lengths, is_done, cache):
        del tokens, last_tokens, log_probs, lengths, cache
        return (step < max_steps) & ~tf.reduce_all(is_done)

    def take_step(step, tokens, last_tokens, log_probs, lengths, is_done, cache):
        past = Past((steps_of_all <= step)[:, tf.newaxis], steps_of_all, step)
        answer = step_fn(last_tokens[:, tf.newaxis], step, past, source, cache)
        logits, cache = checked_answer(answer, cache, 1, eos_id)
        kept = kept_distribution(logits[:, 0], temperature, top_k, top_p)
        drawn = draw(*kept, uniforms[:, step])
        own = tf.gather(tf.nn.log_softmax(logits[:, 0]), drawn, batch_dims=1)
        drawn = tf.where(is_done, pad_id, drawn)
        is_now = steps == step
        return (
            step + 1,
            tf.where(is_now, drawn[:, tf.newaxis], tokens),
            tf.where(is_done, eos_id, drawn),  # the model is asked for real tokens
            tf.where(is_done, log_probs, log_probs + own),
            tf.where(is_done, lengths, step + 1),
            is_done | (drawn == eos_id) | (step + 1 >= limits),
            cache,
        )

    nothing = no_sample(batch, max_steps, pad_id)
    start = (
        0,
        nothing.tokens,
        tf.fill([batch], bos_id),
        nothing.log_probs,
        nothing.lengths,
        limits <= 0,
        empty_columns(cache, max_steps),
    )
    _, tokens, _, log_probs, lengths, _, _ = tf.while_loop(has_work, take_step, start)
    return SampleResult(tokens, lengths, log_probs)


def kept_distribution(
    logits: tf.Tensor, temperature: tf.Tensor, top_k: tf.Tensor, top_p: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return what is drawn from: probabilities, not normalized, and ids, best first.

    Every value of the settings is taken: rows may come from different clients, and an
    error would fail all of them.

    Args:
        logits: float32 `[batch, vocab]`.
        temperature: float32 `[batch]`.
        top_k: int32 `[batch]`.
        top_p: float32 `[batch]`.
    """
    vocab_size = tf.shape(logits)[1]
    logits, ids = tf.math.top_k(logits, vocab_size)  # sorted
    # Not by `~(temperature > 0)`, which TensorFlow's optimizer takes for `<=`: it
    # differs for NaN.
    temperature = tf.where(temperature > 0, temperature, 0.0)
    divisor = tf.clip_by_value(temperature, *_TEMPERATURES)[:, tf.newaxis]
    probs = tf.nn.softmax((logits - logits[:, :1]) / divisor)
    place = tf.range(vocab_size)[tf.newaxis]
    most = tf.where(top_k < 1, vocab_size, top_k)
    most = tf.where(temperature <= 0, 1, most)[:, tf.newaxis]
    before = tf.cumsum(probs, axis=1, exclusive=True)
    # The first token stays whatever `top_p` is.
    is_in_mass = (before < top_p[:, tf.newaxis]) | (top_p >= 1)[:, tf.newaxis]
    is_kept = (place < most) & (is_in_mass | (place == 0))
    return tf.where(is_kept, probs, 0.0), ids


def draw(probs: tf.Tensor, ids: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """Return the id at which the cumulated probabilities pass the chance.

    Args:
        probs: float32 `[batch, vocab]`, not normalized.
        ids: int32 `[batch, vocab]`.
        uniforms: float32 `[batch]`, in [0, 1).

    Returns:
        int32 `[batch]`; never an id of probability 0. Where all are NaN, the first.
    """
    total = tf.cumsum(probs, axis=1)
    goal = (uniforms * total[:, -1])[:, tf.newaxis]
    passed = tf.reduce_sum(tf.cast(total <= goal, tf.int32), axis=1)
    last_kept = tf.reduce_sum(tf.cast(probs > 0, tf.int32), axis=1) - 1
    return tf.gather(ids, tf.clip_by_value(passed, 0, last_kept), batch_dims=1)
