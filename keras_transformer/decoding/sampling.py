"""Sampling: draw outputs at random instead of searching for the best one.

Each step calls the model, then `only_allowed` -> `filtered_distribution` -> `draw`. The
paper uses beam search only; sampling gives varied outputs, for example synthetic
sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding.beam_search import StepFunction
from keras_transformer.decoding.checks import checked_answer
from keras_transformer.decoding.rules import TokenRule, only_allowed
from keras_transformer.decoding.working_set import Past, empty_columns

# Limits of the temperature. Dividing a logit of -inf by infinity would give NaN.
_TEMPERATURES = (1e-6, 1e6)


class SamplingOptions(NamedTuple):
    """How each sentence of a batch is sampled.

    All values are accepted: rows may come from different clients of a server, and an
    error would fail all of them.

    Examples:
        >>> options = kt.decoding.SamplingOptions(
        ...     uniforms=tf.random.uniform([1, 4]),
        ...     temperature=tf.ones([1]),
        ...     top_k=tf.constant([5]),
        ...     top_p=tf.ones([1]),
        ... )
        >>> int(options.top_k[0])  # each token is one of the five likeliest
        5
    """

    # The random number of each step. Equal numbers give equal outputs, whatever else
    # is in the batch.
    uniforms: tf.Tensor  # float32 [batch, at least max_steps], in [0, 1)
    # Divides the logits. Values below 1 favour likely tokens; 0, below 0 and NaN take
    # the likeliest token.
    temperature: tf.Tensor  # float32 [batch]
    # Draw from this many of the likeliest tokens; 0 or less: all.
    top_k: tf.Tensor  # int32 [batch]
    # Draw from the likeliest tokens whose probabilities first sum to this. 1 or more:
    # all; 0, below 0 and NaN: the likeliest token.
    top_p: tf.Tensor  # float32 [batch]


class SampleResult(NamedTuple):
    """One sampled output per sentence.

    Examples:
        >>> result = kt.decoding.no_sample(batch=3, max_steps=7, pad_id=0)
        >>> result.tokens.shape.as_list()
        [3, 7]
    """

    tokens: tf.Tensor  # int32 [batch, max_steps]: no BOS; EOS, then pad_id
    lengths: tf.Tensor  # int32 [batch]: tokens, including EOS
    log_probs: tf.Tensor  # float32 [batch]: sum of log p, without temperature or filter


def no_sample(
    batch: int | tf.Tensor, max_steps: int | tf.Tensor, pad_id: int
) -> SampleResult:
    """Return empty outputs.

    Examples:
        >>> kt.decoding.no_sample(
        ...     batch=2, max_steps=5, pad_id=0
        ... ).lengths.numpy().tolist()
        [0, 0]
    """
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
    options: SamplingOptions,
    token_rules: Sequence[TokenRule] = (),
    **special_ids: int,
) -> SampleResult:
    """Sample one output per sentence, token by token.

    Args:
        step_fn: Same as in `beam_search`, for a beam of 1.
        source: Same as in `beam_search`.
        cache: Same as in `beam_search`.
        max_lengths: int32 `[batch]`. Most tokens of an output, including EOS.
        options: How to sample. The outputs have at most as many tokens as `uniforms`
            has columns.
        token_rules: Same as in `beam_search`, for a beam of 1. The probabilities of the
            tokens that are allowed sum to 1.
        **special_ids: `bos_id`, `eos_id` and `pad_id`, same as in `beam_search`.

    Examples:
        >>> def step_fn(tokens, step, past, source, cache):
        ...     return 9.0 * tf.one_hot(tokens + 1, depth=6), cache  # counts on
        ...
        >>> options = kt.decoding.SamplingOptions(
        ...     uniforms=tf.random.uniform([1, 4]),
        ...     temperature=tf.ones([1]),
        ...     top_k=tf.constant([1]),
        ...     top_p=tf.ones([1]),
        ... )
        >>> result = kt.decoding.sample(
        ...     step_fn,
        ...     source=(),
        ...     cache=(),
        ...     max_lengths=tf.constant([4]),
        ...     options=options,
        ...     bos_id=1,
        ...     eos_id=4,
        ...     pad_id=0,
        ... )
        >>> result.tokens[0].numpy().tolist()
        [2, 3, 4, 0]
    """
    bos_id, eos_id, pad_id = (
        special_ids[name] for name in ("bos_id", "eos_id", "pad_id")
    )
    limits = tf.cast(max_lengths, tf.int32)
    batch = tf.shape(limits)[0]
    max_steps = tf.reduce_max(tf.concat([limits, [0]], axis=0))

    steps = tf.range(max_steps)  # each has one column
    steps_of_all = tf.tile(steps[tf.newaxis], [batch, 1])

    def has_work(step, tokens, last_tokens, log_probs, lengths, is_done, cache):
        del tokens, last_tokens, log_probs, lengths, cache
        return (step < max_steps) & ~tf.reduce_all(is_done)

    def take_step(step, tokens, last_tokens, log_probs, lengths, is_done, cache):
        past = Past((steps_of_all <= step)[:, tf.newaxis], steps_of_all, step)
        answer = step_fn(last_tokens[:, tf.newaxis], step, past, source, cache)
        logits, cache = checked_answer(answer, cache, 1, eos_id)
        so_far = tokens[:, tf.newaxis]
        logits = only_allowed(token_rules, logits, so_far, limits, step, source)[:, 0]
        drawn = draw(*filtered_distribution(logits, options), options.uniforms[:, step])
        own = tf.gather(tf.nn.log_softmax(logits), drawn, batch_dims=1)
        drawn = tf.where(is_done, pad_id, drawn)
        is_now = steps == step
        return (
            step + 1,
            tf.where(is_now, drawn[:, tf.newaxis], tokens),
            tf.where(is_done, eos_id, drawn),  # the model's next input, never padding
            tf.where(is_done, log_probs, log_probs + own),
            tf.where(is_done, lengths, step + 1),
            is_done | (drawn == eos_id) | (step + 1 >= limits),
            cache,
        )

    empty = no_sample(batch, max_steps, pad_id)
    start = (
        0,
        empty.tokens,
        tf.fill([batch], bos_id),
        empty.log_probs,
        empty.lengths,
        limits <= 0,
        empty_columns(cache, max_steps),
    )
    _, tokens, _, log_probs, lengths, _, _ = tf.while_loop(has_work, take_step, start)
    return SampleResult(tokens, lengths, log_probs)


def filtered_distribution(
    logits: tf.Tensor, options: SamplingOptions
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the probabilities to draw from, not normalized, and ids, best first.

    Args:
        logits: float32 `[batch, vocab]`.
        options: How to sample.

    Returns:
        float32 and int32, both `[batch, vocab]`.
    """
    _, temperature, top_k, top_p = options
    vocab_size = tf.shape(logits)[1]
    logits, ids = tf.math.top_k(logits, vocab_size)  # sorted
    # `~(temperature > 0)` would be wrong for NaN: TensorFlow's graph optimizer replaces
    # it by `<=`.
    temperature = tf.where(temperature > 0, temperature, 0.0)
    divisor = tf.clip_by_value(temperature, *_TEMPERATURES)[:, tf.newaxis]
    probs = tf.nn.softmax((logits - logits[:, :1]) / divisor)
    rank = tf.range(vocab_size)[tf.newaxis]
    most = tf.where(top_k < 1, vocab_size, top_k)
    most = tf.where(temperature <= 0, 1, most)[:, tf.newaxis]
    before = tf.cumsum(probs, axis=1, exclusive=True)
    # The first token always stays.
    is_in_mass = (before < top_p[:, tf.newaxis]) | (top_p >= 1)[:, tf.newaxis]
    is_kept = (rank < most) & (is_in_mass | (rank == 0))
    return tf.where(is_kept, probs, 0.0), ids


def draw(probs: tf.Tensor, ids: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """Return the id at which the cumulative probability exceeds a random number.

    Args:
        probs: float32 `[batch, vocab]`, not normalized.
        ids: int32 `[batch, vocab]`.
        uniforms: float32 `[batch]`, in [0, 1).

    Returns:
        int32 `[batch]`; never an id of probability 0. The first if all are NaN.
    """
    total = tf.cumsum(probs, axis=1)
    goal = (uniforms * total[:, -1])[:, tf.newaxis]
    passed = tf.reduce_sum(tf.cast(total <= goal, tf.int32), axis=1)
    last_kept = tf.reduce_sum(tf.cast(probs > 0, tf.int32), axis=1) - 1
    return tf.gather(ids, tf.clip_by_value(passed, 0, last_kept), batch_dims=1)
