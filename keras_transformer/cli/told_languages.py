"""Lets texts tell a model of several languages which one it is to write."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from keras_transformer.language_tokens import Reader


def reader_of_export(path: str) -> Reader:
    """Return what reads texts for an exported model, EXPORT_DIR/VERSION."""
    from keras_transformer.translation import exported_model

    description = exported_model.read_description(path)
    return Reader(
        exported_model.language_tokens(description),
        description.get("default_language"),
        "export it with --target_language",
    )


def check(reader: Reader, number: int, texts: Iterable[str]) -> None:
    """Check the texts of a line, and say on standard error which are not translated.

    Raises:
        ValueError: If the model writes several languages and a text tells none.
    """
    for text in texts:
        if problem := reader.read(number, text):
            print(problem, file=sys.stderr)
