"""Our encoder and decoder with layers of Keras between them, in a functional model.

    python examples/encoder_decoder.py

Learns to turn sequences round. `kt.Transformer` is the same with less to write; this
program is for those who need other parts. Prints the loss of each epoch, and the share
of right tokens in new sequences.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras
import numpy as np

PAD, BOS = 0, 1
CONFIG = kt.ModelConfig(vocab_size=12, num_layers=1, d_model=32, d_ff=64, num_heads=4)


def make_data(num_rows, seed):
    """Return sources and decoder inputs, and labels, all padded with 0."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(3, 8, size=(num_rows, 1))
    source = draw.integers(2, CONFIG.vocab_size, size=(num_rows, 7))
    source = np.where(np.arange(7) < lengths, source, PAD)
    backwards = np.abs(lengths - 1 - np.arange(7))
    labels = np.where(
        np.arange(7) < lengths, np.take_along_axis(source, backwards, axis=1), PAD
    )
    inputs = np.pad(labels, ((0, 0), (1, 0)), constant_values=BOS)[:, :-1]
    inputs = np.where(np.arange(7) < lengths, inputs, PAD)
    return [source, inputs], labels


def make_model():
    """Masks of both embeddings reach every attention, and the loss."""
    source = keras.Input((None,), dtype="int32", name="source")
    inputs = keras.Input((None,), dtype="int32", name="decoder_inputs")
    embedding = kt.layers.TokenEmbedding(
        CONFIG.vocab_size, CONFIG.d_model, mask_zero=True
    )
    positions = kt.layers.PositionalEncoding(CONFIG.d_model)
    encoded, _ = kt.layers.Encoder(CONFIG)(positions(embedding(source)))
    x, _, _ = kt.layers.Decoder(CONFIG)(positions(embedding(inputs)), encoded)
    logits = keras.layers.Dense(CONFIG.vocab_size)(x)
    return keras.Model([source, inputs], logits)


def main(steps_per_epoch=50, epochs=4):
    """Train, and return the model with its history."""
    keras.utils.set_random_seed(1)
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, weighted_metrics=["accuracy"])
    inputs, labels = make_data(64 * steps_per_epoch * epochs, seed=1)
    history = model.fit(
        inputs,
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
