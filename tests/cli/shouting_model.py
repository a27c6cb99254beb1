"""A model for worker processes: it shouts, and tells who it is."""

import os
import signal

from keras_transformer.translation.opened_model import OpenedModel


def load(limit=20):
    """Return the model; needs a positive limit."""
    import tensorflow as tf

    if limit < 0:
        raise ValueError(f"limit must be positive. Received: {limit}.")

    def translate_batch(text):
        texts = [each.decode() for each in text.numpy()]
        if "suicide" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        threads = tf.config.threading.get_intra_op_parallelism_threads()
        found = [[each.upper(), f"{os.getpid()} {threads}"] for each in texts]
        return {
            "translations": tf.constant(found),
            "scores": tf.zeros([len(texts), 2]),
            "truncated": tf.fill([len(texts)], False),
        }

    return OpenedModel(
        run_batch=translate_batch,
        max_input_length=limit,
        source_language="en",
        at_once=1,
    )
