"""The batch plan: shapes, padding, and every pair once (§5.1)."""

import threading
import time

import numpy as np
import pytest

from keras_transformer.data import batch_plan
from keras_transformer.data.batch_plan import BatchPlan

# 11 pairs: tokens of the sources, and of the targets.
SOURCES = np.array([3, 5, 5, 2, 7, 3, 3, 5, 2, 7, 5])
TARGETS = np.array([2, 5, 3, 2, 6, 3, 2, 4, 1, 4, 5])
LENGTHS = (SOURCES, TARGETS)


def some_lengths(num_pairs, seed=0):
    """Sources of 2 to 61 tokens, targets of 1 to 61."""
    random = np.random.default_rng(seed)
    sources = np.clip(random.gamma(3, 5, num_pairs).astype(int) + 2, 2, 61)
    targets = (sources * np.exp(random.normal(0, 0.2, num_pairs))).astype(int)
    return sources, np.clip(targets, 1, 61)


def longer_side(lengths):
    return np.maximum(*lengths)


def rows_of_epoch(plan, epoch):
    first = epoch * plan.batches_per_epoch
    return [plan.batch(first + index) for index in range(plan.batches_per_epoch)]


def pairs_of(batches):
    rows = np.concatenate([batch.rows for batch in batches])
    return rows[rows >= 0]


def test_every_pair_comes_exactly_once_in_each_epoch():
    plan = BatchPlan(*some_lengths(1009), tokens_per_batch=127, rows_multiple=2)
    for epoch in (0, 1, 5):
        pairs = pairs_of(rows_of_epoch(plan, epoch))
        np.testing.assert_array_equal(np.sort(pairs), np.arange(1009))


def test_every_row_is_long_enough_for_its_pair():
    sources, targets = some_lengths(1009)
    plan = BatchPlan(sources, targets, tokens_per_batch=127)
    for batch in rows_of_epoch(plan, 0):
        pairs = batch.rows[batch.rows >= 0]
        assert sources[pairs].max() <= batch.source_length
        assert targets[pairs].max() <= batch.target_length


def test_batches_have_the_announced_shapes_and_fit_the_tokens():
    plan = BatchPlan(*some_lengths(1009), tokens_per_batch=199, rows_multiple=3)
    seen = {
        (len(batch.rows), batch.source_length, batch.target_length)
        for batch in rows_of_epoch(plan, 2)
    }
    assert seen == set(plan.shapes)
    assert len(plan.shapes) <= 11
    for rows, *lengths in plan.shapes:
        assert rows % 3 == 0
        assert rows * max(lengths) <= 199
    for rows, *lengths in plan.shapes[:-1]:  # the last has no more rows than it needs
        assert 199 - 3 * max(lengths) < rows * max(lengths)


def test_batches_of_given_buckets_are_those_counted_by_hand():
    """Both sides of 5 pairs fit into (3, 3), those of the others into (7, 6).

    12 tokens a batch: (3, 3) has 4 rows, so one batch, and one pair left over moves up.
    (7, 6) has 1 row: 7 batches.
    """
    plan = BatchPlan(*LENGTHS, tokens_per_batch=12, buckets=((3, 3), (7, 6)))
    assert plan.shapes == ((4, 3, 3), (1, 7, 6))
    assert plan.batches_per_epoch == 8
    assert plan.num_filler_rows == 0


def test_pair_takes_the_first_bucket_that_holds_both_its_sides():
    """(2, 5) is too long for the first bucket in its target, (5, 2) in its source."""
    plan = BatchPlan(
        np.array([2, 2, 5]),
        np.array([2, 5, 2]),
        tokens_per_batch=5,
        buckets=((2, 2), (2, 5), (5, 5)),
    )
    batches = sorted(
        (batch.source_length, batch.target_length, batch.rows.tolist())
        for batch in rows_of_epoch(plan, 0)
    )
    # One row of 5 tokens; two of 2, so the first pair moves up.
    assert plan.shapes == ((1, 2, 5), (1, 5, 5))
    assert [shape for *shape, _ in batches] == [[2, 5], [2, 5], [5, 5]]
    assert batches[2][2] == [2]


def test_last_bucket_has_no_more_rows_than_its_batches_need():
    """11 pairs in batches of at most 4 rows are 3 batches; 4 + 4 + 3 pairs.

    In batches of at most 9 rows they are 2: 6 + 5 pairs.
    """
    for tokens, shape in ((28, (4, 7, 6)), (63, (6, 7, 6)), (700, (11, 7, 6))):
        plan = BatchPlan(*LENGTHS, tokens_per_batch=tokens, buckets=((7, 6),))
        assert plan.shapes == (shape,)


