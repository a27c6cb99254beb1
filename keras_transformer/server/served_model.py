"""What the server needs to know of a model. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer.translation.opened_model import ModelFacts


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
class ServedModel(ModelFacts):
    """A loaded model with its signatures."""

    signatures: Mapping[str, Signature] = dataclasses.field(default_factory=dict)
    # Returns how many programs of the search are compiled.
    num_programs: Callable[[], int] = lambda: 0

    def run(self, signature: str, inputs: Mapping[str, Sequence]) -> dict:
        """Run a signature on one batch."""
        return self.signatures[signature].run(inputs)
