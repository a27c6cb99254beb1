"""Gradients of our own, which are freed with the graphs that they are part of."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry


def custom_gradient(function: Callable) -> Callable:
    """Same as `tf.custom_gradient`, but graphs are freed.

    TensorFlow 2.21 registers each gradient in a graph for ever. A gradient holds its
    graph, so each model that was trained would stay in memory as a graph. Here the
    graph holds the gradient, which is registered as long as that lives.
    """

    @functools.wraps(function)
    def call(*arguments):
        results = tf.custom_gradient(function)(*arguments)
        first = tf.nest.flatten(results)[0]
        if not tf.executing_eagerly():
            _hold_weakly(first.op.get_attr("_gradient_op_type").decode(), first.graph)
        return results

    return call


def _hold_weakly(name: str, graph: tf.Graph) -> None:
    """Let a graph hold the gradient that is registered under a name."""
    registered = gradient_registry._registry
    entry = registered[name]
    own = weakref.ref(entry["type"], lambda _: registered.pop(name, None))
    setattr(graph, name, entry["type"])
    entry["type"] = lambda *arguments: own()(*arguments)