def test_padding_rate_counts_both_sides_and_filler_rows():
    """Rung (7, 6) alone, 14 tokens: 6 batches of 2 rows for 11 pairs, one filler row.

    12 rows have 12 * 13 positions; the pairs have 47 + 37 tokens.
    """
    plan = BatchPlan(*LENGTHS, tokens_per_batch=14, buckets=((7, 6),))
    assert plan.num_filler_rows == 1
    assert plan.padding_rate == pytest.approx(1 - (47 + 37) / (12 * 13))
    # Three replicas need a third row in each of the six batches.
    assert plan.padding_rate_of(3) == pytest.approx(1 - (47 + 37) / (18 * 13))


def test_only_one_batch_of_an_epoch_holds_filler_rows():
    plan = BatchPlan(*some_lengths(1013), tokens_per_batch=509, rows_multiple=7)
    fillers = [int(np.sum(batch.rows == -1)) for batch in rows_of_epoch(plan, 3)]
    assert sum(fillers) == plan.num_filler_rows > 0
    assert sum(filler > 0 for filler in fillers) == 1


def test_plan_is_the_same_when_made_again():
    plans = [BatchPlan(*some_lengths(211), tokens_per_batch=127, seed=5) for _ in "ab"]
    for step in (0, 17, 3 * plans[0].batches_per_epoch + 2):
        first, second = (plan.batch(step) for plan in plans)
        np.testing.assert_array_equal(first.rows, second.rows)
        assert first.source_length == second.source_length
        assert first.target_length == second.target_length


@pytest.mark.parametrize("changed", [{"seed": 1}, {"epoch": 1}])
def test_seed_and_epoch_change_the_order(changed):
    lengths = some_lengths(211)
    before = BatchPlan(*lengths, tokens_per_batch=127, seed=0)
    after = BatchPlan(*lengths, tokens_per_batch=127, seed=changed.get("seed", 0))
    orders = [
        pairs_of(rows_of_epoch(before, 0)),
        pairs_of(rows_of_epoch(after, changed.get("epoch", 0))),
    ]
    assert not np.array_equal(*orders)


def test_shuffle_mixes_pairs_of_one_length_over_the_whole_corpus():
    """One bucket: the pairs of a batch come from everywhere, not from one window."""
    plan = BatchPlan(*np.full((2, 10_007), 5), tokens_per_batch=505)
    rows = plan.batch(0).rows
    assert len(rows) == 101
    assert rows.min() < 1000 and rows.max() > 9000


def test_batches_of_different_lengths_are_mixed():
    plan = BatchPlan(*some_lengths(5003), tokens_per_batch=127)
    lengths = [batch.source_length for batch in rows_of_epoch(plan, 0)]
    assert lengths != sorted(lengths)


