"""A callback and a learning-rate schedule of your own, in `fit`.

    python examples/callback_and_schedule.py

Learns to translate numbers, digit by digit, from English to German. After each epoch
the callback translates numbers that are not in the training data, and ends the training
when all are right. Prints this and the learning rate, for less than a minute.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras
import numpy as np
from keras import ops

ENGLISH = "zero one two three four five six seven eight nine"
GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun"
NUM_TEST = 100


# The schedule rises, stays and falls in straight lines. `step` counts updates, from 0.
@keras.saving.register_keras_serializable(package="examples")
class Trapezoid(keras.optimizers.schedules.LearningRateSchedule):
    """Rises over the first tenth of the steps, and falls over the last third."""

    def __init__(self, peak, num_steps):
        self.peak = peak
        self.num_steps = num_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rise = (step + 1.0) / (0.1 * self.num_steps)
        fall = (self.num_steps - step) / (0.3 * self.num_steps)
        return self.peak * ops.clip(ops.minimum(rise, fall), 0.0, 1.0)

    def get_config(self):
        return {"peak": self.peak, "num_steps": self.num_steps}


# What a callback adds to `logs` is in the history, and callbacks after it can use it:
# `ModelCheckpoint` and `EarlyStopping` with `monitor="exact_match", mode="max"`.
class ExactMatch(keras.callbacks.Callback):
    """Translates texts after each epoch, and ends the training if all are right."""

    def __init__(self, tokenizer, sources, references):
        super().__init__()
        self.tokenizer = tokenizer
        self.sources, self.references = sources, references

    def on_train_begin(self, logs=None):
        # It reads the model's weights anew for each batch.
        self.translator = kt.Translator(self.model, self.tokenizer, beam_size=1)

    def on_epoch_end(self, epoch, logs=None):
        translations = self.translator(self.sources)
        logs["exact_match"] = np.mean(np.array(translations) == self.references)
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        self.model.stop_training = logs["exact_match"] == 1.0
        print(
            f"epoch {epoch + 1}: exact match {logs['exact_match']:.0%}, learning rate "
            f"{logs['learning_rate']:.5f}, {self.sources[0]} -> {translations[0]}"
        )


def make_pairs():
    """Return the numbers of three digits in English and in German, shuffled."""
    digits = np.random.default_rng(1).permutation(1000)[:, None] // [100, 10, 1] % 10
    return [
        [" ".join(words.split()[digit] for digit in row) for row in digits]
        for words in (ENGLISH, GERMAN)
    ]


def main(epochs=40, batch_size=50, peak=0.003):
    """Train, and return the model with its history."""
    keras.utils.set_random_seed(1)
    sources, targets = make_pairs()
    tokenizer = kt.tokenization.train_bpe(sources + targets, vocab_size=330)
    config = kt.ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=1, d_model=64, d_ff=128, num_heads=4
    )
    model = kt.Transformer(config)
    steps_per_epoch = (len(sources) - NUM_TEST) // batch_size
    schedule = Trapezoid(peak, steps_per_epoch * epochs)
    model.compile(
        keras.optimizers.Adam(schedule, beta_2=0.98), kt.LabelSmoothedCrossEntropy(0.1)
    )
    history = model.fit(
        tokenizer.encode_rows(sources[NUM_TEST:]),
        tokenizer.encode_rows(targets[NUM_TEST:]),
        batch_size=batch_size,
        epochs=epochs,
        callbacks=[ExactMatch(tokenizer, sources[:NUM_TEST], targets[:NUM_TEST])],
        verbose=0,
    )
    return model, history


if __name__ == "__main__":
    main()
