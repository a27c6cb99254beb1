"""The tf.data pipelines over planned batches."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import evaluation_dataset, training_dataset
from keras_transformer.data.corpus import CorpusWriter, EncodedCorpus
from keras_transformer.training.strategies import Process

NUM_PAIRS = 101


@pytest.fixture
def corpus(tmp_path):
    """Pair n is all of id 4 + n: 1 to 7 times in the source, 1 to 5 in the target."""
    with CorpusWriter(tmp_path / "train", 4 + NUM_PAIRS, eos_id=3) as writer:
        for number in range(NUM_PAIRS):
            source = np.full(1 + number % 7, 4 + number)
            writer.append([source], [source[: 1 + number % 5]])
    return EncodedCorpus.from_folder(tmp_path / "train", pad_id=0)


def take(dataset, count):
    return [
        tuple(side.numpy() for side in sides)
        for sides in itertools.islice(iter(dataset), count)
    ]


def pairs_of(batches):
    """Pairs in the batches, told by the first id of each row that is not padding."""
    first_ids = np.concatenate([source[:, 0] for source, _ in batches])
    return first_ids[first_ids > 0] - 4


def test_training_batches_are_those_of_the_plan(corpus):
    plan = corpus.batch_plan(tokens_per_batch=40, rows_multiple=2)
    batches = take(training_dataset(corpus, plan), 2 * plan.batches_per_epoch)
    for step, found in enumerate(batches):
        planned = plan.batch(step)
        expected = corpus.rows(
            planned.rows, planned.source_length, planned.target_length
        )
        for side, expected_side in zip(found, expected, strict=True):
            np.testing.assert_array_equal(side, expected_side)


def test_each_epoch_holds_every_pair_once_with_eos_at_the_end_of_each(corpus):
    plan = corpus.batch_plan(tokens_per_batch=40)
    batches = take(training_dataset(corpus, plan), plan.batches_per_epoch)
    assert sorted(pairs_of(batches)) == list(range(NUM_PAIRS))
    for source, target in batches:
        for row in (*source, *target):
            tokens = row[row > 0]
            assert len(tokens) == 0 or tokens[-1] == 3
            assert np.all(row[len(tokens) :] == 0)


def test_resumed_dataset_continues_with_the_same_batches(corpus):
    plan = corpus.batch_plan(tokens_per_batch=40, seed=7)
    whole = take(training_dataset(corpus, plan), 3 * plan.batches_per_epoch)
    first_step = plan.batches_per_epoch + 3
    resumed = take(training_dataset(corpus, plan, first_step), 5)
    for expected, found in zip(whole[first_step:], resumed, strict=False):
        np.testing.assert_array_equal(expected[0], found[0])
        np.testing.assert_array_equal(expected[1], found[1])


def test_element_spec_leaves_rows_and_length_open(corpus):
    dataset = training_dataset(corpus, corpus.batch_plan(tokens_per_batch=40))
    spec = tf.TensorSpec([None, None], tf.int32)
    assert dataset.element_spec == (spec, spec)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY


@pytest.mark.parametrize("by", ["strategy", "process"])
def test_rows_are_split_between_replicas(corpus, two_replicas, by):
    plan = corpus.batch_plan(tokens_per_batch=40, rows_multiple=2)
    strategy = two_replicas

    def make(**shares):
        return training_dataset(corpus, plan, rows_multiple=2, **shares)

    if by == "strategy":
        dataset = strategy.experimental_distribute_dataset(make())
    else:
        dataset = Process(strategy).distribute(make)
    for step, (source, _) in enumerate(itertools.islice(iter(dataset), 7)):
        parts = [part.numpy() for part in strategy.experimental_local_results(source)]
        planned = plan.batch(step)
        assert len(parts[0]) == len(parts[1])
        expected, _ = corpus.rows(
            planned.rows, planned.source_length, planned.target_length
        )
        np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("kind", ["training", "evaluation"])
def test_processes_share_each_batch_as_one_strategy_would(corpus, kind):
    """Four replicas in two processes; rows are filled up to a multiple of 8."""

    def make(**options):
        if kind == "evaluation":
            return evaluation_dataset(
                corpus, tokens_per_batch=60, rows_multiple=8, **options
            )
        plan = corpus.batch_plan(tokens_per_batch=60)
        return training_dataset(corpus, plan, 3, rows_multiple=8, **options)

    whole = take(make(), 3)
    first = take(make(replicas=(0, 1), num_replicas=4), 6)
    second = take(make(replicas=(2, 3), num_replicas=4), 6)
    for step, (source, target) in enumerate(whole):
        assert len(source) % 8 == 0
        parts = [*first[2 * step : 2 * step + 2], *second[2 * step : 2 * step + 2]]
        for side, expected in enumerate((source, target)):
            np.testing.assert_array_equal(
                np.concatenate([part[side] for part in parts]), expected
            )


def test_packed_rows_hold_their_pairs_in_one_order_on_both_sides(corpus):
    """Each epoch has every pair once; the rows are filled up to a multiple of 7."""
    plan = corpus.packed_batch_plan(tokens_per_batch=300)
    dataset = training_dataset(corpus, plan, rows_multiple=7)
    seen = []
    for source, target in take(dataset, plan.batches_per_epoch):
        assert source.shape[1:] + target.shape[1:] == plan.shapes[0][1:]
        assert len(source) % 7 == 0
        for pair in zip(source, target, strict=True):
            ids = [
                [ids[0] for ids in np.split(row, np.flatnonzero(row == 3) + 1)[:-1]]
                for row in pair
            ]
            assert ids[0] == ids[1]
            seen += ids[0]
    assert sorted(seen) == list(range(4, 4 + NUM_PAIRS))


def test_filling_rows_up_leaves_the_batches_as_they_are(corpus):
    plan = corpus.batch_plan(tokens_per_batch=60)
    filled = take(training_dataset(corpus, plan, rows_multiple=7), 5)
    for (ours, _), (theirs, _) in zip(
        filled, take(training_dataset(corpus, plan), 5), strict=True
    ):
        assert len(ours) % 7 == 0
        np.testing.assert_array_equal(ours[: len(theirs)], theirs)
        assert not ours[len(theirs) :].any()


def test_sides_of_a_batch_are_padded_to_a_length_each(corpus):
    """Sources have up to 8 tokens, targets up to 6, EOS included."""
    plan = corpus.batch_plan(tokens_per_batch=808)
    [(source, target)] = take(training_dataset(corpus, plan), 1)
    assert (source.shape, target.shape) == ((101, 8), (101, 6))


def test_evaluation_holds_every_pair_once_shortest_first(corpus):
    dataset = evaluation_dataset(corpus, tokens_per_batch=40, rows_multiple=2)
    batches = take(dataset, None)
    assert sorted(pairs_of(batches)) == list(range(NUM_PAIRS))
    shapes = [(source.shape[1], target.shape[1]) for source, target in batches]
    assert np.all(np.diff(shapes, axis=0) >= 0)
    assert all(len(source) % 2 == 0 for source, _ in batches)
    assert dataset.cardinality() == len(batches)


@pytest.mark.parametrize(("replicas", "count"), [((0,), 3), ((2,), 2), ((-1,), 2)])
def test_replicas_that_cannot_share_the_rows_are_refused(corpus, replicas, count):
    message = (
        "`num_replicas` must divide `rows_multiple`, and `replicas` be in.* "
        f"Received: num_replicas={count}, replicas=.*, rows_multiple=2"
    )
    plan = corpus.batch_plan(tokens_per_batch=40)
    with pytest.raises(ValueError, match=message):
        training_dataset(
            corpus, plan, rows_multiple=2, replicas=replicas, num_replicas=count
        )


def test_first_step_below_zero_is_refused(corpus):
    plan = corpus.batch_plan(tokens_per_batch=40)
    with pytest.raises(ValueError, match="`first_step` must be at least 0"):
        training_dataset(corpus, plan, first_step=-1)
