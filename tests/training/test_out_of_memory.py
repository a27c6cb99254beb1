"""What does not fit into memory ends training with a line that names a flag."""

import pytest
import tensorflow as tf

from keras_transformer.model.transformer import Transformer
from keras_transformer.training import out_of_memory, run_callbacks
from keras_transformer.training.out_of_memory import NotEnoughMemoryError
from tests.training.small_runs import train


def exhausted(message="OOM when allocating tensor"):
    def fail(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, message)

    return fail


def test_a_step_says_which_flag_to_lower(corpus, tmp_path, monkeypatch):
    """150 tokens in one piece become 75 in two."""
    monkeypatch.setattr(Transformer, "fit", exhausted())
    with pytest.raises(NotEnoughMemoryError) as caught:
        train(corpus, tmp_path)
    message = str(caught.value)
    assert message.startswith("Out of memory in step 1, whose batch has ")
    assert "pass --max_tokens_per_replica=75 to split batches" in message
    assert message.endswith("Training resumes from the beginning.")


@pytest.mark.parametrize(
    ("measure", "flag"),
    [
        ("make_loss_measure", "lower --max_tokens_per_replica"),
        ("make_bleu_measure", "pass --bleu_sentences=0"),
    ],
)
def test_an_evaluation_says_which_flag_to_lower(
    corpus, tmp_path, monkeypatch, measure, flag
):
    monkeypatch.setattr(run_callbacks, "make_loss_measure", lambda run: dict)
    monkeypatch.setattr(run_callbacks, measure, lambda run: exhausted())
    monkeypatch.setattr(Transformer, "fit", fit_of_one_step)
    with pytest.raises(NotEnoughMemoryError, match=flag):
        train(corpus, tmp_path, evaluate_every_steps=1)


def fit_of_one_step(model, *arguments, callbacks, **options):
    """Call what comes after a step."""
    for callback in callbacks:
        callback.set_model(model)
    next(each for each in callbacks if hasattr(each, "catch_up")).on_step(1, {})


def test_a_full_disk_is_not_taken_for_memory():
    with (
        pytest.raises(tf.errors.ResourceExhaustedError),
        out_of_memory.naming_flags(lambda: "Out of memory."),
    ):
        exhausted("model; No space left on device")()
