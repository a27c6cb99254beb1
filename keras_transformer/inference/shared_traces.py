"""One trace shared by all layers of a stack, and their weights stacked in one tensor.

Building a graph in Python, operation by operation, is most of the time to a program's
first answer. So one layer is traced as a function and called N times with the weights
of each layer. TensorFlow inlines the calls before the graph runs.

Each tensor that a loop body reads costs operations in every function it passes through,
so loops read the weights of all layers as one tensor per kind.
"""

from __future__ import annotations

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
    """Return a function of a layer's number and tensors that calls `run` on the layer.

    Args:
        layers: Layers built with the same configuration.
        run: Takes a layer, then tensors. Must not read variables of other layers. Must
            not use dropout: the mask would be equal in all layers.
        variables: Returns the variables of a layer that `run` reads. Any other variable
            would be read from the first layer.
    """
    if not tf.inside_function():
        return lambda number, *inputs: run(layers[number], *inputs)
    first = layers[0]

    @trace_once
    def run_first(weights, *inputs):
        with keras.StatelessScope(list(zip(variables(first), weights, strict=True))):
            return run(first, *inputs)

    return lambda number, *inputs: run_first(values(variables(layers[number])), *inputs)


def stacked(nests: Sequence[Any]) -> Any:
    """Stack nests of equal structure, tensor by tensor; None stays None."""
    return keras.tree.map_structure(
        lambda *parts: None if parts[0] is None else tf.stack(parts), *nests
    )


def unstacked(nest: Any, count: int) -> list[Any]:
    """Split the result of `stacked` into `count` nests.

    TensorFlow does not copy parts whose size is a multiple of 64 bytes.
    """
    parts = [
        [None] * count if part is None else tf.unstack(part, count)
        for part in keras.tree.flatten(nest)
    ]
    return [keras.tree.pack_sequence_as(nest, own) for own in zip(*parts, strict=True)]


def values(variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """Read variables in their own dtype, without autocast in a layer's call."""
    return [tf.convert_to_tensor(variable.value) for variable in variables]
