"""Beam search over any step function, §6.1: a short loop over named moves.

`take_step` calls the model for `used_slots`, then `forced_tokens` -> `only_allowed` ->
`pick_candidates` -> `keep_alive` -> `keep_finished` -> `mark_done` -> `freeze_done`.
`search_straight` takes all steps in one loop. `search_compacting` takes blocks of
steps: `gather_rows` -> the steps -> `scatter_rows` -> `next_working_set`. When all
sentences are done, `rank` orders the result.

The rules are those of the paper's decoder (tensor2tensor v1), with the length penalty
of Wu et al. 2016:

* Alive and finished hypotheses are stored separately, `beam_size` of each. Every step
  takes the 2 * beam_size best continuations, so `beam_size` stay alive even if all of
  the best ones end here.
* With `beam_size` 1, each step takes the single best continuation (greedy search).
* A sentence is done at its length limit, when nothing is alive, or (`stop_early`) when
  no alive hypothesis can still enter the best `num_best`.
* Finished hypotheses rank before those cut at the limit; each kind is sorted by score.

Differs from tensor2tensor: a hypothesis cut at the limit also gets the length penalty
(there, the bare log probability) and fills slots left empty by finished ones; beam 1
is greedy (there, the second best may also end); impossible tokens never form a
hypothesis.

The model's cache is never reordered when hypotheses change slots; each hypothesis finds
its own columns through `Past`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding.checks import (
    check_arguments,
    checked_answer,
    checked_prefix,
)
from keras_transformer.decoding.rules import TokenRule, only_allowed, repetition
from keras_transformer.decoding.scoring import (
    NEGATIVE_INFINITY,
    is_possible,
    log_totals,
    normalized_scores,
    possible,
    top_continuations,
)
from keras_transformer.decoding.working_set import (
    Past,
    WorkingSet,
    first_working_set,
    next_working_set,
    shape_invariants,
    with_room,
)

# (tokens int32 [batch, beam], step int32 [], past, source, cache)
# -> (logits [batch, beam, vocab], cache)
StepFunction = Callable[[tf.Tensor, tf.Tensor, Past, Any, Any], tuple[tf.Tensor, Any]]

# Compact the batch once this share of its sentences is done.
_LEAVING_SHARE = 0.25


class BeamSearchResult(NamedTuple):
    """The hypotheses of each sentence, best first.

    The first `num_best` slots are final; later ones hold what had been found when the
    search stopped. An empty slot has length 0 and NEGATIVE_INFINITY as log_prob and
    score.

    Examples:
        >>> result = kt.decoding.no_hypotheses(
        ...     batch=3, max_steps=7, beam_size=2, pad_id=0
        ... )
        >>> result.tokens.shape.as_list(), result.scores.shape.as_list()
        ([3, 2, 7], [3, 2])
    """

    tokens: tf.Tensor  # int32 [batch, beam, max_steps]: no BOS; EOS, then pad_id
    lengths: tf.Tensor  # int32 [batch, beam]: tokens, EOS counted
    log_probs: tf.Tensor  # float32 [batch, beam]: sum of log p
    scores: tf.Tensor  # float32 [batch, beam]: log_probs / length penalty
    finished: tf.Tensor  # bool [batch, beam]: False if cut at the limit, or empty


def no_hypotheses(
    batch: int | tf.Tensor, max_steps: int | tf.Tensor, beam_size: int, pad_id: int
) -> BeamSearchResult:
    """Return a result whose slots are all empty.

    Examples:
        >>> result = kt.decoding.no_hypotheses(
        ...     batch=1, max_steps=5, beam_size=2, pad_id=0
        ... )
        >>> result.lengths.numpy().tolist()
        [[0, 0]]
    """
    slots = [batch, beam_size]
    impossible = tf.fill(slots, NEGATIVE_INFINITY)
    return BeamSearchResult(
        tokens=tf.fill([*slots, max_steps], pad_id),
        lengths=tf.zeros(slots, tf.int32),
        log_probs=impossible,
        scores=impossible,
        finished=tf.zeros(slots, tf.bool),
    )


class SearchState(NamedTuple):
    """The hypotheses of the search, alive and finished."""

    # Alive, best first; slot k is beam k of the model.
    alive_tokens: tf.Tensor  # int32 [batch, beam, max_steps], padded with pad_id
    alive_log_probs: tf.Tensor  # float32 [batch, beam], NEGATIVE_INFINITY if empty
    alive_lengths: tf.Tensor  # int32 [batch]: equal for all hypotheses of a sentence
    last_tokens: tf.Tensor  # int32 [batch, beam]: the model's next input
    # Finished, sorted by score; empty slots last.
    finished_tokens: tf.Tensor  # int32 [batch, beam, max_steps]
    finished_log_probs: tf.Tensor  # float32 [batch, beam]
    finished_lengths: tf.Tensor  # int32 [batch, beam]
    finished_scores: tf.Tensor  # float32 [batch, beam]
    # The state of a sentence that is done no longer changes.
    is_done: tf.Tensor  # bool [batch]


class Candidates(NamedTuple):
    """The best continuations of one step; C = 2 * beam_size, or 1.

    Best first, but those with a forced token in the order of their slots.
    """

    parents: tf.Tensor  # int32 [batch, C]: slot of the continued hypothesis
    last_tokens: tf.Tensor  # int32 [batch, C]: the appended token
    tokens: tf.Tensor  # int32 [batch, C, max_steps]: with the appended token
    lengths: tf.Tensor  # int32 [batch, C]
    log_probs: tf.Tensor  # float32 [batch, C]: NEGATIVE_INFINITY if impossible
    is_ending: tf.Tensor  # bool [batch, C]: the token is EOS


class Sentence(NamedTuple):
    """The inputs of each sentence, constant during the search."""

    limits: tf.Tensor  # int32 [batch]: most tokens of an output
    forced_prefix: tf.Tensor  # int32 [batch, prefix_length], padded with pad_id
    source: Any  # a nest of tensors [batch, ...] for `step_fn` and `token_rules`


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of one search; `beam_search` explains each."""

    step_fn: StepFunction
    config: DecodingConfig
    max_steps: int | tf.Tensor
    bos_id: int
    eos_id: int
    pad_id: int
    # Stop a sentence once its best `num_certain` hypotheses cannot change; None: never.
    num_certain: int | tf.Tensor | None
    token_rules: Sequence[TokenRule]
    unscored_steps: int
    steps_at_once: int | None
    rooms: Sequence[int | tf.Tensor]
    window: int | None

    def steps_of_block(self, step: int | tf.Tensor) -> tf.Tensor:
        """Return the most steps of the block that begins with `step`."""
        return tf.minimum(self.steps_at_once, self.max_steps - step)

    def ends_block(self, is_done: tf.Tensor) -> tf.Tensor:
        """Return whether all sentences are done, or enough to compact the batch."""
        if self.steps_at_once is None:
            return tf.reduce_all(is_done)
        return tf.reduce_mean(tf.cast(is_done, tf.float32)) >= _LEAVING_SHARE


