"""Random translations of many texts, for back-translation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class Sampling(NamedTuple):
    """How translations are drawn; see `ServingModule.sample`."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


def sampler(
    sample: Callable[..., dict[str, tf.Tensor]], sampling: Sampling | None
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Return a batch function for `translate_in_batches` that draws translations.

    The random numbers of a text follow from the seed and the text alone, so neither the
    other texts nor a resumed run change its translation.

    Args:
        sample: The signature `sample` of an export, or `ServingModule.sample`.
        sampling: How to draw; None: as `Sampling` does by itself.
    """
    sampling = sampling or Sampling()

    def translate_batch(text):
        def all_rows(value, dtype):
            return tf.fill(tf.shape(text), tf.constant(value, dtype))

        keyed = tf.strings.join([str(sampling.seed), text], "\t")
        return sample(
            text=text,
            temperature=all_rows(sampling.temperature, tf.float32),
            top_k=all_rows(sampling.top_k, tf.int32),
            top_p=all_rows(sampling.top_p, tf.float32),
            seed=tf.cast(tf.strings.to_hash_bucket_fast(keyed, 2**31), tf.int32),
        )

    return translate_batch
