"""The buckets of a batch plan: which are chosen, and what they hold (§5.1)."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from keras_transformer.data import buckets as bucketing
from keras_transformer.data.batch_plan import BatchPlan


def asymmetric_lengths(num_pairs):
    """Targets about twice as long as their sources, as trees are."""
    random = np.random.default_rng(0)
    sources = np.clip(random.gamma(3, 7, num_pairs).astype(int) + 2, 2, 89)
    targets = sources * np.exp(random.normal(0.7, 0.1, num_pairs))
    return sources, np.clip(targets.astype(int), 1, 199)


@st.composite
def small_corpora(draw):
    """Lengths of up to 60 pairs, and the arguments of their plan."""
    num_pairs = draw(st.integers(1, 60))
    sides = st.lists(st.integers(1, 13), min_size=num_pairs, max_size=num_pairs)
    multiple = draw(st.integers(1, 3))
    return (
        np.array(draw(sides)),
        np.array(draw(sides)),
        {
            "tokens_per_batch": draw(st.integers(13 * multiple, 150)),
            "rows_multiple": multiple,
        },
    )


def num_positions(plan):
    return sum(
        len(batch.rows) * (batch.source_length + batch.target_length)
        for batch in map(plan.batch, range(plan.batches_per_epoch))
    )


def one_length_plans(sources, targets, **options):
    """The plans of the best buckets in which both sides have one length."""
    values, counts = np.unique(np.maximum(sources, targets), return_counts=True)
    return [
        BatchPlan(sources, targets, **options, buckets=[(n, n) for n in lengths])
        for lengths in bucketing.one_length_buckets(values, counts)
    ]


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(small_corpora())
def test_chosen_buckets_are_nested_and_leftovers_fit_where_they_move(corpus):
    sources, targets, options = corpus
    plan = BatchPlan(sources, targets, **options)
    assert len(plan.buckets) <= 11
    assert np.all(np.diff(plan.buckets, axis=0) >= 0)
    assert plan.buckets[-1] == (sources.max(), targets.max())
    seen = []
    for batch in map(plan.batch, range(plan.batches_per_epoch)):
        assert len(batch.rows) % options["rows_multiple"] == 0
        longest = max(batch.source_length, batch.target_length)
        assert len(batch.rows) * longest <= options["tokens_per_batch"]
        pairs = batch.rows[batch.rows >= 0]
        assert np.all(sources[pairs] <= batch.source_length)
        assert np.all(targets[pairs] <= batch.target_length)
        seen.extend(pairs)
    assert sorted(seen) == list(range(len(sources)))


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(small_corpora())
def test_only_one_batch_has_filler_rows(corpus):
    sources, targets, options = corpus
    plan = BatchPlan(sources, targets, **options)
    batches = map(plan.batch, range(plan.batches_per_epoch))
    fillers = [int(np.sum(batch.rows < 0)) for batch in batches]
    assert sum(fillers) == plan.num_filler_rows
    assert sum(count > 0 for count in fillers) <= 1


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(small_corpora())
def test_no_buckets_of_one_length_have_fewer_positions(corpus):
    sources, targets, options = corpus
    chosen = num_positions(BatchPlan(sources, targets, **options))
    others = one_length_plans(sources, targets, **options)
    assert chosen <= min(map(num_positions, others))


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(small_corpora())
def test_the_search_counts_the_positions_of_the_plan(corpus):
    sources, targets, options = corpus
    search = bucketing._Search(sources, targets, **options)
    plan = BatchPlan(sources, targets, **options)
    for lengths in (plan.buckets, plan.buckets[-1:]):
        buckets = np.stack(
            [
                np.searchsorted(np.unique(side), of_buckets)
                for side, of_buckets in zip(
                    (sources, targets), np.transpose(lengths), strict=True
                )
            ],
            axis=1,
        )
        made = BatchPlan(sources, targets, **options, buckets=lengths)
        assert search.num_positions(buckets) == num_positions(made)


def test_targets_twice_as_long_as_sources_are_padded_half_as_much():
    sources, targets = asymmetric_lengths(20_011)
    options = {"tokens_per_batch": 4096}
    others = one_length_plans(sources, targets, **options)
    best = min(other.padding_rate for other in others)
    found = BatchPlan(sources, targets, **options).padding_rate
    assert best > 0.27
    assert found < 0.14


def test_sides_may_be_exchanged():
    sources, targets = asymmetric_lengths(20_011)
    there = BatchPlan(sources, targets, tokens_per_batch=4096).padding_rate
    back = BatchPlan(targets, sources, tokens_per_batch=4096).padding_rate
    assert there == pytest.approx(back, abs=0.01)


def test_rows_of_thousands_of_tokens_are_planned():
    """More lengths than buckets are chosen from: every pair still fits its bucket."""
    random = np.random.default_rng(0)
    sources = random.integers(1, 7919, 50_021)
    targets = random.integers(1, 2, 50_021) + sources // 3
    plan = BatchPlan(sources, targets, tokens_per_batch=65_536)
    assert plan.padding_rate < 0.1
    for step in range(0, plan.batches_per_epoch, 97):
        batch = plan.batch(step)
        pairs = batch.rows[batch.rows >= 0]
        assert np.all(sources[pairs] <= batch.source_length)
        assert np.all(targets[pairs] <= batch.target_length)


def best_by_exhaustion(values, counts, num_buckets):
    """Positions of the best buckets, by trying all of them."""
    lengths = np.repeat(values, counts)
    return min(
        np.array(chosen)[np.searchsorted(chosen, lengths)].sum()
        for buckets in itertools.combinations(values[:-1], num_buckets - 1)
        for chosen in [(*buckets, values[-1])]
    )


def test_buckets_pad_no_more_than_any_other_of_their_size():
    random = np.random.default_rng(3)
    values = np.sort(random.choice(np.arange(2, 40), 9, replace=False))
    counts = random.integers(1, 50, 9)
    found = bucketing.one_length_buckets(values, counts, max_buckets=5)
    assert [len(buckets) for buckets in found] == [1, 2, 3, 4, 5]
    lengths = np.repeat(values, counts)
    for buckets in found:
        positions = np.array(buckets)[np.searchsorted(buckets, lengths)].sum()
        assert positions == best_by_exhaustion(values, counts, len(buckets))


def test_there_are_no_more_buckets_than_lengths():
    assert bucketing.one_length_buckets(np.array([3, 5]), np.array([2, 2]))[-1] == (
        3,
        5,
    )
