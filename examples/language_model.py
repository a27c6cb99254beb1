"""A language model: our decoder without an encoder, in a functional Keras model.

    python examples/language_model.py

Learns sequences that count up by a step of 1 to 3. Prints the loss of each epoch, and a
sequence that the model continues, after 200 steps and a few seconds.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras
import numpy as np

PAD, BOS, EOS = 0, 1, 2
NUMBERS = range(3, 13)  # the tokens of 0 to 9
CONFIG = kt.ModelConfig(vocab_size=13, num_layers=2, d_model=32, d_ff=64, num_heads=4)


def make_data(num_rows, seed):
    """Return inputs, BOS first, and labels, EOS last, both padded with 0."""
    draw = np.random.default_rng(seed)
    first, step = draw.integers(10, size=num_rows), draw.integers(1, 4, size=num_rows)
    numbers = (first[:, None] + step[:, None] * np.arange(12)) % 10 + NUMBERS.start
    is_real = np.arange(12) < draw.integers(3, 13, size=(num_rows, 1))
    tokens = np.where(is_real, numbers, PAD)
    inputs = np.pad(tokens, ((0, 0), (1, 0)), constant_values=BOS)
    labels = np.pad(tokens, ((0, 0), (0, 1)), constant_values=PAD)
    labels[np.arange(num_rows), is_real.sum(1)] = EOS
    return inputs, labels


def make_model():
    """The embedding's matrix computes the logits, too."""
    tokens = keras.Input((None,), dtype="int32")
    embedding = kt.layers.TokenEmbedding(
        CONFIG.vocab_size, CONFIG.d_model, mask_zero=True
    )
    x = kt.layers.PositionalEncoding(CONFIG.d_model)(embedding(tokens))
    x, _ = kt.layers.Decoder(CONFIG)(x)  # and the attention weights of each layer
    return keras.Model(tokens, embedding(x, reverse=True))


def continued(model, numbers, num_tokens=6):
    """Return the tokens of numbers with those that the model finds likeliest."""
    tokens = [BOS, *(NUMBERS[number] for number in numbers)]
    for _ in range(num_tokens):
        logits = model(np.array([tokens]))[0, -1]
        tokens.append(int(np.argmax(logits)))
    return tokens[1:]


def main(steps_per_epoch=50, epochs=4):
    """Train, and return the model with its history."""
    keras.utils.set_random_seed(1)
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=PAD
    )
    model.compile(keras.optimizers.Adam(0.003), loss)
    inputs, labels = make_data(64 * steps_per_epoch * epochs, seed=1)
    history = model.fit(
        inputs,
        labels,
        batch_size=64,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        verbose=2,
    )
    print(
        "0 2 4 goes on:",
        [token - NUMBERS.start for token in continued(model, [0, 2, 4])],
    )
    return model, history


if __name__ == "__main__":
    main()
