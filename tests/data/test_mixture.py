"""Several corpora of unequal worth in one batch plan."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from keras_transformer.data import BatchPlan, PackedBatchPlan
from keras_transformer.data.metadata import CorpusMetadata
from keras_transformer.data.mixture import Mixture, apportion

PLANS = [BatchPlan, PackedBatchPlan]
SIZES = (4001, 2003, 1009)
SHARES = (1 / 8, 2 / 8, 5 / 8)


def some_lengths(num_pairs, seed=0):
    """Sources and targets of 2 to 61 tokens."""
    random = np.random.default_rng(seed)
    sources = np.clip(random.gamma(3, 5, num_pairs).astype(int) + 2, 2, 61)
    targets = (sources * np.exp(random.normal(0, 0.2, num_pairs))).astype(int)
    return sources, np.clip(targets, 2, 61)


def corpora(sizes=SIZES, shares=SHARES):
    return [
        CorpusMetadata(f"corpus {number}", *each)
        for number, each in enumerate(zip(sizes, shares, strict=True))
    ]


def plan_of(kind, sizes=SIZES, shares=SHARES, tokens_per_batch=512, **settings):
    return kind(
        *some_lengths(sum(sizes)),
        tokens_per_batch=tokens_per_batch,
        corpora=corpora(sizes, shares),
        **settings,
    )


def epoch_of(plan, epoch):
    """How often each pair occurs in an epoch."""
    first = epoch * plan.batches_per_epoch
    rows = [plan.batch(first + n).rows.ravel() for n in range(plan.batches_per_epoch)]
    pairs = np.concatenate(rows)
    return np.bincount(pairs[pairs >= 0], minlength=plan.num_pairs + plan.num_left_out)


def by_corpus(counts, sizes=SIZES):
    return np.split(counts, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize("kind", PLANS)
def test_each_corpus_has_its_share_of_every_epoch(kind):
    """1 : 2 : 5 of 7,013 pairs are 876.6, 1,753.3 and 4,383.1."""
    plan = plan_of(kind)
    for epoch in (0, 1, 7):
        found = [counts.sum() for counts in by_corpus(epoch_of(plan, epoch))]
        assert found == [877, 1753, 4383]


@pytest.mark.parametrize("kind", PLANS)
def test_a_large_weight_repeats_the_pairs_evenly(kind):
    """The third corpus's 1,009 pairs are drawn 4,383 times an epoch, 4.34 times each.

    Within a group of pairs whose lengths are alike, the numbers differ by at most one.
    """
    plan = plan_of(kind)
    total = sum(epoch_of(plan, epoch) for epoch in range(3))
    often = by_corpus(total)[2]
    assert often.mean() == pytest.approx(3 * 4383 / 1009)
    assert often.min() >= 12
    assert often.max() <= 15


@pytest.mark.parametrize("kind", PLANS)
def test_nothing_is_drawn_again_before_everything_was_drawn(kind):
    """The first corpus's 4,001 pairs are drawn 877 times an epoch: once in 4.6."""
    plan = plan_of(kind)
    total = np.zeros(sum(SIZES), int)
    for epoch in range(6):
        total += epoch_of(plan, epoch)
        rare = by_corpus(total)[0]
        # The draws from a group are a whole number, so some groups are faster.
        assert rare.max() <= (1 if epoch < 3 else 2)
    assert np.count_nonzero(rare == 0) < 40


def test_a_group_is_drawn_in_whole_passes():
    """Draws go on in the next epoch where they ended, whatever the pass is."""
    made = Mixture(corpora((7, 3), (0.5, 0.5)), np.arange(10), seed=5)
    total = np.zeros(10, int)
    for epoch in range(21):
        drawn = made.draw(epoch)
        assert len(drawn) == 10
        total += np.bincount(drawn, minlength=10)
        for part in (total[:7], total[7:]):
            assert part.max() - part.min() <= 1
    assert total.tolist() == [15] * 7 + [35] * 3


def test_shares_in_proportion_to_size_give_each_pair_once():
    sizes = np.array(SIZES)
    plan = plan_of(BatchPlan, shares=sizes / sizes.sum())
    for epoch in (0, 3):
        assert np.all(epoch_of(plan, epoch) == 1)


