"""What the lines of progress say."""

import math
import types

import pytest

from keras_transformer.training import callbacks
from keras_transformer.training.run_log import RunLog


@pytest.fixture
def lines():
    return []


class Clock:
    """Seconds that pass when they are told to."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def make_progress(lines, clock, **given):
    made = callbacks.Progress(
        **{
            "batch_cost": lambda step: callbacks.BatchCost(8, (2, 4, 5), 18.0),
            "total_steps": 9,
            "every_steps": 2,
            "log": RunLog(lines.append),
            "clock": clock,
            **given,
        }
    )
    optimizer = types.SimpleNamespace(learning_rate=0.1)
    made.set_model(
        types.SimpleNamespace(optimizer=optimizer, reset_metrics=lambda: None)
    )
    made.on_train_begin()
    return made


@pytest.fixture
def progress(lines, clock):
    clock.now += 1
    return make_progress(lines, clock)


def take_steps(progress, clock, seconds):
    """Take steps of so many seconds."""
    first = progress.step - progress.first_step
    for batch, duration in enumerate(seconds, start=first):
        clock.now += duration
        progress.on_train_batch_end(batch, _logs(skipped=False))


def _logs(skipped, loss=1.5):
    return {
        "loss": loss,
        "perplexity": 4.0,
        "token_accuracy": 0.25,
        "skipped": float(skipped),
    }


def test_a_line_comes_every_few_steps_and_at_the_end(progress, clock, lines):
    take_steps(progress, clock, [2] * 9)
    assert [line.split()[1] for line in lines] == ["2/9", "4/9", "6/9", "8/9", "9/9"]
    assert "loss 1.5000  perplexity 4.00  accuracy 25.0 %" in lines[0]
    assert "4 tokens/s  1 shape  14 s left" in lines[0]
    assert lines[-1].endswith("  0 s left")


def test_slow_steps_have_a_line_at_least_every_30_seconds(lines, clock):
    """Each of those that take 20 seconds, every third of those that take 8."""
    progress = make_progress(lines, clock, total_steps=90, every_steps=50)
    take_steps(progress, clock, [20] * 4 + [8] * 9)
    assert [line.split()[1][:-3] for line in lines] == [
        "1",
        "2",
        "3",
        "4",
        "7",
        "10",
        "13",
    ]
    assert all(line.endswith(" left") and "loss 1.5" in line for line in lines)


def test_lines_between_leave_means_and_rhythm_as_they_are(lines, clock):
    """The line of step 50 has the speed of 50 steps, not of the last few."""
    resets = []
    progress = make_progress(lines, clock, total_steps=90, every_steps=50)
    progress.model.reset_metrics = lambda: resets.append(progress.step)
    take_steps(progress, clock, [40] * 25 + [1] * 25)
    assert "step 50/90" in lines[-1]
    assert f"  {8 * 50 / (25 * 40 + 25):,.0f} tokens/s" in lines[-1]
    assert resets == [50] and len(progress.tokens_per_second) == 1


def test_time_left_leaves_out_first_steps_of_a_shape_and_evaluations(lines, clock):
    """Steps of 2 seconds; each new shape takes 60 more, and an evaluation 500."""
    shapes = [(2, 4, 5), (3, 3, 3)]
    progress = make_progress(
        lines,
        clock,
        batch_cost=lambda step: callbacks.BatchCost(8, shapes[step % 2], 0.0),
        total_steps=100,
        every_steps=10,
        pause_every_steps=40,
    )
    take_steps(progress, clock, [62, 62, *[2] * 18])
    assert lines[-1].endswith("  2 min 40 s left")  # 80 steps
    take_steps(progress, clock, [2] * 20)
    with progress.pause():
        clock.now += 500
    take_steps(progress, clock, [2] * 10)
    # 50 steps, and evaluations after steps 80 and 100.
    assert lines[-1].endswith("  18 min 20 s left")
    assert "2 min 40 s left" not in lines[-1]


def test_time_left_of_a_resumed_run_is_that_of_the_steps_that_are_left(lines, clock):
    progress = make_progress(lines, clock, total_steps=5000, first_step=4990)
    take_steps(progress, clock, [3] * 4)
    assert lines[-1].startswith("step 4,994/5,000")
    assert lines[-1].endswith("  18 s left")


def test_the_first_step_tells_what_it_can_of_the_time_left(lines, clock):
    progress = make_progress(lines, clock, every_steps=1)
    take_steps(progress, clock, [3])
    assert lines[-1].endswith("  24 s left")


def test_what_a_run_costs_is_summed_over_its_parts(lines, clock):
    first = make_progress(lines, clock)
    take_steps(first, clock, [2] * 3)
    cost = {"seconds": 6, "flops": 3 * 18, "tokens": 3 * 8, "cost_since_step": 0}
    assert first.state() == cost
    second = make_progress(lines, clock, state=first.state(), first_step=3)
    with second.pause():
        clock.now += 5  # evaluations count
    take_steps(second, clock, [2] * 4)
    cost = {"seconds": 6 + 5 + 8, "flops": 7 * 18, "tokens": 7 * 8}
    assert second.state() == {**cost, "cost_since_step": 0}


def test_the_cost_of_steps_without_a_record_is_not_claimed(lines, clock):
    """An earlier release trained 3 steps and saved no cost with its checkpoint."""
    first = make_progress(lines, clock, state={"best": 2.5}, first_step=3)
    take_steps(first, clock, [2])
    unknown = {"tokens": None, "cost_since_step": 3}
    assert first.state() == {"seconds": 2, "flops": 18, **unknown}
    second = make_progress(lines, clock, state=first.state(), first_step=4)
    take_steps(second, clock, [2])
    assert second.state() == {"seconds": 4, "flops": 36, **unknown}


def test_a_line_of_skipped_steps_alone_shows_no_loss(progress, clock, lines):
    for batch, skipped in enumerate((True, True, False, True)):
        clock.now += 1
        loss = math.nan if batch < 2 else 1.5
        progress.on_train_batch_end(batch, _logs(skipped, loss))
    assert "every step since the last line or validation was skipped" in lines[0]
    assert "loss" not in lines[0]
    assert "loss" in lines[1]


def evaluated(metrics, best_metric, **options):
    """Evaluate after each of some steps; return the callback and the best steps."""
    answers, lines = iter(metrics), []
    evaluate = callbacks.Evaluate(
        lambda: next(answers),
        is_due=lambda step: True,
        best_folder=None,
        best_metric=best_metric,
        log=RunLog(lines.append),
        **options,
    )
    evaluate.set_model(types.SimpleNamespace(stop_training=False))
    for batch in range(len(metrics)):
        evaluate.on_train_batch_end(batch, {})
    return evaluate, [
        step for step, line in enumerate(lines, start=1) if "(best)" in line
    ]


def test_the_loss_breaks_ties_of_bleu():
    """A new model's BLEU is 0 for a while: what lowers the loss is progress."""
    metrics = [
        {"bleu": bleu, "loss": loss}
        for bleu, loss in ((0.0, 6.7), (0.0, 5.9), (0.0, 6.1), (2.0, 7.0), (1.0, 5.0))
    ]
    evaluate, best_steps = evaluated(metrics, "bleu", patience=2)
    assert best_steps == [1, 2, 4]
    assert evaluate.best == 2.0
    assert (evaluate.evaluations_since_best, evaluate.stopped_early) == (1, False)


def test_what_is_not_finite_is_never_the_best():
    nan = float("nan")
    metrics = [{"bleu": 0.0, "loss": nan}, {"bleu": nan, "loss": 5.0}]
    evaluate, best_steps = evaluated(metrics, "bleu")
    assert (evaluate.best, best_steps) == (None, [])
    evaluate, best_steps = evaluated([{"loss": nan}, {"loss": 5.0}], "loss")
    assert (evaluate.best, best_steps) == (5.0, [2])
