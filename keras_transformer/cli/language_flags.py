"""The flags that choose the languages of a multilingual model."""

from __future__ import annotations

from collections.abc import Iterable

from absl import flags

from keras_transformer.cli import told_languages
from keras_transformer.cli.model_flags import MODEL_DIR
from keras_transformer.language_tokens import Reader
from keras_transformer.translation.opened_model import ModelFacts

SOURCE_LANGUAGE = flags.DEFINE_string(
    "source_language",
    None,
    "Code of the source language, for a multilingual model that was imported; default: "
    "the one chosen then. Models that are told only the target language need none.",
)
TARGET_LANGUAGE = flags.DEFINE_string(
    "target_language",
    None,
    "Code of the target language, for a multilingual model; default: the one that a "
    "text begins with, as in '>>de<< A dog.', or the only one of training or import.",
)


def given() -> tuple[str | None, str | None]:
    """Return the source and the target language, for `opening.open_model`."""
    return SOURCE_LANGUAGE.value, TARGET_LANGUAGE.value


def reader(model: ModelFacts) -> Reader:
    """Return what reads texts for a model of --model_dir or of --saved_model."""
    if MODEL_DIR.value is None:
        return told_languages.reader(model)
    return told_languages.reader(model, "give --target_language")


def check_told(texts: Iterable[str], model: ModelFacts | None = None) -> None:
    """Check that texts tell a model their target language.

    Args:
        texts: What the model will read, a line each.
        model: The model; None: that of --model_dir, which is not loaded yet.

    Raises:
        ValueError: If the model writes several languages and a text tells none.
    """
    if model is None:
        from keras_transformer.runs.model_dir import ModelDir

        model_dir = ModelDir(MODEL_DIR.value)
        model = model_dir.told(model_dir.load_tokenizer(), given())
    look = reader(model)
    for number, text in enumerate(texts, start=1):
        told_languages.check(look, number, [text])
