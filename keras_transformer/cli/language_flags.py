"""The flags that choose the languages of a multilingual model."""

from __future__ import annotations

from absl import flags

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
