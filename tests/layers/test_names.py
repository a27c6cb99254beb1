"""The layers as names of their package."""

import pytest

import keras_transformer as kt
from keras_transformer.layers import masks
from keras_transformer.layers.encoder import Encoder


def test_every_layer_is_a_name_of_the_package():
    assert kt.layers.Encoder is Encoder
    assert kt.layers.causal_mask is masks.causal_mask
    for name in kt.layers.__all__:
        assert getattr(kt.layers, name).__name__ == name
        assert name in dir(kt.layers)
    with pytest.raises(AttributeError, match="no attribute 'Encoders'"):
        _ = kt.layers.Encoders
