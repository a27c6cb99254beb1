"""An export of a fake model, for what asks an export and knows no model."""

import tensorflow as tf


class ShoutingModel(tf.Module):
    """A fake model: "translates" to upper case and scores by length."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        return {
            "translation": tf.strings.upper(text, "utf-8"),
            "score": -tf.cast(tf.strings.length(text), tf.float32),
            "truncated": tf.strings.length(text) > 23,
        }


def save(path, signature="serving_default"):
    """Export the fake model with one signature."""
    model = ShoutingModel()
    tf.saved_model.save(model, path, signatures={signature: model.serve})