def test_steps_may_be_asked_in_any_order_and_by_many_threads():
    plan = BatchPlan(*some_lengths(211), tokens_per_batch=127)
    steps = list(range(3 * plan.batches_per_epoch))
    expected = {step: plan.batch(step).rows for step in steps}
    again, errors = BatchPlan(*some_lengths(211), tokens_per_batch=127), []

    def check(own_steps):
        for step in own_steps:
            if not np.array_equal(again.batch(step).rows, expected[step]):
                errors.append(step)

    orders = [np.random.default_rng(n).permutation(steps) for n in range(4)]
    threads = [threading.Thread(target=check, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_pairs_over_max_length_are_left_out_and_counted():
    plan = BatchPlan(*LENGTHS, tokens_per_batch=10, max_length=5)
    assert plan.num_left_out == 2
    assert plan.num_pairs == 9
    assert plan.buckets[-1] == (5, 5)
    assert not np.isin([4, 9], pairs_of(rows_of_epoch(plan, 0))).any()


def test_pairs_over_the_last_bucket_are_left_out():
    """Of the five sources of 3 tokens or fewer, three have a target of 2 or fewer."""
    plan = BatchPlan(*LENGTHS, tokens_per_batch=10, buckets=((2, 2), (3, 2)))
    assert plan.num_left_out == 11 - 4
    assert sorted(pairs_of(rows_of_epoch(plan, 0))) == [0, 3, 6, 8]


def test_there_are_few_buckets_where_more_would_only_leave_pairs_over():
    """Two pairs, room for both in one batch: one bucket, one shape."""
    plan = BatchPlan(np.array([3, 5]), np.array([2, 7]), tokens_per_batch=14)
    assert plan.shapes == ((2, 5, 7),)


def test_large_corpus_is_planned_in_seconds():
    """Resuming at step 50,000 replays nothing: 4.5 million pairs as in §5.1."""
    random = np.random.default_rng(0)
    sources = random.gamma(3, 9, 4_500_000).astype(np.int32) + 2
    targets = sources + random.integers(-1, 5, len(sources), np.int32)
    began = time.process_time()
    plan = BatchPlan(
        sources, targets, tokens_per_batch=25_000, max_length=256, rows_multiple=8
    )
    batch = plan.batch(50_000)
    assert time.process_time() - began < 10
    assert len(batch.rows) % 8 == 0


def test_sorted_batches_hold_every_pair_once_lowest_bucket_first():
    lengths = some_lengths(211)
    batches = batch_plan.sorted_batches(*lengths, tokens_per_batch=127, rows_multiple=2)
    np.testing.assert_array_equal(np.sort(pairs_of(batches)), np.arange(211))
    for side, name in zip(lengths, ("source_length", "target_length"), strict=True):
        of_batches = [getattr(batch, name) for batch in batches]
        assert of_batches == sorted(of_batches)
        for batch, length in zip(batches, of_batches, strict=True):
            assert side[batch.rows[batch.rows >= 0]].max() <= length
    assert all(len(batch.rows) % 2 == 0 for batch in batches)
    assert len({(len(batch.rows), batch.source_length) for batch in batches}) <= 11


def test_sorted_batches_are_sorted_by_the_longer_side_within_a_bucket():
    lengths = some_lengths(211)
    batches = batch_plan.sorted_batches(*lengths, tokens_per_batch=127)
    shapes = sorted({(batch.source_length, batch.target_length) for batch in batches})

    def bucket_and_longer(pair):
        sides = [side[pair] for side in lengths]
        bucket = next(n for n, s in enumerate(shapes) if np.all(np.array(s) >= sides))
        return bucket, max(sides)

    assert len(shapes) > 2
    keys = [bucket_and_longer(pair) for pair in pairs_of(batches)]
    assert keys == sorted(keys)


def test_sorted_batches_fill_only_the_last_up_to_the_multiple():
    batches = batch_plan.sorted_batches(
        *np.full((2, 7), 3), tokens_per_batch=12, rows_multiple=2
    )
    assert [batch.rows.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, -1]]


def test_sorted_batches_keep_a_pair_that_fits_no_batch():
    """10 // 50 = 0 rows of 50 tokens fit, and a batch has one all the same."""
    batches = batch_plan.sorted_batches(
        np.array([3, 50]), np.array([5, 2]), tokens_per_batch=10
    )
    assert [
        (batch.rows.tolist(), batch.source_length, batch.target_length)
        for batch in batches
    ] == [([1], 50, 2), ([0], 50, 5)]


def test_sorted_batches_of_nothing_are_none():
    nothing = np.zeros(0, int)
    assert batch_plan.sorted_batches(nothing, nothing, tokens_per_batch=10) == []


def test_tokens_per_batch_below_the_longest_rows_is_refused():
    message = (
        "`tokens_per_batch` must hold `rows_multiple` rows of the longest pair. "
        r"Received: tokens_per_batch=13, rows_multiple=2, longest row 7 tokens. "
        "Set tokens_per_batch to at least 14"
    )
    with pytest.raises(ValueError, match=message):
        BatchPlan(*LENGTHS, tokens_per_batch=13, rows_multiple=2)


def test_plan_of_no_pairs_is_refused():
    message = "of 11 pairs none has at most 1 source and 1 target tokens. Raise max_len"
    with pytest.raises(ValueError, match=message):
        BatchPlan(*LENGTHS, tokens_per_batch=10, max_length=1)
    message = "none has at most 5 source and 1 target tokens"
    with pytest.raises(ValueError, match=message):
        BatchPlan(SOURCES, TARGETS + 1, tokens_per_batch=10, buckets=((5, 1),))
    with pytest.raises(ValueError, match="No pair to batch: `source_lengths` is empty"):
        BatchPlan(*np.zeros((2, 0), int), tokens_per_batch=10)


@pytest.mark.parametrize(
    "buckets",
    [(), (3, 5), ((5, 3), (3, 5)), ((3, 5), (5, 3)), ((0, 3),), ((3, 3, 3),)],
)
def test_buckets_that_descend_are_refused(buckets):
    message = r"`buckets` must be 1 to 255 pairs \(source_length, target_length\) of at"
    with pytest.raises(ValueError, match=message):
        BatchPlan(*LENGTHS, tokens_per_batch=10, buckets=buckets)


def test_lengths_of_another_shape_or_type_are_refused():
    message = (
        r"`{}_lengths` must be integers of shape \[pairs\]. Received: dtype=float64"
    )
    with pytest.raises(ValueError, match=message.format("source")):
        BatchPlan(SOURCES.astype(float), TARGETS, tokens_per_batch=10)
    with pytest.raises(ValueError, match=message.format("target")):
        BatchPlan(SOURCES, TARGETS.astype(float), tokens_per_batch=10)
    message = "`source_lengths` and `target_lengths` must have the same shape. .* 11 an"
    with pytest.raises(ValueError, match=message):
        BatchPlan(SOURCES, TARGETS[1:], tokens_per_batch=10)
    with pytest.raises(ValueError, match="`target_lengths` must be at least 1: each s"):
        BatchPlan(SOURCES, TARGETS - 1, tokens_per_batch=10)


@pytest.mark.parametrize("name", ["tokens_per_batch", "rows_multiple", "seed"])
def test_numbers_below_their_range_are_refused(name):
    arguments = {"tokens_per_batch": 10, name: -1}
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        BatchPlan(*LENGTHS, **arguments)
