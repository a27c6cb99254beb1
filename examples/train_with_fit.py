"""A translation model from two text files, with `fit` and your own `tf.data`.

    python examples/write_phrasebook.py --output_dir=text
    python examples/train_with_fit.py

Trains on `text/train.en` and `text/train.de`: one sentence a line, and line n of one
file translates line n of the other. Prints the loss of each epoch and a few
translations, after three minutes on two CPU cores.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras
import tensorflow as tf

SENTENCES = ["Where is the train station?", "The ticket costs twelve euros."]


# Both languages share one vocabulary, which is learned from both files.
def make_tokenizer(files):
    """Learn 1,000 subwords."""
    return kt.tokenization.train_bpe(tf.data.TextLineDataset(files), vocab_size=1000)


# A batch is a pair of source and target tokens. Every row ends with `eos_id`, which
# teaches the model to stop, then padding. `fit` makes the decoder's inputs.
def make_dataset(tokenizer, files):
    """Yield batches of source and target tokens, int32 `[64, length]`, without end."""

    def with_end(text):
        return tf.concat([tokenizer.tokenize(text), [tokenizer.eos_id]], axis=0)

    def encode(source, target):
        return with_end(source), with_end(target)

    pairs = tf.data.Dataset.zip(*(tf.data.TextLineDataset(file) for file in files))
    return (
        pairs.cache()
        .shuffle(50_000, seed=1)
        .repeat()
        .map(encode, tf.data.AUTOTUNE)
        .padded_batch(64, padding_values=tokenizer.pad_id)
        .prefetch(tf.data.AUTOTUNE)
    )


# The paper's optimizer and loss, with a shorter warm-up for a short training.
def train(tokenizer, dataset, steps_per_epoch, epochs):
    """Return a small model, trained, and its history."""
    config = kt.ModelConfig(
        vocab_size=tokenizer.vocab_size, num_layers=2, d_model=128, d_ff=512
    )
    model = kt.Transformer(config)
    optimizer = kt.paper_optimizer(config.d_model, kt.TrainingConfig(warmup_steps=200))
    model.compile(optimizer, kt.LabelSmoothedCrossEntropy(0.1))
    history = model.fit(
        dataset,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        shuffle=False,  # the dataset does it
        verbose=2,
    )
    return model, history


# `model.save("model.keras")` and `tokenizer.save("tokenizer")` keep both;
# `kt.load_model` and `kt.tokenization.load` read them again.
def main(files=("text/train.en", "text/train.de"), steps_per_epoch=100, epochs=5):
    """Train and translate, and return the translator with the history."""
    keras.utils.set_random_seed(1)
    tokenizer = make_tokenizer(files)
    dataset = make_dataset(tokenizer, files)
    model, history = train(tokenizer, dataset, steps_per_epoch, epochs)
    translator = kt.Translator(model, tokenizer, beam_size=4)
    for sentence, translation in zip(SENTENCES, translator(SENTENCES), strict=True):
        print(f"{sentence} -> {translation}")
    return translator, history


if __name__ == "__main__":
    main()
