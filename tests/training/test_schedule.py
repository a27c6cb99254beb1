"""The learning rate of Eq. 3 against hand-worked numbers."""

import dataclasses

import numpy as np
import pytest

from keras_transformer.config import TrainingConfig
from keras_transformer.training.schedule import (
    FineTuningSchedule,
    TransformerSchedule,
    paper_optimizer,
    warm_up_warning,
)


def test_rates_by_hand():
    """d_model 16 gives 1/4; warm-up 4 steps: 1/4 * min(s^-0.5, s / 8).

    Step 1: 1/32. Step 4, the peak: 1/8. Step 16: 1/16. Keras counts from 0.
    """
    schedule = TransformerSchedule(16, warmup_steps=4)
    for step, rate in ((1, 1 / 32), (2, 1 / 16), (4, 1 / 8), (16, 1 / 16)):
        np.testing.assert_allclose(schedule(step - 1), rate, rtol=1e-6)


def test_base_peaks_at_seven_ten_thousandths():
    """512^-0.5 * 4000^-0.5 = 0.000699."""
    schedule = TransformerSchedule(512)
    rates = [float(schedule(step)) for step in range(3990, 4010)]
    assert int(np.argmax(rates)) == 9
    np.testing.assert_allclose(max(rates), 6.9877e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("last_step", "rates"),
    [(None, [0.25, 0.5, 1.0, 1.0, 1.0]), (8, [0.25, 0.5, 1.0, 0.6, 0.2])],
)
def test_fine_tuning_rates_by_hand(last_step, rates):
    """Peak 1 at step 4; steps 1, 2, 4, 6 and 8. Linear: 0 at step 9."""
    schedule = FineTuningSchedule(1.0, warmup_steps=4, last_step=last_step)
    found = [float(schedule(step - 1)) for step in (1, 2, 4, 6, 8)]
    np.testing.assert_allclose(found, rates, rtol=1e-6)
    if last_step:
        assert float(schedule(8)) == 0.0


@pytest.mark.parametrize("kind", ["constant", "linear"])
def test_fine_tuning_schedules_come_from_the_configuration(kind):
    config = TrainingConfig(
        learning_rate_schedule=kind,
        learning_rate=3e-5,
        warmup_steps=2,
        train_steps=10,
    )
    schedule = paper_optimizer(512, config)._learning_rate
    np.testing.assert_allclose(schedule(1), 3e-5, rtol=1e-6)
    np.testing.assert_allclose(
        schedule(9), 3e-5 if kind == "constant" else 3e-5 / 9, rtol=1e-5
    )
    again = FineTuningSchedule.from_config(schedule.get_config())
    assert float(again(4)) == float(schedule(4))


def test_the_optimizer_is_the_papers():
    """§5.3: Adam, 0.9, 0.98, 1e-9."""
    optimizer = paper_optimizer(512, TrainingConfig(learning_rate_scale=2.0))
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    np.testing.assert_allclose(
        optimizer.learning_rate, 2 * 512**-0.5 * 4000**-1.5, rtol=1e-5
    )


def test_schedule_round_trips_and_checks_itself():
    schedule = TransformerSchedule(16, 4, 0.5)
    again = TransformerSchedule.from_config(schedule.get_config())
    assert float(again(7)) == float(schedule(7))
    with pytest.raises(ValueError, match="`warmup_steps` must be at least 1"):
        TransformerSchedule(16, warmup_steps=0)


def test_a_run_that_ends_within_its_warm_up_is_told_what_to_give():
    """A quarter of the steps, to the rate that the preset would have reached."""
    config = TrainingConfig(
        train_steps=120, warmup_steps=2000, learning_rate_scale=2.53
    )
    assert warm_up_warning(config) == (
        "warning: training ends after 120 steps, before the learning rate reaches its "
        "peak at step 2,000. For a shorter rise to the same peak pass "
        "--warmup_steps=30 --learning_rate_scale=0.31, or give more --train_steps."
    )
    shorter = dataclasses.replace(config, warmup_steps=30, learning_rate_scale=0.31)
    assert warm_up_warning(shorter) is None
    # The rate peaks at the last warm-up step, so a run of as many reaches the peak.
    assert warm_up_warning(dataclasses.replace(config, train_steps=2000)) is None
    assert warm_up_warning(dataclasses.replace(config, train_steps=1999))
    peaks = [
        TransformerSchedule(128, each.warmup_steps, each.learning_rate_scale)(
            each.warmup_steps - 1
        )
        for each in (config, shorter)
    ]
    np.testing.assert_allclose(*peaks, rtol=0.01)
