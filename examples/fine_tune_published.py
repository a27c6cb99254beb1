"""A published model, tuned on a few pairs of your own.

    hf download Helsinki-NLP/opus-mt-en-de --local-dir opus-mt-en-de
    python examples/fine_tune_published.py

Imports the model, teaches it the words of a glossary, and prints translations before
and after. `runs/tuned` is then a model like any other: `bin/translate.py` translates
with it, and `export/export_saved_model.py` exports it.
"""

import keras_transformer as kt  # isort: skip  before TensorFlow, which it sets up
import keras

from keras_transformer.pretrained import importing

PAIRS = [
    ("Open the dashboard.", "Öffnen Sie die Übersicht."),
    ("The dashboard shows all orders.", "Die Übersicht zeigt alle Aufträge."),
    ("Close the dashboard.", "Schließen Sie die Übersicht."),
    ("Show the order on the dashboard.", "Zeigen Sie den Auftrag in der Übersicht."),
    ("Delete the order.", "Löschen Sie den Auftrag."),
    ("The order is new.", "Der Auftrag ist neu."),
]
SENTENCES = ["The dashboard is empty.", "Print the order.", "A dog runs in the snow."]


# The files may be those of OPUS-MT or Marian; M2M-100 and NLLB also need
# `source_language` and `target_language`.
def import_once(published, model_dir):
    """Import a published model unless this was done before; return its folder."""
    place = kt.model_dir.ModelDir(model_dir)
    if not place.path.exists():
        importing.import_model(published, model_dir)
    return place


# All pairs are one batch. A low rate for few steps keeps what the model knew: the last
# of the sentences has nothing to do with the glossary, and should stay as it is.
def tune(translator, learning_rate, num_steps):
    """Train the model of a translator on the pairs; return the history."""
    model, tokenizer = translator.model, translator.tokenizer
    sources, targets = zip(*PAIRS, strict=True)
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, kt.LabelSmoothedCrossEntropy(0.1))
    return model.fit(
        tokenizer.encode_rows(sources),
        tokenizer.encode_rows(targets, is_target=True),
        batch_size=len(PAIRS),
        epochs=num_steps,
        verbose=2,
    )


def main(
    published="opus-mt-en-de",
    model_dir="runs/opus_en_de",
    tuned_dir="runs/tuned",
    learning_rate=2e-5,
    num_steps=20,
):
    """Import, tune and save; return translations before and after, and the history."""
    keras.utils.set_random_seed(1)
    place = import_once(published, model_dir)
    translator = kt.open_model(model_dir, use=None).searcher
    before = translator(SENTENCES)
    history = tune(translator, learning_rate, num_steps)
    after = translator(SENTENCES)
    for texts in zip(SENTENCES, before, after, strict=True):
        print("{}\n  before: {}\n  after:  {}".format(*texts))
    tuned = kt.model_dir.ModelDir(tuned_dir)
    tuned.write(translator.model, translator.tokenizer, place.read_config())
    return before, after, history


if __name__ == "__main__":
    main()
