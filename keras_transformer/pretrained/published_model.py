"""What the readers of each format return."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, ModelConfig


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
    place: str, options: Mapping[str, Any], supported: Mapping[str, tuple]
) -> None:
    """Check the options of a published model that have one supported value, or a few.

    Args:
        place: Where the options come from, for the message.
        options: All options.
        supported: Accepted values by name; an absent option has the first.

    Raises:
        ValueError: If an option has another value.
    """
    for name, values in supported.items():
        value = options.get(name, values[0])
        if value not in values:
            accepted = " or ".join(repr(accepted) for accepted in values)
            raise ValueError(
                f"{place}: {name} is {value!r}, which is not supported; {accepted} is."
            )
