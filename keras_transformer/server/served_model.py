"""What the server needs to know of a model. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer import language_tokens


class TensorInfo(NamedTuple):
    """Type of an input or output."""

    # NumPy's name, or "string".
    dtype: str
    # Size of each axis, the batch first; None: any size.
    shape: tuple[int | None, ...]


class Signature(NamedTuple):
    """A function of the model."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    # Takes the inputs by name, one item per row (strings as bytes); returns the outputs
    # by name, whose first axis is the batch.
    run: Callable[[Mapping[str, Sequence]], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A loaded model with its signatures and languages."""

    version: int
    signatures: Mapping[str, Signature]
    # Codes of the languages of all signatures but `multilingual`; "": unknown.
    source_language: str = ""
    target_language: str = ""
    # Codes that `multilingual` takes.
    languages: tuple[str, ...] = ()
    # What a text may begin with to tell its target language, such as ">>de<<".
    language_tokens: tuple[str, ...] = ()
    # The language of texts that tell none; None: each must tell it.
    default_language: str | None = None
    # Most tokens of a text; longer ones are cut. None: unknown.
    max_input_length: int | None = None
    # Names of the placeholders and tags of the vocabulary.
    placeholders: tuple[str, ...] = ()
    # Returns how many programs of the search are compiled.
    num_programs: Callable[[], int] = lambda: 0

    def target_token(self, target: str) -> str:
        """Return what tells a text its target language; "": nothing does."""
        token = language_tokens.token_of(target)
        return token if token in self.language_tokens else ""

    def run(self, signature: str, inputs: Mapping[str, Sequence]) -> dict:
        """Run a signature on one batch."""
        return self.signatures[signature].run(inputs)
