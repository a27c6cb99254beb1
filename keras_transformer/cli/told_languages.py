"""Says which texts do not tell a model their language."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from keras_transformer.language_tokens import Reader


def reader_of_export(path: str) -> Reader:
    """Return what reads texts for an exported model, EXPORT_DIR/VERSION."""
    from keras_transformer.serving import saved_model

    description = saved_model.read_description(path)
    return Reader(
        saved_model.language_tokens(description),
        description.get("default_language"),
        "export it with --target_language",
    )


def report(reader: Reader, number: int, texts: Iterable[str]) -> None:
    """Say on standard error what is wrong with the texts of a line."""
    for text in texts:
        for problem in reader.problems(number, text):
            print(problem, file=sys.stderr)
