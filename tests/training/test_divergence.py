"""Runs that meet numbers that are not finite: they skip, go back, and stop."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import data
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import divergence, run_callbacks, run_setup
from keras_transformer.training.losses import LabelSmoothedCrossEntropy
from tests.training.small_runs import train, weights

# A byte that no word of the corpus has.
POISON = 9


class PoisonedLoss(LabelSmoothedCrossEntropy):
    """Infinite where the poison is to be predicted."""

    def token_losses(self, labels, logits):
        losses, *others = super().token_losses(labels, logits)
        return losses * tf.where(tf.equal(labels, POISON), np.inf, 1.0), *others


@pytest.fixture
def poison(monkeypatch):
    """Return a function that poisons the batches of some steps, counted from 0."""
    real, batch_of = data.training_dataset, run_callbacks.planned_batch
    monkeypatch.setattr(run_setup, "LabelSmoothedCrossEntropy", PoisonedLoss)

    def poison_steps(*steps):
        def poisoned(encoded, plan, first_step=0, **options):
            def swap(step, pair):
                source, target = pair
                is_bad = tf.reduce_any(tf.equal(step + first_step, steps))
                return source, tf.where(is_bad & (target > 3), POISON, target)

            return real(encoded, plan, first_step, **options).enumerate().map(swap)

        def planned(run, step):
            source, target = batch_of(run, step)
            return source, np.where((target > 3) & (step in steps), POISON, target)

        monkeypatch.setattr(data, "training_dataset", poisoned)
        monkeypatch.setattr(run_callbacks, "planned_batch", planned)

    return poison_steps


def state_of(folder):
    checkpoint = ModelDir(folder).checkpoints().latest()
    return json.loads((checkpoint.path / "state.json").read_text())


@pytest.mark.long
def test_a_step_that_is_not_finite_is_skipped_and_counted(corpus, poison, tmp_path):
    poison(3, 4)
    lines = []
    summary = train(corpus, tmp_path, lines=lines)
    assert summary["steps"] == 6
    assert summary["skipped_steps"] == state_of(tmp_path)["skipped_steps"] == 2
    assert (
        "step 5 is skipped: its loss or gradients are not finite (2 in a row, 2 in all)"
    ) in lines
    assert all(np.all(np.isfinite(weight)) for weight in weights(tmp_path))
    assert all("loss nan" not in line for line in lines)


@pytest.mark.long
def test_several_in_a_row_go_back_with_half_the_rate_then_stop_with_a_reason(
    corpus, poison, tmp_path
):
    """A checkpoint of step 3; steps 5 and 6 are bad whatever is done."""
    poison(4, 5, 6)
    lines = []
    with pytest.raises(divergence.DivergedError) as caught:
        train(corpus, tmp_path, lines=lines, max_skipped_steps=2)
    [back] = [line for line in lines if "Going back to step 3 with half" in line]
    assert "2 steps in a row, up to step 6, are not finite" in back
    message = str(caught.value)
    assert "its loss is inf over" in message
    assert "all weights are finite" in message
    assert "gradients are not finite, the first " in message
    assert "Lower --learning_rate_scale" in message
    assert ModelDir(tmp_path).checkpoints().latest().step == 3
    # Started again, it begins at the good checkpoint; what was wrong is gone now.
    poison()
    assert train(corpus, tmp_path, max_skipped_steps=2)["steps"] == 6


@pytest.mark.long
def test_a_lowered_rate_stays_lowered(corpus, poison, monkeypatch, tmp_path):
    """Bad once, for longer than is borne; later steps and runs go on at half."""
    poison(4, 5)
    real, calls = data.training_dataset, []

    def first_time_only(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 1:
            poison()
            return data.training_dataset(*arguments, **options)
        return real(*arguments, **options)

    monkeypatch.setattr(data, "training_dataset", first_time_only)
    lines = []
    train(corpus, tmp_path, lines=lines, max_skipped_steps=2, log_every_steps=1)
    assert state_of(tmp_path)["learning_rate_factor"] == 0.5
    rates = [
        float(line.split("learning rate ")[1].split()[0])
        for line in lines
        if line.startswith("step ") and "tokens/s" in line
    ]
    # Steps 1 to 4, the fifth is skipped and has no line, then 4 to 6 again.
    assert len(rates) == 7
    np.testing.assert_allclose(rates[4], rates[3] / 2, rtol=0.01)


def test_what_is_not_finite_in_the_weights_is_named():
    from tests.model.test_train_step import batch, make

    model = make()
    model.trainable_variables[0].assign(
        tf.fill(model.trainable_variables[0].shape, np.nan)
    )
    said = divergence.diagnose(model, *batch())
    path = model.trainable_variables[0].path
    assert f"1 of {len(model.weights)} weights are not finite, the first {path}" in said
    assert "its loss is nan over" in said
