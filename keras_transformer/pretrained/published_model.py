"""What the readers of each format return."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, ModelConfig


@dataclasses.dataclass(frozen=True)
class PublishedTensor:
    """Where a weight of ours comes from."""

    # Name in the file.
    name: str
    # Applied to the array of the file, such as a transposition.
    convert: Callable[[np.ndarray], np.ndarray] = np.asarray


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A published model, described by our configurations.

    The weights are read one at a time, by `read`.
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
    # Reads a tensor by its name in the file.
    read: Callable[[str], np.ndarray]
    # The files that were read.
    files: tuple[pathlib.Path, ...]


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
