"""Nests of tensors in one, and one trace for several layers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import traces
from keras_transformer.layers.panels import Panels


@pytest.mark.parametrize("is_traced", [False, True])
def test_nests_come_apart_as_they_were_stacked(is_traced):
    nests = [
        (Panels(tf.fill([2, 3], number)), [tf.constant([number, 0.5])])
        for number in (1.0, 2.0, 3.0)
    ]

    def there_and_back():
        stacked = traces.stacked(nests)
        assert stacked[0].bias is None
        return stacked, traces.unstacked(stacked, 3)

    if is_traced:
        there_and_back = tf.function(there_and_back, autograph=False)
    stacked, again = there_and_back()
    assert stacked[0].kernel.shape == (3, 2, 3) and stacked[1][0].shape == (3, 2)
    for (panels, (vector,)), (kept, (kept_vector,)) in zip(nests, again, strict=True):
        assert isinstance(kept, Panels) and kept.bias is None
        np.testing.assert_array_equal(kept.kernel, panels.kernel)
        np.testing.assert_array_equal(kept_vector, vector)
