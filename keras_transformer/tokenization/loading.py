"""Loading a saved tokenizer."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from keras_transformer import json_files
from keras_transformer.tokenization import (
    mapped,
    sentence_piece,
    tokenizer,
    word_piece,
)

_CLASSES = {
    "mapped": mapped.MappedTokenizer,
    "bpe": sentence_piece.SentencePieceTokenizer,
    "sentencepiece": sentence_piece.SentencePieceTokenizer,
    "wordpiece": word_piece.WordPieceTokenizer,
}


def load(directory: str | os.PathLike) -> tokenizer.Tokenizer:
    """Read the tokenizer that `Tokenizer.save` wrote.

    Raises:
        FileNotFoundError: If the folder or one of its files is absent.
        ValueError: If a file is damaged, or of another format version.

    Examples:
        >>> tokenizer.save("tokenizer")
        >>> kt.tokenization.load("tokenizer").fingerprint == tokenizer.fingerprint
        True
    """
    directory = pathlib.Path(directory)
    description = _read_description(directory / tokenizer.DESCRIPTION_NAME)
    tokenizer_class = _CLASSES[description["kind"]]
    path = directory / tokenizer_class.vocabulary_name
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is absent, but {tokenizer.DESCRIPTION_NAME} beside it names "
            "it. Copy the whole folder again, or prepare the data again."
        )
    vocabulary = path.read_bytes()
    # Checked before parsing, so that a damaged file gets a clear message.
    fingerprint = {"fingerprint": tokenizer.fingerprint_of(vocabulary)}
    _check_described(path, description, fingerprint)
    loaded = tokenizer_class(vocabulary, kind=description["kind"])
    _check_described(path, description, loaded.ids())
    return loaded


def _read_description(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(
            f"No tokenizer in {path.parent}: {path.name} is absent. "
            "bin/prepare_data.py writes one into DATA_DIR/tokenizer."
        )
    description = json_files.read(
        path, tokenizer.FORMAT_VERSION, "prepare the data again"
    )
    if description.get("kind") not in _CLASSES:
        raise ValueError(
            f"{path} names an unknown kind of tokenizer: {description.get('kind')!r}. "
            f"Known: {', '.join(_CLASSES)}."
        )
    return description


def _check_described(path, description, found):
    """Raise if the vocabulary or its ids differ: translations would be wrong."""
    for name, value in found.items():
        if description.get(name) != value:
            raise ValueError(
                f"{path} is not the vocabulary that {tokenizer.DESCRIPTION_NAME} "
                f"describes: its {name} is {value}, expected {description.get(name)}. "
                "Copy the folder again, or prepare the data again."
            )
