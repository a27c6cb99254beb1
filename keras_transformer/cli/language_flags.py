"""The flags that choose the languages of a multilingual model."""

from __future__ import annotations

from collections.abc import Iterable

from absl import flags

from keras_transformer.cli import told_languages
from keras_transformer.cli.model_flags import MODEL_DIR
from keras_transformer.language_tokens import Reader

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
    """Return the source and the target language, for `ModelDir.load_translator`."""
    return SOURCE_LANGUAGE.value, TARGET_LANGUAGE.value


def reader(saved_model: str | None = None) -> Reader:
    """Return what reads texts for the model of the flags.

    Args:
        saved_model: An export, instead of --model_dir.
    """
    if saved_model is not None:
        return told_languages.reader_of_export(saved_model)
    from keras_transformer.runs.model_dir import ModelDir

    tokenizer = ModelDir(MODEL_DIR.value).load_told_tokenizer(given())
    return Reader(
        tokenizer.language_tokens,
        tokenizer.default_language,
        "give --target_language",
    )


def check_told(texts: Iterable[str], saved_model: str | None = None) -> None:
    """Check that texts tell the model their target language.

    Args:
        texts: What the model will read, a line each.
        saved_model: Same as in `reader`.

    Raises:
        ValueError: If the model writes several languages and a text tells none.
    """
    look = reader(saved_model)
    for number, text in enumerate(texts, start=1):
        told_languages.check(look, number, [text])
