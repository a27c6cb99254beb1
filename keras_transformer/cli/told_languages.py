"""Lets texts tell a model of several languages which one it is to write."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from keras_transformer.language_tokens import Reader
from keras_transformer.translation.opened_model import ModelFacts


def reader(
    model: ModelFacts, remedy: str = "export it with --target_language"
) -> Reader:
    """Return what reads texts for a model.

    Args:
        model: The model.
        remedy: What to do if a text tells no language; default: that of an export.
    """
    return Reader(model.language_tokens, model.default_language, remedy)


def check(reader: Reader, number: int, texts: Iterable[str]) -> None:
    """Check the texts of a line, and say on standard error which are not translated.

    Raises:
        ValueError: If the model writes several languages and a text tells none.
    """
    for text in texts:
        if problem := reader.read(number, text):
            print(problem, file=sys.stderr)