def beam_search(
    step_fn: StepFunction,
    source: Any,
    cache: Any,
    *,
    max_lengths: tf.Tensor,
    max_steps: int | tf.Tensor,
    config: DecodingConfig,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    stop_early: bool = True,
    num_best: int | tf.Tensor = 1,
    forced_prefix: tf.Tensor | None = None,
    token_rules: Sequence[TokenRule] = (),
    unscored_steps: int = 0,
    steps_at_once: int | None = None,
    rooms: Sequence[int | tf.Tensor] = (),
    window: int | None = None,
) -> BeamSearchResult:
    """Find the outputs with the best length-normalized log probability, §6.1.

    Runs eagerly, in a `tf.function`, under XLA if all sizes are Python ints and
    `steps_at_once` is None, and in a SavedModel. The result of a sentence does not
    depend on the other sentences of its batch.

    Args:
        step_fn: One step of the model. Receives the last token of every hypothesis, the
            number of the step, the owners of the cache columns (`Past`), `source` and
            the cache. Returns logits of the next token, of any float type, and the
            cache including this step. With `steps_at_once` the first step has one
            hypothesis per sentence instead of `beam_size`, so in a graph the number is
            a tensor; `token_rules` receive the same ones.
        source: A nest of tensors `[batch, ...]` passed to `step_fn` and `token_rules`;
            `()` if they need none.
        cache: A nest of tensors `[batch, heads, 0, ...]` that the steps write and read.
            Axis 2 holds columns; the search adds columns for the steps to come.
        max_lengths: int32 `[batch]`. Most tokens of an output, including EOS; the paper
            uses the input's length + 50. 0 gives no hypothesis.
        max_steps: Bound on all `max_lengths`, and the last axis of `tokens`. A Python
            int under XLA.
        config: All fields but the limits of lengths are read. With `force_eos` the last
            token of a sentence at its limit can only be EOS, and is scored with the
            model's probability, or with `certain_eos` counts as certain. With
            `no_repeat_ngram_size` and `max_repetitions`, tokens that repeat what their
            hypothesis has become impossible; others keep the model's probability. A
            forced prefix may repeat itself. With
            `early_stopping` only a hypothesis that ends among the best `beam_size`
            continuations counts as ended. With `renormalize` the probabilities of the
            tokens that are possible sum to 1.
        bos_id: The first input. The model may also choose it as an output.
        eos_id: Ends a hypothesis.
        pad_id: Fills `tokens` after the end.
        stop_early: Stop a sentence when its `num_best` best hypotheses are certain.
            False gives the same `num_best` and takes longer.
        num_best: Number of hypotheses that must be certain, at most `beam_size`; an
            int32 scalar tensor is not checked.
        forced_prefix: int32 `[batch, prefix_length]`: the tokens that every output of a
            sentence begins with, padded with `pad_id`. They are scored with the model's
            probabilities.
        token_rules: Say at every step which tokens each hypothesis may continue with,
            beside the rules of `config`; see `rules.TokenRule`. Other tokens become
            impossible; allowed ones keep the model's probability, unless
            `renormalize`. A hypothesis without an allowed token is dropped. Tokens of
            a forced prefix obey no rule.
        unscored_steps: Tokens of these first steps are chosen by their probability and
            then count as certain, such as a forced language token; they still count in
            the length.
        steps_at_once: Compact the batch and the cache after this many steps, or when a
            quarter of the sentences are done: finished sentences and cache columns
            that no hypothesis reads are removed. Changes the speed, and at most the
            last digits of scores. None: never.
        rooms: Without `steps_at_once`: numbers of steps, ascending. The cache has room
            for the first, for the next once a sentence takes more, at last for all.
            Columns are read whether they are used or not.
        window: Number of last steps that `step_fn` reads, including the current one;
            None: all. Older columns are removed.

    Returns:
        A `BeamSearchResult` with `beam_size` hypotheses per sentence. Invalid logits
        (NaN, +inf, all -inf) drop a hypothesis.

    Raises:
        ValueError: If an argument or a result of `step_fn` has a wrong shape, range or
            structure.
        TypeError: If `max_lengths` or `max_steps` is not an integer.

    Examples:
        >>> def step_fn(tokens, step, past, source, cache):
        ...     return 9.0 * tf.one_hot(tokens + 1, depth=6), cache  # counts on
        ...
        >>> result = kt.decoding.beam_search(
        ...     step_fn,
        ...     source=(),
        ...     cache=(),
        ...     max_lengths=tf.constant([4]),
        ...     max_steps=4,
        ...     config=kt.DecodingConfig(beam_size=2),
        ...     bos_id=1,
        ...     eos_id=4,
        ...     pad_id=0,
        ... )
        >>> result.tokens[0, 0].numpy().tolist()
        [2, 3, 4, 0]
    """
    max_lengths = tf.convert_to_tensor(max_lengths)
    check_arguments(
        max_lengths, max_steps, config, eos_id, pad_id, num_best, steps_at_once
    )
    limits = tf.minimum(tf.cast(max_lengths, tf.int32), max_steps)  # [batch]
    batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
    settings = Settings(
        step_fn=step_fn,
        config=config,
        max_steps=max_steps,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
        num_certain=num_best if stop_early else None,
        token_rules=[*token_rules, *repetition.rules_of(config)],
        unscored_steps=unscored_steps,
        steps_at_once=steps_at_once,
        rooms=rooms,
        window=window,
    )
    search = start(settings, batch, limits)
    sentences = Sentence(limits, checked_prefix(forced_prefix, max_lengths), source)
    work = first_working_set(batch, config.beam_size, sentences, cache)
    if steps_at_once is None:
        search = search_straight(settings, search, work)
    else:
        search = search_compacting(settings, search, work)
    return rank(settings, search, limits)