@pytest.mark.parametrize("kind", PLANS)
def test_one_corpus_gives_the_batches_that_it_gave_alone(kind):
    alone = kind(*some_lengths(1009), tokens_per_batch=512, seed=3)
    named = plan_of(kind, sizes=(1009,), shares=(1.0,), seed=3)
    for step in range(2 * alone.batches_per_epoch):
        np.testing.assert_array_equal(alone.batch(step).rows, named.batch(step).rows)


@pytest.mark.parametrize("kind", PLANS)
def test_batches_are_the_same_from_any_step_on(kind):
    """A plan made anew gives batch n without those before; epochs differ."""
    plan = plan_of(kind, seed=7)
    steps = [0, 1, plan.batches_per_epoch - 1, plan.batches_per_epoch + 5]
    for step in reversed(steps):
        resumed = plan_of(kind, seed=7)
        np.testing.assert_array_equal(plan.batch(step).rows, resumed.batch(step).rows)
    assert not np.array_equal(epoch_of(plan, 0), epoch_of(plan, 1))
    other = plan_of(kind, seed=8)
    assert not np.array_equal(epoch_of(plan, 0), epoch_of(other, 0))


@pytest.mark.parametrize("kind", PLANS)
def test_epochs_have_the_same_batches_and_every_pair_fits(kind):
    plan = plan_of(kind, rows_multiple=2)
    sources, targets = some_lengths(sum(SIZES))
    kinds = []
    for epoch in (0, 4):
        found = []
        for number in range(plan.batches_per_epoch):
            batch = plan.batch(epoch * plan.batches_per_epoch + number)
            found.append((len(batch.rows), batch.source_length, batch.target_length))
            rows = batch.rows.reshape(len(batch.rows), -1)
            is_pair = rows >= 0
            for lengths, most in (
                (sources, batch.source_length),
                (targets, batch.target_length),
            ):
                assert np.where(is_pair, lengths[rows], 0).sum(axis=1).max() <= most
        kinds.append(sorted(found))
    assert kinds[0] == kinds[1]
    assert set(kinds[0]) == set(plan.shapes)


@pytest.mark.parametrize(("kind", "most"), [(BatchPlan, 0.17), (PackedBatchPlan, 0.08)])
def test_a_mixture_pads_little(kind, most):
    plan = plan_of(kind, tokens_per_batch=4096)
    assert plan.padding_rate < most


@pytest.mark.parametrize("kind", PLANS)
@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(data=st.data())
def test_any_mixture_keeps_its_shares(kind, data):
    """Also corpora of one pair, tiny weights, and a maximum length."""
    sizes = data.draw(st.lists(st.integers(1, 97), min_size=2, max_size=5))
    weights = [data.draw(st.sampled_from([0.001, 0.3, 1, 7, 500])) for _ in sizes]
    shares = np.array(weights) / sum(weights)
    plan = plan_of(kind, sizes=sizes, shares=shares, tokens_per_batch=128)
    for epoch in (0, 2):
        counts = epoch_of(plan, epoch)
        assert counts.sum() == sum(sizes)
        for part, share in zip(by_corpus(counts, sizes), shares, strict=True):
            # Every corpus gets at least one pair, from the largest.
            assert abs(part.sum() - share * sum(sizes)) <= len(sizes)
            assert part.sum() >= 1


def test_long_pairs_are_left_out_of_their_corpus_only():
    plan = plan_of(BatchPlan, max_length=30)
    sources, targets = some_lengths(sum(SIZES))
    is_long = np.maximum(sources, targets) > 30
    assert plan.num_left_out == np.count_nonzero(is_long) > 0
    counts = epoch_of(plan, 1)
    assert not counts[is_long].any()
    found = [part.sum() for part in by_corpus(counts)]
    expected = apportion(plan.num_pairs, np.array(SHARES))
    assert found == expected.tolist()


def test_a_corpus_of_long_pairs_only_is_refused_by_name():
    lengths = np.array([5, 5, 40])
    message = (
        "No pair of the corpus 'corpus 1' is short enough for a batch. Raise max_length"
    )
    with pytest.raises(ValueError, match=message):
        BatchPlan(
            lengths,
            lengths,
            tokens_per_batch=80,
            max_length=30,
            corpora=corpora((2, 1), (0.5, 0.5)),
        )


def test_numbers_are_apportioned_by_their_largest_remainders():
    """Of 7: 0.875, 1.75 and 4.375."""
    assert apportion(7, np.array([1, 2, 5])).tolist() == [1, 2, 4]
    assert apportion(0, np.array([1, 2])).tolist() == [0, 0]
