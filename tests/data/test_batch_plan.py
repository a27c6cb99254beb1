"""The batch plan: shapes, padding, and every pair once (§5.1)."""

import itertools
import threading
import time

import numpy as np
import pytest

from keras_transformer.data import batch_plan
from keras_transformer.data.batch_plan import BatchPlan

# 11 pairs, tokens of the longer side.
LENGTHS = np.array([3, 5, 5, 2, 7, 3, 3, 5, 2, 7, 5])


def some_lengths(num_pairs, seed=0):
    random = np.random.default_rng(seed)
    return np.clip(random.gamma(3, 5, num_pairs).astype(int) + 2, 2, 61)


def rows_of_epoch(plan, epoch):
    first = epoch * plan.batches_per_epoch
    return [plan.batch(first + index) for index in range(plan.batches_per_epoch)]


def pairs_of(batches):
    rows = np.concatenate([batch.rows for batch in batches])
    return rows[rows >= 0]


def test_every_pair_comes_exactly_once_in_each_epoch():
    plan = BatchPlan(some_lengths(1009), tokens_per_batch=127, rows_multiple=2)
    for epoch in (0, 1, 5):
        pairs = pairs_of(rows_of_epoch(plan, epoch))
        np.testing.assert_array_equal(np.sort(pairs), np.arange(1009))


def test_every_row_is_long_enough_for_its_pair():
    lengths = some_lengths(1009)
    plan = BatchPlan(lengths, tokens_per_batch=127)
    for batch in rows_of_epoch(plan, 0):
        assert lengths[batch.rows[batch.rows >= 0]].max() <= batch.length


def test_batches_have_the_announced_shapes_and_fit_the_tokens():
    plan = BatchPlan(some_lengths(1009), tokens_per_batch=199, rows_multiple=3)
    seen = {(len(batch.rows), batch.length) for batch in rows_of_epoch(plan, 2)}
    assert seen == set(plan.shapes)
    assert len(plan.shapes) <= 11
    for rows, length in plan.shapes:
        assert rows % 3 == 0
        assert 199 - 3 * length < rows * length <= 199


def test_batches_of_given_ladder_are_those_counted_by_hand():
    """Rung 3 holds 2, 2, 3, 3, 3 and rung 7 the other six; 12 tokens a batch.

    Rung 3 has 4 rows: one batch, one pair left over. Rung 7 has 1 row: 7 batches.
    """
    plan = BatchPlan(LENGTHS, tokens_per_batch=12, ladder=(3, 7))
    assert plan.shapes == ((4, 3), (1, 7))
    assert plan.batches_per_epoch == 8
    assert plan.num_filler_rows == 0


def test_padding_rate_counts_both_sides_and_filler_rows():
    """Rung 7 alone, 14 tokens: 6 batches of 2 rows for 11 pairs, one filler row.

    168 positions on both sides together; the pairs have 47 tokens a side at most.
    """
    plan = BatchPlan(LENGTHS, tokens_per_batch=14, ladder=(7,))
    assert plan.num_filler_rows == 1
    assert plan.padding_rate == pytest.approx(1 - 2 * 47 / 168)
    shorter = BatchPlan(
        LENGTHS, tokens_per_batch=14, ladder=(7,), num_tokens=2 * LENGTHS - 1
    )
    assert shorter.padding_rate == pytest.approx(1 - (2 * 47 - 11) / 168)


def test_only_one_batch_of_an_epoch_holds_filler_rows():
    plan = BatchPlan(some_lengths(1013), tokens_per_batch=509, rows_multiple=7)
    fillers = [int(np.sum(batch.rows == -1)) for batch in rows_of_epoch(plan, 3)]
    assert sum(fillers) == plan.num_filler_rows > 0
    assert sum(filler > 0 for filler in fillers) == 1


def test_plan_is_the_same_when_made_again():
    plans = [BatchPlan(some_lengths(211), tokens_per_batch=127, seed=5) for _ in "ab"]
    for step in (0, 17, 3 * plans[0].batches_per_epoch + 2):
        first, second = (plan.batch(step) for plan in plans)
        np.testing.assert_array_equal(first.rows, second.rows)
        assert first.length == second.length


@pytest.mark.parametrize("changed", [{"seed": 1}, {"epoch": 1}])
def test_seed_and_epoch_change_the_order(changed):
    lengths = some_lengths(211)
    before = BatchPlan(lengths, tokens_per_batch=127, seed=0)
    after = BatchPlan(lengths, tokens_per_batch=127, seed=changed.get("seed", 0))
    orders = [
        pairs_of(rows_of_epoch(before, 0)),
        pairs_of(rows_of_epoch(after, changed.get("epoch", 0))),
    ]
    assert not np.array_equal(*orders)


def test_shuffle_mixes_pairs_of_one_length_over_the_whole_corpus():
    """One rung: the pairs of a batch come from everywhere, not from one window."""
    plan = BatchPlan(np.full(10_007, 5), tokens_per_batch=505)
    rows = plan.batch(0).rows
    assert len(rows) == 101
    assert rows.min() < 1000 and rows.max() > 9000


def test_batches_of_different_lengths_are_mixed():
    plan = BatchPlan(some_lengths(5003), tokens_per_batch=127)
    lengths = [batch.length for batch in rows_of_epoch(plan, 0)]
    assert lengths != sorted(lengths)