def search_straight(
    settings: Settings, search: SearchState, work: WorkingSet
) -> SearchState:
    """Search the whole batch, with cache columns for ever more steps."""
    ends = [tf.minimum(room, settings.max_steps) for room in settings.rooms]
    begin = 0
    for end in (*ends, settings.max_steps):
        work = with_room(work, begin, end - begin)
        # Takes no step if all sentences are done before `begin`.
        _, search, work = take_steps(settings, begin, end, search, work)
        begin = end
    return search


def search_compacting(
    settings: Settings, search: SearchState, work: WorkingSet
) -> SearchState:
    """Search in blocks of steps and compact batch and cache between two blocks."""
    work = with_room(work, 0, settings.steps_of_block(0))
    shapes = tf.nest.map_structure(lambda values: values.shape, search)
    _, search, _ = tf.while_loop(
        functools.partial(has_block, settings),
        functools.partial(take_block, settings),
        (0, search, work),
        (tf.TensorShape([]), shapes, shape_invariants(work)),
    )
    return search


def has_block(
    settings: Settings, step: tf.Tensor, search: SearchState, work: WorkingSet
) -> tf.Tensor:
    """Return whether a sentence is not done and steps remain."""
    del work
    return (step < settings.max_steps) & ~tf.reduce_all(search.is_done)


