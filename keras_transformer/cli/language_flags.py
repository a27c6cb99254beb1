"""The flags that choose the languages of a multilingual model."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from absl import flags

from keras_transformer.cli.model_flags import MODEL_DIR

SOURCE_LANGUAGE = flags.DEFINE_string(
    "source_language",
    None,
    "Code of the source language, for a multilingual model that was imported; default: "
    "the one chosen then. Models trained here are not told it.",
)
TARGET_LANGUAGE = flags.DEFINE_string(
    "target_language",
    None,
    "Code of the target language, for a multilingual model; default: the one chosen "
    "when it was imported, or the one that a text begins with, as in '>>de<< A dog.'",
)


def given() -> tuple[str | None, str | None]:
    """Return the source and the target language, for `ModelDir.load_translator`."""
    return SOURCE_LANGUAGE.value, TARGET_LANGUAGE.value


def report_untold(texts: Iterable[str]) -> None:
    """Say on standard error if the model is not told its target language.

    Args:
        texts: What the model will read; the first one is looked at.
    """
    if MODEL_DIR.value is None or TARGET_LANGUAGE.value is not None:
        return
    from keras_transformer.runs.model_dir import ModelDir

    tokenizer = ModelDir(MODEL_DIR.value).load_tokenizer()
    is_told = next(iter(texts), ">>").startswith(">>")
    if tokenizer.languages and tokenizer.source_prefix_id is None and not is_told:
        codes = ", ".join(tokenizer.languages)
        print(
            f"The model writes several languages ({codes}), and the first line does "
            "not begin with one, such as '>>de<< A dog.': give --target_language.",
            file=sys.stderr,
        )
