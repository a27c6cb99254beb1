"""What all layers share: they pass Keras's masks on and keep the shape, unless told."""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer.layers import masks

Tensor = Any


class MaskedLayer(keras.layers.Layer):
    """Base of layers whose output has the shape and the Keras mask of their input.

    Keras keeps the mask of a sequence, bool `[batch, length]`, True = real token, at
    the tensor itself, from `Embedding(mask_zero=True)` on. Layers that attend hide what
    it calls padding; `GlobalAveragePooling1D` leaves it out of the mean.
    """

    def compute_mask(self, inputs, mask=None):
        """Return the mask of the output: that of the input.

        Keras gives it to the first output of a layer that has several.
        """
        return masks.keras_mask(inputs) if mask is None else mask

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)


def sequence_spec(d_model: int) -> keras.layers.InputSpec:
    """Return what Keras checks of a layer's input, `[batch, length, d_model]`."""
    return keras.layers.InputSpec(ndim=3, axes={-1: d_model})