def take_block(
    settings: Settings, step: tf.Tensor, search: SearchState, work: WorkingSet
) -> tuple[tf.Tensor, SearchState, WorkingSet]:
    """Search the working sentences for a block of steps, then compact."""
    found = gather_rows(search, work.rows)
    end = step + settings.steps_of_block(step)
    step, found, work = take_steps(settings, step, end, found, work)
    search = scatter_rows(search, work.rows, found)
    work = next_working_set(
        work, search.is_done, step, settings.steps_of_block(step), settings.window
    )
    return step, search, work


def take_steps(
    settings: Settings,
    step: int | tf.Tensor,
    end: int | tf.Tensor,
    search: SearchState,
    work: WorkingSet,
) -> tuple[tf.Tensor, SearchState, WorkingSet]:
    """Search until step `end`, or earlier when enough sentences are done."""

    def has_step(step, search, ancestry, cache):
        del ancestry, cache
        return (step < end) & ~settings.ends_block(search.is_done)

    def next_step(step, search, ancestry, cache):
        # The last columns of the cache are for the steps from `step` to `end`.
        room = (end - step) * settings.config.beam_size
        first_column = tf.shape(work.steps)[1] - room
        past = Past(with_own_slots(ancestry, first_column), work.steps, first_column)
        after, ancestry, cache = take_step(
            settings, step, search, past, work.sentences, cache
        )
        return step + 1, after, ancestry, cache

    step, search, ancestry, cache = tf.while_loop(
        has_step, next_step, (step, search, work.ancestry, work.cache)
    )
    return step, search, work._replace(ancestry=ancestry, cache=cache)


