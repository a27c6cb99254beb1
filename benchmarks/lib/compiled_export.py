"""An export whose searches of one batch size are compiled before it is used."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_transformer import hardware, tasks
from keras_transformer.translation import exported_model
from keras_transformer.translation.program_sizes import COMPILE, Size


def load(
    version: str | os.PathLike, rows: int, longest: int
) -> tuple[Callable[[tf.Tensor], dict[str, tf.Tensor]], float]:
    """Load an export and compile the programs that pay on this device.

    Args:
        version: The folder of a version.
        rows: Sentences of a batch, as many as a program has.
        longest: Most tokens of a source.

    Returns:
        The batch function for `translate_in_batches`, and the seconds of compiling.
    """
    loaded = exported_model.open_export(version, "serve")
    description = exported_model.read_description(version)
    numbers = [
        number
        for number, size in enumerate(
            Size(*each) for each in description.get("programs", ())
        )
        if size.rows == rows and size.width < 2 * longest and size.prefix == 1
        if size.pays(hardware.device(), description["step_weights"])
    ]
    seconds = 0.0
    if numbers:
        seconds = compile_all(loaded.signatures[COMPILE], numbers)
    name = tasks.TRANSLATION.signature
    return lambda text: loaded.signatures[name](text=text), seconds


def compile_all(compile_program: Callable, numbers: Sequence[int]) -> float:
    """Compile programs, at the same time; return the seconds."""
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
        [
            *pool.map(
                lambda number: compile_program(program=tf.constant([number])), numbers
            )
        ]
    return round(time.perf_counter() - began, 1)
