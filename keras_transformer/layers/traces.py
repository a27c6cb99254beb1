"""One trace for the equal layers of a stack, and one tensor for what each has.

TensorFlow makes a graph in Python, operation by operation, and that is most of the time
until a program has its first answer. What is the same for N layers but for the numbers
is therefore made once, as a function, and called N times; TensorFlow puts it in place
of each call, without Python, before the graph runs.

What a loop's body reads costs operations too, a few in each function it passes through:
the weights of all layers are one tensor a kind there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

Tensor = Any


def traced_once(run: Callable) -> Callable:
    """Return a function that the graph being made holds once.

    Args:
        run: Of tensors, and of values that are equal in every call. Uses no variable.
    """
    if not _is_tracing():
        return run
    import tensorflow as tf

    return tf.function(run, autograph=False)


def by_number(
    layers: Sequence[keras.layers.Layer],
    run: Callable,
    variables: Callable[[Any], Sequence[keras.Variable]] = lambda layer: layer.weights,
) -> Callable:
    """Return `run` of one of some equal layers, as a function of its number.

    Args:
        layers: Built with one configuration.
        run: Gets one of the layers, then tensors. Uses no other layer's variables and
            no dropout, which would be the same in all layers.
        variables: Of a layer, those that `run` uses; others it would read from the
            first layer, whatever the number.
    """
    if not _is_tracing():
        return lambda number, *inputs: run(layers[number], *inputs)
    first = layers[0]

    @traced_once
    def run_first(weights, *inputs):
        with replaced(variables(first), weights):
            return run(first, *inputs)

    return lambda number, *inputs: run_first(values(variables(layers[number])), *inputs)


def stacked(nests: Sequence[Any]) -> Any:
    """Stack nests of equal structure, tensor by tensor; None stays None."""
    return keras.tree.map_structure(
        lambda *parts: None if parts[0] is None else ops.stack(parts), *nests
    )


def unstacked(nest: Any, count: int) -> list[Any]:
    """Take apart what `stacked` made of `count` nests.

    TensorFlow copies nothing where the parts are whole multiples of 64 bytes.
    """
    parts = [
        [None] * count if part is None else ops.unstack(part, count)
        for part in keras.tree.flatten(nest)
    ]
    return [keras.tree.pack_sequence_as(nest, own) for own in zip(*parts, strict=True)]


def values(variables: Sequence[keras.Variable]) -> list[Tensor]:
    """Read variables; within a layer's call they could come out in another type."""
    read = [variable.value for variable in variables]
    if keras.backend.backend() != "tensorflow":
        return read
    import tensorflow as tf

    return [tf.convert_to_tensor(value) for value in read]


def replaced(variables: Sequence[keras.Variable], by: Sequence[Tensor]) -> Any:
    """Return a context within which variables have other values, from `values`."""
    return keras.StatelessScope(list(zip(variables, by, strict=True)))


def _is_tracing() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.inside_function()
