"""Gradients of our own, which keep no graph alive.

TensorFlow 2.21 registers each gradient of `tf.custom_gradient` in a graph for ever,
with the tensors that it uses, so each model that was trained would stay in memory as a
graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry


def custom_gradient(function: Callable) -> Callable:
    """Same as `tf.custom_gradient`, with a registered gradient that holds no tensors.

    A tape within the graph has the gradient with its tensors. One outside looks for the
    registered one, which computes them again.

    Args:
        function: Takes tensors, and returns results and their gradient; see
            `tf.custom_gradient`. Must not use tensors that are not arguments.
    """

    def registered(operation, *upstream):
        count = len(upstream) - function.__code__.co_argcount
        _, gradient = function(*operation.inputs[count:])
        return [None] * count + tf.nest.flatten(gradient(*upstream[:count]))

    @functools.wraps(function)
    def call(*arguments):
        results = tf.custom_gradient(function)(*arguments)
        if not tf.executing_eagerly():
            name = tf.nest.flatten(results)[0].op.get_attr("_gradient_op_type")
            gradient_registry._registry[name.decode()]["type"] = registered
        return results

    return call


def forgets_gradients(function: Callable) -> Callable:
    """Let TensorFlow forget the gradients that are registered while a function runs.

    For a train or test step, which nothing differentiates: the sums of
    `tf.distribute` over replicas have such gradients.
    """

    @functools.wraps(function)
    def call(*arguments):
        known = {*gradient_registry.list()}
        try:
            return function(*arguments)
        finally:
            for name in {*gradient_registry.list()} - known:
                gradient_registry._registry.pop(name, None)

    return call
