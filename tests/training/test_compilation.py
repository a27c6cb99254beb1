"""What XLA compiles is said when it begins and when it is done."""

import pytest

from keras_transformer.training.compilation import Compilations
from keras_transformer.training.heartbeat import Heartbeat


@pytest.fixture
def said():
    return []


def compilations(said, has_xla=True, seconds=(0.0, 41.2, 50.0, 150.0)):
    clock = iter(seconds)
    heartbeat = Heartbeat(said.append)
    return Compilations(heartbeat, has_xla, clock=lambda: next(clock))


def test_each_shape_is_said_once_before_it_compiles_and_after(said):
    made = compilations(said)
    for shape in ((48, 62, 64), (48, 62, 64), (1, 5, 3)):
        with made.of_step(shape):
            said.append("step")
    assert said == [
        "compiling the training step for 48 rows of 62 + 64 tokens",
        "step",
        "compiled the training step in 41 s",
        "step",
        "compiling the training step for 1 row of 5 + 3 tokens",
        "step",
        "compiled the training step in 1 min 40 s",
    ]


def test_without_xla_nothing_is_said(said):
    with compilations(said, has_xla=False).of_step((48, 62, 64)):
        pass
    assert said == []


def test_a_shape_that_failed_compiles_again(said):
    made = compilations(said)
    with pytest.raises(ZeroDivisionError), made.of_step((2, 3, 5)):
        raise ZeroDivisionError
    with made.of_step((2, 3, 5)):
        pass
    begun = "compiling the training step for 2 rows of 3 + 5 tokens"
    assert said == [begun, begun, "compiled the training step in 9 s"]
