"""What the lines of progress say."""

import types

import pytest

from keras_transformer.training import callbacks


@pytest.fixture
def lines():
    return []


@pytest.fixture
def progress(lines):
    made = callbacks.Progress(
        num_tokens=lambda step: 8,
        shape=lambda step: (2, 4, 5),
        total_steps=9,
        every_steps=2,
        write=lines.append,
    )
    optimizer = types.SimpleNamespace(learning_rate=0.1)
    made.set_model(
        types.SimpleNamespace(optimizer=optimizer, reset_metrics=lambda: None)
    )
    made.on_train_begin()
    return made


def _logs(skipped, loss=1.5):
    return {
        "loss": loss,
        "perplexity": 4.0,
        "token_accuracy": 0.25,
        "skipped": float(skipped),
    }


def test_a_line_comes_every_few_steps_and_at_the_end(progress, lines):
    for batch in range(9):
        progress.on_train_batch_end(batch, _logs(skipped=False))
    assert [line.split()[1] for line in lines] == ["2/9", "4/9", "6/9", "8/9", "9/9"]
    assert "loss 1.5000  perplexity 4.00  accuracy 25.0 %" in lines[0]


def test_a_line_of_skipped_steps_alone_shows_no_loss(progress, lines):
    for batch, skipped in enumerate((True, True, False, True)):
        progress.on_train_batch_end(batch, _logs(skipped, loss=0.0 if skipped else 1.5))
    assert "every step since the last line was skipped" in lines[0]
    assert "loss" not in lines[0]
    assert "loss" in lines[1]


def evaluated(metrics, best_metric, **options):
    """Evaluate after each of some steps; return the callback and the best steps."""
    answers, lines = iter(metrics), []
    evaluate = callbacks.Evaluate(
        lambda: next(answers),
        every_steps=1,
        total_steps=99,
        best_folder=None,
        best_metric=best_metric,
        write=lines.append,
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
