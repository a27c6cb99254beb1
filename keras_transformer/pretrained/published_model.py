"""What the readers of each format return."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, ModelConfig

REMEDY = "Remove it from the file to import the model without it."


@dataclasses.dataclass(frozen=True)
class PublishedTensor:
    """Where a weight of ours comes from."""

    # Name in the file.
    name: str
    # Applied to the array of the file, such as a transposition; None: nothing.
    convert: Callable[[np.ndarray], np.ndarray] | None = None


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A published model, described by our configurations.

    The weights are read one at a time, the largest in blocks of rows, so that little
    more memory is taken than the model itself has.
    """

    # Name of the family, such as "marian".
    family: str
    model: ModelConfig
    decoding: DecodingConfig
    tokenizer: Any
    source_language: str
    target_language: str
    # Path of our weight, without the model's name -> its source.
    tensors: Mapping[str, PublishedTensor]
    # Names in the file that are copies of another tensor.
    copies: Mapping[str, str]
    # All names in the file.
    names: frozenset[str]
    # Reads a tensor by its name in the file, in blocks of rows.
    blocks: Callable[[str], Iterator[np.ndarray]]
    # The files that were read.
    files: tuple[pathlib.Path, ...]
    # What differs from the original library, in words.
    notes: tuple[str, ...] = ()


class Options(dict):
    """The names and values of a file; an absent name is an error that names the file.

    Args:
        path: The file.
        values: Its content.

    Raises:
        ValueError: If the content is something else, or has no such name.
    """

    def __init__(self, path: str | os.PathLike, values: Any):
        if not isinstance(values, Mapping):
            raise ValueError(
                f"{path} is damaged: it must hold names with values. Copy the whole "
                "folder of the model again."
            )
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise ValueError(
            f"{self.path} has no {name!r}. Copy the whole folder of the model again."
        )


def check_is_file(path: pathlib.Path) -> None:
    """Raise FileNotFoundError unless a file of a published model is there."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is absent. Copy the whole folder of the model."
        )


def read_json(path: pathlib.Path) -> Options:
    """Read names and values; null, which says "not set", is left out.

    Raises:
        FileNotFoundError: If the file is absent.
        ValueError: If it is damaged.
    """
    check_is_file(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from error
    options = Options(path, values)
    for name in [name for name, value in options.items() if value is None]:
        del options[name]
    return options


def check_ids(path: str | os.PathLike, pieces: Mapping[str, Any]) -> None:
    """Raise ValueError unless every piece has an id."""
    for piece, number in pieces.items():
        if type(number) is not int or number < 0:
            raise ValueError(
                f"{path} is not a vocabulary: the id of {piece!r} must be a number, "
                f"not {number!r:.40}."
            )


def check_vocabulary(path: str | os.PathLike, pieces: Mapping[str, Any]) -> None:
    """Raise ValueError unless the pieces have the ids from 0 on, each once."""
    check_ids(path, pieces)
    if sorted(pieces.values()) != list(range(len(pieces))):
        raise ValueError(f"{path} must have every id from 0 to {len(pieces) - 1} once.")


def check_numbers(options: Options, *names: str) -> None:
    """Raise ValueError unless the options of these names are numbers, or absent."""
    for name in names:
        value = options.get(name, 0)
        if type(value) not in (int, float):
            raise ValueError(
                f"{options.path}: {name} must be a number. Received: {value!r:.40}."
            )


def check_options(
    options: Options, supported: Mapping[str, Sequence], remedy: str = ""
) -> None:
    """Check the options of a published model that have one supported value, or a few.

    Args:
        options: All options.
        supported: Accepted values by name; an absent option has the first.
        remedy: What to do, in words.

    Raises:
        ValueError: If an option has another value.
    """
    for name, values in supported.items():
        value = options.get(name, values[0])
        if value not in values:
            accepted = " or ".join(repr(accepted) for accepted in values)
            raise ValueError(
                f"{options.path}: {name} is {value!r:.40}, which is not supported; "
                f"{accepted} is. {remedy}".rstrip()
            )
