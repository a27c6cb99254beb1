"""Packed rows: every pair once, both sides within their room, little padding."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lib import synthetic_corpus
from keras_transformer.data import packing
from keras_transformer.data.packing import PackedBatchPlan

PAIRS = st.lists(
    st.tuples(st.integers(1, 23), st.integers(1, 29)), min_size=1, max_size=97
)


def sides_of(pairs):
    return tuple(np.array(side) for side in zip(*pairs, strict=True))


def some_lengths(num_pairs, seed=0):
    """Sources of 2 to 61 tokens, targets of 1 to 61."""
    random = np.random.default_rng(seed)
    sources = np.clip(random.gamma(3, 5, num_pairs).astype(int) + 2, 2, 61)
    targets = (sources * np.exp(random.normal(0, 0.2, num_pairs))).astype(int)
    return sources, np.clip(targets, 1, 61)


def batches_of_epoch(plan, epoch):
    first = epoch * plan.batches_per_epoch
    return [plan.batch(first + index) for index in range(plan.batches_per_epoch)]


def pairs_of(batches):
    pairs = np.concatenate([batch.rows.ravel() for batch in batches])
    return pairs[pairs >= 0]


@settings(max_examples=60, deadline=None)
@given(
    PAIRS,
    st.integers(60, 300),
    st.integers(1, 2),
    st.integers(0, 3),
    st.sampled_from([None, 17]),
)
def test_every_pair_comes_once_an_epoch_in_a_row_with_room_for_it(
    pairs, tokens, multiple, epoch, max_length
):
    sources, targets = sides_of([*pairs, (5, 7)])
    plan = PackedBatchPlan(
        sources,
        targets,
        tokens_per_batch=tokens,
        rows_multiple=multiple,
        max_length=max_length,
    )
    batches = batches_of_epoch(plan, epoch)
    short = np.flatnonzero(np.maximum(sources, targets) <= (max_length or 29))
    np.testing.assert_array_equal(np.sort(pairs_of(batches)), short)
    assert (plan.num_pairs, plan.num_left_out) == (
        len(short),
        len(sources) - len(short),
    )
    [(rows, source_length, target_length)] = plan.shapes
    assert rows % multiple == 0
    assert rows * max(source_length, target_length) <= tokens
    for batch in batches:
        assert (batch.source_length, batch.target_length) == plan.shapes[0][1:]
        assert len(batch.rows) == rows
        is_pair = batch.rows >= 0
        for lengths, room in ((sources, source_length), (targets, target_length)):
            assert np.sum(lengths[batch.rows] * is_pair, axis=1).max() <= room


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.integers(0, 20), st.integers(0, 20))
def test_no_pair_of_a_later_row_would_have_fitted_into_an_earlier_one(
    pairs, more_source, more_target
):
    """Room is left over only where nothing fits that was there to choose from."""
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    room = kinds.max(axis=0) + (more_source, more_target)
    rows = [
        row
        for times, row in packing.fill_rows(kinds, counts, *room.tolist())
        for _ in range(times)
    ]
    assert sorted(pair for row in rows for pair in row) == sorted(pairs)
    left = [room - np.sum(row, axis=0) for row in rows]
    for number, (source_left, target_left) in enumerate(left):
        assert source_left >= 0 and target_left >= 0
        for source, target in (pair for row in rows[number + 1 :] for pair in row):
            assert source > source_left or target > target_left


def test_rows_are_filled_as_by_hand():
    """Room for 7 + 8 tokens: the longest pair, (4, 5), leaves 3 + 3.

    (3, 3) has the difference 0 that is left, which (2, 3) has not; so twice. Then
    (2, 3) begins a row: 5 + 5 are left, of which (2, 3) takes as much again, and again;
    one is left for a row of its own.
    """
    kinds, counts = np.array([[4, 5], [3, 3], [2, 3]]), np.array([2, 2, 3])
    assert packing.fill_rows(kinds, counts, 7, 8) == [
        (2, [(4, 5), (3, 3)]),
        (1, [(2, 3), (2, 3)]),
        (1, [(2, 3)]),
    ]


@pytest.mark.parametrize(
    ("goal", "lowest", "highest", "expected"),
    [
        (1, -1, 4, [1, 2, 0, 3, -1, 4]),
        (7, 2, 4, [4, 3, 2]),
        (-3, 2, 4, [2, 3, 4]),
        (4, 1, 4, [4, 3, 2, 1]),
        (0, 3, 2, []),
    ],
)
def test_differences_are_tried_from_the_nearest(goal, lowest, highest, expected):
    assert list(packing._nearest(goal, lowest, highest)) == expected


def test_rows_are_as_long_as_the_longest_pair_or_four_of_mean_length():
    """Means 4 and 6: the longest source is 3 times the mean, the longest target 2."""
    sources, targets = np.array([1, 3, 4, 8]), np.array([3, 6, 6, 9])
    assert packing.row_lengths(sources, targets, 100) == (16, 24)
    longer = np.array([1, 1, 1, 1, 1, 7]), np.array([2, 2, 2, 2, 2, 2])
    assert packing.row_lengths(*longer, 100) == (8, 8)
    sources = np.array([1] * 11 + [13])  # mean 2
    assert packing.row_lengths(sources, np.full(12, 3), 100) == (13, 20)
    assert packing.row_lengths(sources, np.full(12, 3), 17) == (13, 17)


def test_padding_rate_counts_both_sides_and_filler_rows():
    """9 pairs of 2 + 3 tokens, 4 a row: 3 rows, in batches of 2 the last is filled."""
    plan = PackedBatchPlan(*np.repeat([[2], [3]], 9, axis=1), tokens_per_batch=24)
    assert plan.shapes == ((2, 8, 12),)
    assert (plan.batches_per_epoch, plan.num_filler_rows) == (2, 1)
    assert plan.pairs_per_row == 3
    assert plan.padding_rate == pytest.approx(1 - 9 * 5 / (4 * 20))
    # Three replicas need a third row in each of the two batches.
    assert plan.padding_rate_of(3) == pytest.approx(1 - 9 * 5 / (6 * 20))


def test_many_rows_are_shared_by_up_to_eight_without_filler_rows():
    """2,000 pairs of 3 + 3 tokens, 4 a row: 500 rows; of 64 that fit, 63 would do."""
    lengths = np.full((2, 2000), 3)
    plan = PackedBatchPlan(*lengths, tokens_per_batch=64 * 12)
    assert plan.shapes == ((64, 12, 12),) and plan.batches_per_epoch == 8
    assert plan.padding_rate_of(8) == plan.padding_rate < plan.padding_rate_of(3)
    few = PackedBatchPlan(*lengths, tokens_per_batch=31 * 12)
    assert few.shapes[0][0] % 8


def test_only_the_last_batch_of_an_epoch_holds_filler_rows():
    plan = PackedBatchPlan(*some_lengths(1013), tokens_per_batch=1300)
    fillers = [
        int(np.sum(np.all(batch.rows < 0, axis=1)))
        for batch in batches_of_epoch(plan, 3)
    ]
    assert sum(fillers) == fillers[-1] == plan.num_filler_rows > 0


def test_plan_is_the_same_when_made_again():
    plans = [
        PackedBatchPlan(*some_lengths(211), tokens_per_batch=300, seed=5) for _ in "ab"
    ]
    for step in (0, 7, 3 * plans[0].batches_per_epoch + 2):
        first, second = (plan.batch(step) for plan in plans)
        np.testing.assert_array_equal(first.rows, second.rows)


@pytest.mark.parametrize("changed", [{"seed": 1}, {"epoch": 1}])
def test_seed_and_epoch_change_who_shares_a_row(changed):
    """Who stands beside pair 0 is drawn among those of a length."""
    lengths = np.repeat([[5], [7]], 211, axis=1)
    before = PackedBatchPlan(*lengths, tokens_per_batch=300, seed=0)
    after = PackedBatchPlan(*lengths, tokens_per_batch=300, seed=changed.get("seed", 0))
    beside = []
    for plan, epoch in ((before, 0), (after, changed.get("epoch", 0))):
        rows = [row for batch in batches_of_epoch(plan, epoch) for row in batch.rows]
        beside.append({*next(row for row in rows if 0 in row)})
    assert beside[0] != beside[1]


def test_a_batch_has_pairs_of_all_lengths_from_the_whole_corpus():
    lengths = np.sort(some_lengths(5003), axis=1)
    pairs = pairs_of([PackedBatchPlan(*lengths, tokens_per_batch=2500).batch(0)])
    assert pairs.min() < 500 and pairs.max() > 4500


def test_padding_is_little_with_lengths_as_of_news():
    lengths = synthetic_corpus.lengths_like_news(50_000, seed=0)
    plan = PackedBatchPlan(*lengths, tokens_per_batch=25_000)
    assert plan.padding_rate < 0.02
    assert max(plan.shapes[0][1:]) < 300


def test_very_long_pairs_are_told_apart_by_fewer_lengths():
    """Of 5,000 tokens 1,000 lengths are left, each a multiple of 5, or the longest."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 5001, (2, 307))
    kinds, kind_of_pair, counts = packing._kinds_of_pairs(*lengths)
    room = kinds[kind_of_pair].T
    assert np.all(room >= lengths) and np.all(room < lengths + 5)
    np.testing.assert_array_equal(np.bincount(kind_of_pair), counts)
    plan = PackedBatchPlan(*lengths, tokens_per_batch=25_000)
    np.testing.assert_array_equal(
        np.sort(pairs_of(batches_of_epoch(plan, 0))), np.arange(307)
    )


