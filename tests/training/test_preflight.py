"""The trial before the first step: what it measures, and that it changes nothing."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import preflight
from keras_transformer.training.strategies import Process
from tests.model.test_train_step import make, step_bytes, wide_model
from tests.training.small_runs import config_of, train

# Most tokens; most target tokens; most weights of attention. Rows, source, target.
SHAPES = ((29_999, 5, 3), (9000, 7, 11), (5000, 13, 17))


@pytest.fixture
def process():
    return Process(tf.distribute.get_strategy())


@pytest.mark.long
def test_a_step_on_padding_changes_nothing(process):
    model = make(optimizer=keras.optimizers.Adam(0.1))
    variables = [*model.weights, *model.optimizer.variables]
    before = [variable.numpy() for variable in variables]
    preflight.train_on_padding(model, process, 6, 11, 7)
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_the_largest_shapes_are_tried_and_their_memory_said(process, monkeypatch):
    tried, lines = [], []
    monkeypatch.setattr(
        preflight,
        "train_on_padding",
        lambda model, process, *shape: tried.append(shape),
    )
    model = wide_model(accumulate_steps=2)
    preflight.check_memory(model, process, SHAPES, lines.append)
    # Rows are even; two come first, then a quarter.
    assert tried == [
        *((2, 13, 17), (1250, 13, 17), (5000, 13, 17)),  # most attention weights
        *((2, 5, 3), (7500, 5, 3), (30_000, 5, 3)),  # most tokens
        *((2, 7, 11), (2250, 7, 11), (9000, 7, 11)),  # most target tokens
    ]
    assert lines[0].startswith("a batch of 5,000 rows of 13 + 17 tokens takes ")
    assert lines[1].startswith("a batch of 30,000 rows of 5 + 3 tokens takes ")
    assert lines[2].startswith("a batch of 9,000 rows of 7 + 11 tokens takes ")
    assert lines[0].endswith(" GiB of memory at the peak")
    assert preflight.shapes_to_try(model, process, SHAPES) == {*tried}


def test_what_does_not_fit_is_refused_with_what_would(process, monkeypatch):
    """199 rows took 50 bytes each; 600 more need 30,000, and 15,000 may be used.

    So 200 + 15,000 / 50 = 500 rows fit.
    """
    peaks = iter([1000, 1000 + 199 * 50])
    monkeypatch.setattr(preflight, "_peak_of_step", lambda *arguments: next(peaks))
    monkeypatch.setattr(preflight, "_peak_of_tensors", lambda: 0)
    monkeypatch.setattr(preflight, "available_bytes", lambda: 15_000 / 0.9 + 1e-6)
    with pytest.raises(preflight.NotEnoughMemoryError) as caught:
        preflight.check_memory(wide_model(), process, ((800, 7, 11),))
    assert str(caught.value) == (
        "A batch of 800 rows of 7 + 11 tokens on 1 replica does not fit into "
        "memory. 500 rows would: pass --max_tokens_per_replica=5500 to split "
        "batches into microbatches, which gives the same result, or "
        "--tokens_per_batch=5500."
    )


@pytest.mark.long
def test_the_trial_allows_microbatches_where_the_whole_batch_is_too_large(
    process, monkeypatch
):
    """Rows after the first quarter need 3/4 of a batch; in two microbatches, half that.

    With memory for half of a batch, one piece is refused and two are trained.
    """
    one, two = wide_model(), wide_model(accumulate_steps=2)
    usable = 0.5 * step_bytes(one)
    monkeypatch.setattr(preflight, "available_bytes", lambda: usable / 0.9)
    tf.config.experimental.reset_memory_stats("CPU:0")
    with pytest.raises(
        preflight.NotEnoughMemoryError, match="256 rows of 31 .* does n"
    ):
        preflight.check_memory(one, process, ((256, 31, 31),))
    tf.config.experimental.reset_memory_stats("CPU:0")
    lines = []
    preflight.check_memory(two, process, ((256, 31, 31),), lines.append)
    assert lines[0].startswith("a batch of 256 rows of 31 + 31 tokens takes ")


def test_memory_that_a_batch_before_has_taken_is_used_again(process, monkeypatch):
    """600 rows need 30,000 bytes beyond those of 200; 20,000 are held, 10,000 free."""
    peaks = iter([1000, 1000 + 199 * 50])
    monkeypatch.setattr(preflight, "_peak_of_step", lambda *arguments: next(peaks))
    monkeypatch.setattr(preflight, "_peak_of_tensors", lambda: 1000 + 199 * 50 + 20_000)
    monkeypatch.setattr(preflight, "available_bytes", lambda: 10_000 / 0.9 + 1e-6)
    monkeypatch.setattr(preflight, "train_on_padding", lambda *arguments: None)
    lines = []
    preflight.check_memory(wide_model(), process, ((800, 7, 11),), lines.append)
    assert lines[0].startswith("a batch of 800 rows of 7 + 11 tokens takes ")


def test_a_gpu_that_is_full_is_tried_with_half_until_it_fits(process, monkeypatch):
    """Stands for a GPU: what it reports is fixed, and 3 rows are too many."""

    def step(model, process, rows, source_length, target_length):
        if rows > 3:
            raise tf.errors.ResourceExhaustedError(None, None, "full")

    class Memory:
        reset_memory_stats = staticmethod(lambda device: None)
        get_memory_info = staticmethod(lambda device: {"peak": 2**30})

    monkeypatch.setattr(preflight, "train_on_padding", step)
    monkeypatch.setattr(preflight.tf.config, "experimental", Memory)
    monkeypatch.setattr(
        preflight, "_gpus", lambda: [tf.config.LogicalDevice("/device:GPU:0", "GPU")]
    )
    with pytest.raises(preflight.NotEnoughMemoryError, match="3 rows would: pass"):
        preflight.check_memory(make(), process, ((13, 11, 7),))
    with pytest.raises(preflight.NotEnoughMemoryError, match="Not even one row"):
        preflight.check_memory(make(accumulate_steps=5), process, ((13, 11, 7),))
    lines = []
    preflight.check_memory(make(), process, ((3, 11, 7),), lines.append)
    assert "takes 1.00 GiB" in lines[0]


def test_the_memory_that_is_free_is_known():
    assert 2**20 < preflight.available_bytes() < 2**50


@pytest.mark.long
def test_a_batch_is_split_into_as_many_microbatches_as_memory_wants(corpus, tmp_path):
    """150 tokens a batch, 40 at once: 4 microbatches; the batches stay the same."""
    lines = []
    train(corpus, tmp_path, lines=lines, max_tokens_per_replica=40, has_preflight=True)
    assert "1 replica, 4 microbatches a batch, without XLA" in lines[0]
    assert lines[1].startswith("tracing the training step")
    assert "GiB of memory at the peak" in lines[2]
    assert config_of(corpus).training.accumulate_steps == 1