def take_step(
    settings: Settings,
    step: tf.Tensor,
    search: SearchState,
    past: Past,
    sentences: Sentence,
    cache: Any,
) -> tuple[SearchState, tf.Tensor, Any]:
    """Continue every hypothesis by one token.

    Returns:
        The state after the step; the ancestry of the alive hypotheses, bool
        `[batch, beam, columns]`; and the cache.
    """
    own, own_past = used_slots(settings, step, search, past)
    answer = settings.step_fn(own.last_tokens, step, own_past, sentences.source, cache)
    num_slots = own.last_tokens.shape[1]
    logits, cache = checked_answer(answer, cache, num_slots, settings.eos_id)
    forced = forced_tokens(settings, step, sentences)
    choices = only_allowed(
        settings.token_rules,
        logits,
        own.alive_tokens,
        sentences.limits,
        step,
        sentences.source,
        is_given=None if forced is None else forced[0] & (forced[1] != settings.eos_id),
    )
    candidates = pick_candidates(settings, own, logits, choices, step, forced)
    after, ancestry = keep_alive(search, candidates, past.ancestry)
    after = keep_finished(settings, after, candidates)
    after = mark_done(settings, after, sentences.limits)
    return freeze_done(search, after), ancestry, cache


def start(settings: Settings, batch: int | tf.Tensor, limits: tf.Tensor) -> SearchState:
    """Return the state before the first step: one empty hypothesis, in slot 0."""
    beam_size = settings.config.beam_size
    slots = [batch, beam_size]
    no_tokens = tf.fill([*slots, settings.max_steps], settings.pad_id)
    impossible = tf.fill(slots, NEGATIVE_INFINITY)
    # Only one slot starts alive: equal hypotheses would stay equal.
    is_alive = (tf.range(beam_size) == 0) & (limits > 0)[:, tf.newaxis]
    return SearchState(
        alive_tokens=no_tokens,
        alive_log_probs=tf.where(is_alive, 0.0, NEGATIVE_INFINITY),
        alive_lengths=tf.zeros([batch], tf.int32),
        last_tokens=tf.fill(slots, settings.bos_id),
        finished_tokens=no_tokens,
        finished_log_probs=impossible,
        finished_lengths=tf.zeros(slots, tf.int32),
        finished_scores=impossible,
        is_done=limits <= 0,
    )


def gather_rows(search: SearchState, rows: tf.Tensor) -> SearchState:
    """Return the state of the sentences `rows`, int32 `[working]`."""
    return tf.nest.map_structure(lambda values: tf.gather(values, rows), search)


def scatter_rows(
    search: SearchState, rows: tf.Tensor, found: SearchState
) -> SearchState:
    """Write the state of the sentences `rows` back into that of the whole batch."""

    def merged(values, new):
        return tf.tensor_scatter_nd_update(values, rows[:, tf.newaxis], new)

    return tf.nest.map_structure(merged, search, found)


def with_own_slots(ancestry: tf.Tensor, first_column: tf.Tensor) -> tf.Tensor:
    """Return the ancestry including each hypothesis's own column of this step."""
    own = first_column + tf.range(ancestry.shape[1])  # [beam]
    return ancestry | (tf.range(tf.shape(ancestry)[2]) == own[:, tf.newaxis])


def used_slots(
    settings: Settings, step: tf.Tensor, search: SearchState, past: Past
) -> tuple[SearchState, Past]:
    """Return the state and the past of the slots that a step continues.

    That is slot 0 at the first step, if the search is in blocks, and otherwise all.
    """
    if settings.config.beam_size == 1 or settings.steps_at_once is None:
        return search, past
    used = tf.where(step == 0, 1, settings.config.beam_size)
    search = search._replace(
        alive_tokens=search.alive_tokens[:, :used],
        alive_log_probs=search.alive_log_probs[:, :used],
        last_tokens=search.last_tokens[:, :used],
    )
    return search, past._replace(ancestry=past.ancestry[:, :used])