@pytest.mark.long
def test_large_corpus_is_planned_in_seconds():
    """Resuming at step 50,000 replays nothing: 4.5 million pairs as in §5.1."""
    lengths = synthetic_corpus.lengths_like_news(4_500_000, seed=0)
    began = time.process_time()
    plan = PackedBatchPlan(*lengths, tokens_per_batch=25_000, max_length=256)
    plan.batch(50_000)
    assert time.process_time() - began < 10
    assert plan.padding_rate < 0.01


def test_tokens_per_batch_below_the_longest_rows_is_refused():
    message = (
        "`tokens_per_batch` must hold `rows_multiple` rows of the longest pair. "
        r"Received: tokens_per_batch=13, rows_multiple=2, longest row 7 tokens. "
        "Set tokens_per_batch to at least 14"
    )
    lengths = np.array([3, 7]), np.array([5, 2])
    with pytest.raises(ValueError, match=message):
        PackedBatchPlan(*lengths, tokens_per_batch=13, rows_multiple=2)
    assert PackedBatchPlan(*lengths, tokens_per_batch=14, rows_multiple=2).shapes


@pytest.mark.parametrize("name", ["tokens_per_batch", "rows_multiple", "seed"])
def test_numbers_below_their_range_are_refused(name):
    arguments = {"tokens_per_batch": 100, name: -1}
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        PackedBatchPlan(*some_lengths(11), **arguments)


def test_plan_of_no_pairs_is_refused():
    with pytest.raises(ValueError, match="none has at most 1 source and 1 target"):
        PackedBatchPlan(*some_lengths(11), tokens_per_batch=100, max_length=1)
