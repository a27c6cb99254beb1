"""Weights of a model that changes no more, laid out for the graphs that read them."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_transformer.layers import traces
from keras_transformer.model.transformer import SearchWeights, Transformer


class StepPanels(tf.Module):
    """What a model's `step_weights` gave once, read from variables whenever called.

    Args:
        model: What its weights are now is kept.
        with_words: As of `step_weights`.
    """

    def __init__(self, model: Transformer, with_words: bool):
        super().__init__(name="step_panels")
        weights = model.step_weights(with_words)
        self._kept = [
            tf.Variable(weight, trainable=False)
            for weight in tf.nest.flatten(weights)
            if weight is not None
        ]
        is_there = tf.nest.map_structure(lambda weight: weight is not None, weights)
        # As a function: TensorFlow would wrap what an attribute holds.
        self._structure = lambda: is_there

    def __call__(self) -> SearchWeights:
        """Read them, within the graph that is made."""
        values = map(tf.convert_to_tensor, self._kept)
        return tf.nest.map_structure(
            lambda is_there: next(values) if is_there else None, self._structure()
        )


class LayerStacks(tf.Module):
    """The weights of a model's equal layers, one variable a kind.

    A graph names each variable that it reads in each of its functions, and what loads
    it goes over all of them.

    Args:
        model: What its weights are now is kept.
    """

    def __init__(self, model: Transformer):
        super().__init__(name="layer_stacks")
        self._stacks: list[tf.Variable] = []
        places: dict[int, tuple[int, int]] = {}  # of a variable: stack, number in it
        for layers in (model.encoder.layers, model.decoder.layers):
            for equal in zip(*(layer.weights for layer in layers), strict=True):
                for number, variable in enumerate(equal):
                    places[id(variable)] = len(self._stacks), number
                stack = tf.stack(traces.values(equal))
                self._stacks.append(tf.Variable(stack, trainable=False))
        # As a function: TensorFlow would wrap what an attribute holds.
        self._places = lambda: places

    def read(self) -> _Reading:
        """Return a context in which layers read them for their own.

        What is first read there must be in the graph that all of it is read in.
        """
        return _Reading(self._stacks, self._places())


class _Reading(keras.StatelessScope):
    """Gives variables the values they have in stacks; takes apart what is read."""

    def __init__(
        self, stacks: Sequence[tf.Variable], places: dict[int, tuple[int, int]]
    ):
        super().__init__()
        self._stacks, self._places = stacks, places
        self._unstacked: dict[int, list[tf.Tensor]] = {}

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        if id(variable) not in self._places:
            return super().get_current_value(variable)
        stack, number = self._places[id(variable)]
        if stack not in self._unstacked:
            self._unstacked[stack] = tf.unstack(self._stacks[stack])
        return self._unstacked[stack][number]