def forced_tokens(
    settings: Settings, step: tf.Tensor, sentences: Sentence
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Return which sentences have a forced token, bool `[batch]`, and the tokens.

    That is the next token of the prefix or, with `force_eos`, EOS at the length limit.
    """
    limits, prefix, _ = sentences
    force_eos, pad_id = settings.config.force_eos, settings.pad_id
    has_prefix = prefix.shape[1] != 0
    if not (has_prefix or force_eos):
        return None
    tokens = tf.fill(tf.shape(limits), pad_id)
    if force_eos:
        tokens = tf.where(limits == step + 1, settings.eos_id, tokens)
    if has_prefix:
        after_end = tf.fill([tf.shape(limits)[0], 1], pad_id)
        padded = tf.concat([prefix, after_end], axis=1)
        prefix_tokens = padded[:, tf.minimum(step, tf.shape(prefix)[1])]
        tokens = tf.where(prefix_tokens == pad_id, tokens, prefix_tokens)
    return tokens != pad_id, tokens


def pick_candidates(
    settings: Settings,
    search: SearchState,
    logits: tf.Tensor,
    choices: tf.Tensor,
    step: tf.Tensor,
    forced: tuple[tf.Tensor, tf.Tensor] | None,
) -> Candidates:
    """Return the best continuations over all alive hypotheses of each sentence.

    Tokens are selected by `choices` and scored by their probability under `logits`, or
    with `renormalize` under `choices`.
    """
    beam_size = settings.config.beam_size
    # Greedy search takes the best token even if the second best is EOS.
    num_wanted = 2 * beam_size if beam_size > 1 else 1
    scored = choices if settings.config.renormalize else logits
    totals = log_totals(scored, for_xla=settings.steps_at_once is None)
    before = search.alive_log_probs - totals
    found = top_continuations(before, choices, num_wanted)
    if forced is not None:
        found = only_forced(settings, forced, search, before, choices, found)
    log_probs, parents, last_tokens = found
    if settings.unscored_steps:
        is_unscored = (step < settings.unscored_steps) & is_possible(log_probs)
        certain = _take(search.alive_log_probs, parents)
        log_probs = tf.where(is_unscored, certain, log_probs)

    is_now = tf.range(tf.shape(search.alive_tokens)[2]) == step
    past = _take(search.alive_tokens, parents)  # [batch, C, max_steps]
    return Candidates(
        parents=parents,
        last_tokens=last_tokens,
        tokens=tf.where(is_now, last_tokens[:, :, tf.newaxis], past),
        lengths=tf.fill(tf.shape(parents), step + 1),
        log_probs=log_probs,
        is_ending=last_tokens == settings.eos_id,
    )


def only_forced(settings, forced, search, before, choices, found):
    """Make a forced token the only continuation of its hypotheses, slot by slot."""
    is_forced, token = (part[:, tf.newaxis] for part in forced)
    log_probs, parents, tokens = found
    asked = tf.where(forced[0], forced[1], 0)  # `pad_id` may be outside the vocabulary
    own = possible(before + tf.gather(choices, asked, axis=2, batch_dims=1))
    if settings.config.certain_eos:
        own = tf.where(token == settings.eos_id, search.alive_log_probs, own)
    others = tf.fill(tf.shape(log_probs), NEGATIVE_INFINITY)
    own = tf.concat([own, others], axis=1)[:, : log_probs.shape[1]]
    slots = tf.minimum(tf.range(log_probs.shape[1]), tf.shape(before)[1] - 1)
    return (
        tf.where(is_forced, own, log_probs),
        tf.where(is_forced, slots, parents),
        tf.where(is_forced, token, tokens),
    )


def keep_alive(
    search: SearchState, candidates: Candidates, ancestry: tf.Tensor
) -> tuple[SearchState, tf.Tensor]:
    """Fill the alive slots with the best candidates that do not end."""
    beam_size = search.last_tokens.shape[1]
    going_on = tf.where(candidates.is_ending, NEGATIVE_INFINITY, candidates.log_probs)
    log_probs, kept = tf.math.top_k(going_on, beam_size)
    search = search._replace(
        alive_tokens=_take(candidates.tokens, kept),
        alive_log_probs=log_probs,
        alive_lengths=candidates.lengths[:, 0],
        last_tokens=_take(candidates.last_tokens, kept),
    )
    return search, _take(ancestry, _take(candidates.parents, kept))


def keep_finished(
    settings: Settings, search: SearchState, candidates: Candidates
) -> SearchState:
    """Keep the best-scored of the finished hypotheses and those that end now."""
    is_ending = candidates.is_ending
    if settings.config.early_stopping:
        # Otherwise unlikely endings of the first steps would fill the slots.
        is_ending &= tf.range(is_ending.shape[1]) < settings.config.beam_size
    ending = tf.where(is_ending, candidates.log_probs, NEGATIVE_INFINITY)
    ending_scores = normalized_scores(ending, candidates.lengths, settings.config)
    # Earlier ones come first, so they win a tie. -> [batch, beam + C]
    scores = tf.concat([search.finished_scores, ending_scores], axis=1)
    scores, kept = tf.math.top_k(scores, search.last_tokens.shape[1])

    def merged(earlier, new):
        return _take(tf.concat([earlier, new], axis=1), kept)

    return search._replace(
        finished_tokens=merged(search.finished_tokens, candidates.tokens),
        finished_log_probs=merged(search.finished_log_probs, ending),
        finished_lengths=merged(search.finished_lengths, candidates.lengths),
        finished_scores=scores,
    )


def mark_done(
    settings: Settings, search: SearchState, limits: tf.Tensor
) -> SearchState:
    """Mark sentences at their limit, with nothing alive, or with a certain result.

    With `early_stopping` also those with `beam_size` finished hypotheses.

    A log probability only decreases, and for alpha >= 0 the penalty is largest at the
    limit. So no alive hypothesis can score more than its present log probability
    divided by the penalty at the limit.
    """
    best_alive = search.alive_log_probs[:, 0]
    is_done = (search.alive_lengths >= limits) | ~is_possible(best_alive)
    if settings.num_certain is not None:
        bound = normalized_scores(best_alive, limits, settings.config)
        # Gathered: of a slice XLA would compile a program for each `num_best`.
        place = settings.num_certain - 1
        is_done |= tf.gather(search.finished_scores, place, axis=1) >= bound
    if settings.config.early_stopping:
        is_done |= is_possible(search.finished_scores[:, -1])
    return search._replace(is_done=is_done)


def freeze_done(before: SearchState, after: SearchState) -> SearchState:
    """Undo the step for sentences that were done before it."""

    def frozen(old, new):
        is_done = tf.reshape(before.is_done, [-1] + [1] * (old.shape.rank - 1))
        return tf.where(is_done, old, new)

    return tf.nest.map_structure(frozen, before, after)


def rank(
    settings: Settings, search: SearchState, limits: tf.Tensor
) -> BeamSearchResult:
    """Return the finished hypotheses, then in empty slots those cut at the limit."""
    limits = tf.broadcast_to(limits[:, tf.newaxis], tf.shape(search.last_tokens))
    is_at_limit = search.alive_lengths[:, tf.newaxis] >= limits
    # Elsewhere an early stop cut the alive hypotheses: they are not results.
    open_log_probs = tf.where(is_at_limit, search.alive_log_probs, NEGATIVE_INFINITY)
    open_scores = normalized_scores(open_log_probs, limits, settings.config)

    # 2 finished, 1 open, 0 empty; top_k keeps the order of equals, which is by score.
    finished_class = tf.where(is_possible(search.finished_scores), 2.0, 0.0)
    open_class = tf.where(is_possible(open_scores), 1.0, 0.0)
    classes = tf.concat([finished_class, open_class], axis=1)  # [batch, 2 * beam]
    classes, kept = tf.math.top_k(classes, search.last_tokens.shape[1])

    def merged(finished, still_open):
        return _take(tf.concat([finished, still_open], axis=1), kept)

    is_real = classes > 0
    tokens = merged(search.finished_tokens, search.alive_tokens)
    lengths = merged(search.finished_lengths, limits)
    return BeamSearchResult(
        tokens=tf.where(is_real[:, :, tf.newaxis], tokens, settings.pad_id),
        lengths=tf.where(is_real, lengths, 0),
        log_probs=merged(search.finished_log_probs, open_log_probs),
        scores=merged(search.finished_scores, open_scores),
        finished=classes > 1,
    )


def _take(values: tf.Tensor, picked: tf.Tensor) -> tf.Tensor:
    """Gather along axis 1: [batch, n, ...] by int32 [batch, m] -> [batch, m, ...]."""
    return tf.gather(values, picked, batch_dims=1)