def test_steps_may_be_asked_in_any_order_and_by_many_threads():
    plan = BatchPlan(some_lengths(211), tokens_per_batch=127)
    steps = list(range(3 * plan.batches_per_epoch))
    expected = {step: plan.batch(step).rows for step in steps}
    again, errors = BatchPlan(some_lengths(211), tokens_per_batch=127), []

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
    plan = BatchPlan(LENGTHS, tokens_per_batch=10, max_length=5)
    assert plan.num_left_out == 2
    assert plan.num_pairs == 9
    assert plan.ladder[-1] == 5
    assert not np.isin([4, 9], pairs_of(rows_of_epoch(plan, 0))).any()


def test_pairs_over_the_last_rung_are_left_out():
    assert BatchPlan(LENGTHS, tokens_per_batch=10, ladder=(2, 3)).num_left_out == 6


def best_by_exhaustion(values, counts, num_rungs):
    """Positions of the best ladder, by trying all of them."""
    lengths = np.repeat(values, counts)
    return min(
        np.array(chosen)[np.searchsorted(chosen, lengths)].sum()
        for rungs in itertools.combinations(values[:-1], num_rungs - 1)
        for chosen in [(*rungs, values[-1])]
    )


def test_ladders_pad_no_more_than_any_other_of_their_size():
    random = np.random.default_rng(3)
    values = np.sort(random.choice(np.arange(2, 40), 9, replace=False))
    counts = random.integers(1, 50, 9)
    found = batch_plan.ladders(values, counts, max_rungs=5)
    assert [len(ladder) for ladder in found] == [1, 2, 3, 4, 5]
    lengths = np.repeat(values, counts)
    for ladder in found:
        positions = np.array(ladder)[np.searchsorted(ladder, lengths)].sum()
        assert positions == best_by_exhaustion(values, counts, len(ladder))


def test_ladder_has_no_more_rungs_than_lengths():
    assert batch_plan.ladders(np.array([3, 5]), np.array([2, 2]))[-1] == (3, 5)


def test_ladder_has_few_rungs_where_more_would_only_leave_pairs_over():
    """Two pairs, room for both in one batch: one rung, one shape."""
    plan = BatchPlan(np.array([3, 5]), tokens_per_batch=10)
    assert plan.shapes == ((2, 5),)


def test_large_corpus_is_planned_in_seconds():
    """Resuming at step 50,000 replays nothing: 4.5 million pairs as in §5.1."""
    lengths = np.random.default_rng(0).gamma(3, 9, 4_500_000).astype(np.int32) + 2
    began = time.process_time()
    plan = BatchPlan(lengths, tokens_per_batch=25_000, max_length=256, rows_multiple=8)
    batch = plan.batch(50_000)
    assert time.process_time() - began < 10
    assert len(batch.rows) % 8 == 0


def test_sorted_batches_hold_every_pair_once_shortest_first():
    lengths = some_lengths(211)
    batches = batch_plan.sorted_batches(lengths, tokens_per_batch=127, rows_multiple=2)
    pairs = pairs_of(batches)
    np.testing.assert_array_equal(np.sort(pairs), np.arange(211))
    assert np.all(np.diff(lengths[pairs]) >= 0)
    assert all(len(batch.rows) % 2 == 0 for batch in batches)
    assert len({(len(batch.rows), batch.length) for batch in batches}) <= 12


def test_sorted_batches_fill_only_the_last_up_to_the_multiple():
    batches = batch_plan.sorted_batches(
        np.full(7, 3), tokens_per_batch=12, rows_multiple=2
    )
    assert [batch.rows.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, -1]]


def test_sorted_batches_keep_a_pair_that_fits_no_batch():
    batches = batch_plan.sorted_batches(
        np.array([3, 50]), tokens_per_batch=10, ladder=(3, 7)
    )
    assert [(batch.rows.tolist(), batch.length) for batch in batches] == [
        ([0], 7),
        ([1], 50),
    ]


def test_sorted_batches_of_nothing_are_none():
    assert batch_plan.sorted_batches(np.zeros(0, int), tokens_per_batch=10) == []


def test_tokens_per_batch_below_the_longest_rows_is_refused():
    message = (
        "`tokens_per_batch` must hold `rows_multiple` rows of the longest pair. "
        r"Received: tokens_per_batch=13, rows_multiple=2, longest row 7 tokens. "
        "Set tokens_per_batch to at least 14"
    )
    with pytest.raises(ValueError, match=message):
        BatchPlan(LENGTHS, tokens_per_batch=13, rows_multiple=2)


def test_plan_of_no_pairs_is_refused():
    with pytest.raises(ValueError, match="of 11 pairs none has at most 1 tokens"):
        BatchPlan(LENGTHS, tokens_per_batch=10, max_length=1)
    with pytest.raises(ValueError, match="of 0 pairs none has at most any number of"):
        BatchPlan(np.zeros(0, int), tokens_per_batch=10)


@pytest.mark.parametrize("ladder", [(), (5, 3), (3, 3), (0, 3)])
def test_ladder_that_does_not_ascend_is_refused(ladder):
    with pytest.raises(ValueError, match="`ladder` must hold 1 to 255 lengths that"):
        BatchPlan(LENGTHS, tokens_per_batch=10, ladder=ladder)


def test_lengths_of_another_shape_or_type_are_refused():
    message = r"`lengths` must be integers of shape \[pairs\]. Received: dtype=float64"
    with pytest.raises(ValueError, match=message):
        BatchPlan(LENGTHS.astype(float), tokens_per_batch=10)


@pytest.mark.parametrize("name", ["tokens_per_batch", "rows_multiple", "seed"])
def test_numbers_below_their_range_are_refused(name):
    arguments = {"tokens_per_batch": 10, name: -1}
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        BatchPlan(LENGTHS, **arguments)
