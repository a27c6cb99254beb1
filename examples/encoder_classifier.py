"""A classifier of sequences: our encoder in a functional Keras model.

    python examples/encoder_classifier.py

Tells which of two tokens is the more frequent in a sequence. Prints the loss of each
epoch, and the accuracy on new sequences: about 1.0 after 200 steps and a few seconds.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras
import numpy as np

CONFIG = kt.ModelConfig(vocab_size=8, num_layers=1, d_model=32, d_ff=64, num_heads=4)


def make_data(num_rows, seed):
    """Return tokens, padded with 0, and for each row whether it has more 1s than 2s."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(1, CONFIG.vocab_size, size=(num_rows, 15))
    lengths = draw.integers(5, 16, size=(num_rows, 1))
    tokens = np.where(np.arange(15) < lengths, tokens, 0)
    labels = (tokens == 1).sum(1) > (tokens == 2).sum(1)
    return tokens, labels.astype("int32")


def make_model():
    """Padding has no influence: the embedding masks it, and the layers know."""
    tokens = keras.Input((None,), dtype="int32")
    x = kt.layers.TokenEmbedding(CONFIG.vocab_size, CONFIG.d_model, mask_zero=True)(
        tokens
    )
    x = kt.layers.PositionalEncoding(CONFIG.d_model)(x)
    x, _ = kt.layers.Encoder(CONFIG)(x)  # and the attention weights of each layer
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, keras.layers.Dense(2)(x))


def main(steps_per_epoch=50, epochs=4):
    """Train, and return the model with its history."""
    keras.utils.set_random_seed(1)
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    tokens, labels = make_data(64 * steps_per_epoch * epochs, seed=1)
    history = model.fit(
        tokens,
        labels,
        batch_size=64,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        verbose=2,
    )
    print("accuracy:", model.evaluate(*make_data(1000, seed=2), verbose=0)[1])
    return model, history


if __name__ == "__main__":
    main()
