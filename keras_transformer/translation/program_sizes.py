"""The sizes of searches that are compiled, and which of them pay on a device.

See `inference.search_programs`, whose signatures an export has by the names here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE

# A step of a small model is mostly the time to start its operations, which a program
# does not need; in a large one it is products, which XLA's code for CPUs does not
# multiply faster. With two cores and AVX2, one sentence, 8 and 32 take 0.2 to 0.5, 0.4
# to 0.7 and 0.6 to 1.0 of the time with models up to this size, and base 1.1, 1.0 and
# 1.0. Without a program, sentences that are done leave their batch.
_SMALL_MODEL = 12_000_000
# Sentences of a program, and the most runs of it for a batch. Two run at once on a CPU,
# because one takes little more than a core: with two cores 8 sentences take 0.75 of the
# time of one run, 32 take 0.68. Batches of a file gain nothing.
_CPU_PARTS = {1: 1, 4: 2, 8: 2, 16: 2, 32: 4}
# A beam of four has eight rows with two sentences: a GPU multiplies no fewer, and fills
# them up before each product.
_GPU_PARTS = dict.fromkeys((2, 8, 32, 128, TRANSLATION_BATCH_SIZE), 1)
_SHORTEST, _USUAL = 16, 128  # tokens of a source

# Names of the signatures that an export with programs has.
COMPILE, STATE = "compile", "programs"


class Size(NamedTuple):
    """What a program is for: at most so many."""

    rows: int  # sentences
    width: int  # tokens of a source
    prefix: int  # tokens of a prefix
    parts: int = 1  # most runs of it, for a batch of as many times these sentences

    @property
    def most_rows(self) -> int:
        """Sentences of a batch, over all parts."""
        return self.rows * self.parts

    def pays(self, device: str, step_weights: int) -> bool:
        """Return whether the program is faster than a search without it.

        Args:
            device: "cpu" or "gpu".
            step_weights: Number of weights that a step of the search reads.
        """
        is_small = step_weights <= _SMALL_MODEL and self.rows <= max(_CPU_PARTS)
        return device == "gpu" or is_small

    @property
    def is_usual(self) -> bool:
        """Whether to compile it before there is a batch."""
        return self.width <= _USUAL and self.prefix == 1


def sizes_for(device: str, step_weights: int, longest: int) -> list[Size]:
    """Return the sizes that pay off on a kind of device, in ascending order.

    Prefixes have at most one token, such as a language, or are as long as a source.

    Args:
        device: Same as in `Size.pays`.
        step_weights: Same as in `Size.pays`.
        longest: Most tokens of a source.
    """
    widths = [_SHORTEST]
    while widths[-1] < longest:
        widths.append(2 * widths[-1])
    all_parts = _GPU_PARTS if device == "gpu" else _CPU_PARTS
    sizes = [
        Size(rows, width, prefix, parts)
        for rows, parts in all_parts.items()
        for width in widths
        for prefix in (1, width)
        # A program has its cache whole: as much memory as for many usual sentences.
        if rows * width <= max(all_parts) * _USUAL
    ]
    return [size for size in sizes if size.pays(device, step_weights)]


def usual_numbers(
    sizes: Sequence[Size], device: str, step_weights: int, most_rows: int
) -> list[int]:
    """Return the places of the programs to compile before there is a batch.

    Args:
        sizes: The sizes of the programs.
        device: Same as in `Size.pays`.
        step_weights: Same as in `Size.pays`.
        most_rows: Sentences of the largest batch.
    """
    holding = [size.rows for size in sizes if size.most_rows >= most_rows]
    rows = min(holding, default=most_rows)
    return [
        number
        for number, size in enumerate(sizes)
        if size.is_usual and size.rows <= rows and size.pays(device, step_weights)
    ]
