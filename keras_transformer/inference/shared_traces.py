"""One trace for the equal layers of a stack, and one tensor for a weight of each.

TensorFlow makes a graph in Python, operation by operation, which is most of the time
until a program has its first answer. What is the same in N layers but for the numbers
is therefore traced once, as a function, and called N times; TensorFlow inlines the
calls, without Python, before the graph runs.

Every tensor that a loop's body reads costs operations too, a few in each function it
passes through: there, the weights of all layers are one tensor a kind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.decoding.working_set import trace_once

Layer = keras.layers.Layer


def call_nth_layer(
    layers: Sequence[Layer],
    run: Callable,
    variables: Callable[[Any], Sequence[keras.Variable]] = lambda layer: layer.weights,
) -> Callable:
    """Return `run` of one of some equal layers, as a function of the layer's number.

    Args:
        layers: Built with one configuration.
        run: Takes one of the layers, then tensors. Must not read another layer's
            variables, nor drop anything, which would be the same in all layers.
        variables: Returns the variables of a layer that `run` reads; any other would be
            read from the first layer, whatever the number.
    """
    if not tf.inside_function():
        return lambda number, *inputs: run(layers[number], *inputs)
    first = layers[0]

    @trace_once
    def run_first(weights, *inputs):
        with with_weights(variables(first), weights):
            return run(first, *inputs)

    return lambda number, *inputs: run_first(values(variables(layers[number])), *inputs)


def stacked(nests: Sequence[Any]) -> Any:
    """Stack nests of equal structure, tensor by tensor; None stays None."""
    return keras.tree.map_structure(
        lambda *parts: None if parts[0] is None else tf.stack(parts), *nests
    )


def unstacked(nest: Any, count: int) -> list[Any]:
    """Take apart what `stacked` made of `count` nests.

    TensorFlow copies nothing where the parts are whole multiples of 64 bytes.
    """
    parts = [
        [None] * count if part is None else tf.unstack(part, count)
        for part in keras.tree.flatten(nest)
    ]
    return [keras.tree.pack_sequence_as(nest, own) for own in zip(*parts, strict=True)]


def values(variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """Read variables in their own dtype, also within a layer's call."""
    return [tf.convert_to_tensor(variable.value) for variable in variables]


def with_weights(
    variables: Sequence[keras.Variable], weights: Sequence[tf.Tensor]
) -> contextlib.AbstractContextManager:
    """Return a context in which variables have other values, from `values`."""
    return keras.StatelessScope(list(zip(variables, weights, strict=True)))
