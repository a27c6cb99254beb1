"""Nests of tensors in one, and one trace for several layers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.inference import shared_traces
from keras_transformer.inference.packed_kernels import PackedKernel


@pytest.mark.parametrize("is_traced", [False, True])
def test_nests_come_apart_as_they_were_stacked(is_traced):
    nests = [
        (PackedKernel(tf.fill([2, 3], number)), [tf.constant([number, 0.5])])
        for number in (1.0, 2.0, 3.0)
    ]

    def there_and_back():
        stacked = shared_traces.stacked(nests)
        assert stacked[0].bias is None
        return stacked, shared_traces.unstacked(stacked, 3)

    if is_traced:
        there_and_back = tf.function(there_and_back, autograph=False)
    stacked, again = there_and_back()
    assert stacked[0].blocks.shape == (3, 2, 3) and stacked[1][0].shape == (3, 2)
    for (packed, (vector,)), (kept, (kept_vector,)) in zip(nests, again, strict=True):
        assert isinstance(kept, PackedKernel) and kept.bias is None
        np.testing.assert_array_equal(kept.blocks, packed.blocks)
        np.testing.assert_array_equal(kept_vector, vector)
