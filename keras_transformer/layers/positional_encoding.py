"""Positions: the sinusoids of §3.5, or learned vectors (Table 3, row E)."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer import config as config_lib
from keras_transformer.layers.initialization import initializer_unless_skipped
from keras_transformer.layers.masked_layer import MaskedLayer

Tensor = Any

MAX_TIMESCALE = 10_000.0


def sinusoidal_encoding(
    positions: Tensor, d_model: int, layout: str = "interleaved"
) -> Tensor:
    """Compute PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same).

    Args:
        positions: Positions, any shape `[...]`.
        d_model: Width of an encoding, even.
        layout: "interleaved" is the paper's formula. "concatenated" has all sines, then
            all cosines (Marian). "halves" does too, at tensor2tensor's frequencies
            exp(-i ln(10000) / (d_model/2 - 1)).

    Returns:
        float32 `[..., d_model]` for every dtype policy: in bfloat16, neighbouring
        positions would be equal.
    """
    pairs = np.arange(d_model // 2)
    if layout == "halves":
        exponents = pairs / max(d_model // 2 - 1, 1)
    else:
        exponents = 2 * pairs / d_model
    frequencies = np.exp(-math.log(MAX_TIMESCALE) * exponents).astype("float32")
    angles = ops.cast(positions, "float32")[..., None] * frequencies  # [..., d/2]
    parts = [ops.sin(angles), ops.cos(angles)]
    if layout != "interleaved":
        return ops.concatenate(parts, axis=-1)
    stacked = ops.stack(parts, axis=-1)  # [..., d/2, 2]
    return ops.reshape(stacked, (*ops.shape(positions), d_model))


def positions_in_segments(segments: Tensor) -> Tensor:
    """Count positions from 0 in each sentence of a packed row.

    Args:
        segments: int32 `[batch, length]`, from `masks.segments`.

    Returns:
        int32 `[batch, length]`.
    """
    # A segment begins after all tokens of segments with lower numbers.
    is_before = segments[:, None, :] < segments[:, :, None]  # [batch, of, other]
    begins = ops.sum(ops.cast(is_before, "int32"), axis=-1)
    return ops.arange(ops.shape(segments)[1], dtype="int32") - begins


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionalEncoding(MaskedLayer):
    """Adds encodings of positions to scaled embeddings, §3.5.

    Args:
        d_model: Width of an encoding (paper: d_model).
        encoding: "sinusoidal" or "learned".
        layout: "interleaved", "halves" or "concatenated"; for sinusoids only.
        first_position: The position of the first token.
        num_positions: Rows of the learned table; sinusoids have no limit.

    Call arguments:
        inputs: float `[batch, length, d_model]`: scaled embeddings.
        start: int32 scalar, the number of tokens before these.
        positions: int32 `[batch, length]`, each below `length`; None: consecutive from
            `start`.

    Returns:
        float `[batch, length, d_model]`: inputs plus encodings.

    Raises:
        ValueError: If a choice is unknown, or the inputs, without `positions`, are
            longer than the learned table.

    Examples:
        >>> encoded = kt.layers.PositionalEncoding(d_model=4)(np.zeros([1, 2, 4]))
        >>> np.asarray(encoded)[0, 0].tolist()  # sines and cosines of position 0
        [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(
        self,
        d_model: int,
        encoding: str = "sinusoidal",
        layout: str = "interleaved",
        first_position: int = 0,
        num_positions: int = 1024,
        **kwargs,
    ):
        super().__init__(**kwargs)
        config_lib.check_choice("encoding", encoding, config_lib.POSITION_ENCODINGS)
        config_lib.check_choice("layout", layout, config_lib.POSITION_LAYOUTS)
        self.d_model = config_lib.check_at_least("d_model", d_model, 1)
        self.encoding = encoding
        self.layout = layout
        self.first_position = first_position
        self.num_positions = num_positions

    def build(self, inputs_shape=None):
        if self.encoding == "learned":
            self.table = self.add_weight(
                shape=(self.num_positions, self.d_model),
                initializer=initializer_unless_skipped(
                    keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
                ),
                name="table",
            )
        self.built = True

    def call(self, inputs, start=0, positions=None):
        length = inputs.shape[1]
        if length is None:
            length = ops.shape(inputs)[1]
        elif (
            self.encoding == "learned"
            and positions is None
            and length > self.num_positions
        ):
            raise ValueError(
                f"The inputs have {length} positions, but the table of learned "
                f"positions has {self.num_positions} rows. Shorten the inputs, or "
                "build the model with a larger `num_positions`."
            )
        if positions is None:
            encodings = self._encode(ops.arange(length) + start)
        elif self.encoding == "learned":
            # Only padding may be beyond the end of the table.
            encodings = self._encode(ops.minimum(positions, self.num_positions - 1))
        else:  # compute the sinusoids of one row, then look them up
            encodings = ops.take(self._encode(ops.arange(length)), positions, axis=0)
        return inputs + ops.cast(encodings, inputs.dtype)

    def _encode(self, rows: Tensor) -> Tensor:
        if self.encoding == "learned":
            return ops.take(self.table, rows, axis=0)  # [..., d_model]
        positions = rows + self.first_position
        return sinusoidal_encoding(positions, self.d_model, self.layout)

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "encoding": self.encoding,
            "layout": self.layout,
            "first_position": self.first_position,
            "num_positions": self.num_positions,
        }
