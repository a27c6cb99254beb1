"""Batches without padding, and the times of training steps."""

import keras
import numpy as np
import pytest

from benchmarks.lib import fit_timing
from keras_transformer.config import ModelConfig
from keras_transformer.model.transformer import Transformer

CONFIG = ModelConfig(vocab_size=13, num_layers=1, d_model=6, d_ff=7, num_heads=2)


def test_a_batch_has_no_padding_and_is_repeated():
    dataset = fit_timing.same_batch(CONFIG, 3, 5, 7, seed=1)
    assert dataset.element_spec[0].shape.as_list() == [None, None]
    (source, target), (again, _) = dataset.take(2).as_numpy_iterator()
    assert source.shape == (3, 5) and target.shape == (3, 7)
    for tokens in (source, target):
        assert np.all(tokens != CONFIG.pad_id)
        assert np.all(tokens[:, -1] == CONFIG.eos_id)
        assert np.all(tokens[:, :-1] != CONFIG.eos_id)
    np.testing.assert_array_equal(source, again)


def test_a_vocabulary_needs_ids_besides_special_ones():
    config = ModelConfig(vocab_size=3, d_model=6, num_heads=2, bos_id=1, eos_id=2)
    with pytest.raises(ValueError, match="`vocab_size` must leave ids besides pad_id"):
        fit_timing.same_batch(config, 3, 5, 7, seed=1)


@pytest.mark.long
def test_steps_of_the_second_fit_are_timed():
    model = Transformer(CONFIG)
    model.compile(keras.optimizers.Adam(0.01))
    batches = fit_timing.same_batch(CONFIG, 1024, 5, 7, seed=1)
    timed = fit_timing.time_fit(model, batches, untimed_steps=2, steps=5)
    assert len(timed["seconds"]) == 5 and len(timed["losses"]) == 6
    assert timed["losses"][-1] < timed["losses"][0]
    assert sum(timed["seconds"]) < timed["fit_s"]
    # A lower bound: only probabilities and their gradients, without smaller tensors.
    assert timed["step_bytes"] > 2 * 1024 * 7 * 13 * 4
    assert timed["first_step_s"] > max(timed["seconds"])  # includes tracing
