"""How the time of a search and the memory of training grow with length.

    python benchmarks/scaling.py --steps=32,64,128,256,512 --rows=16,32,64,128

runs decode.py for each number of output tokens and train_step.py for each number of
rows, every one in a process of its own. Prints their lines of JSON, then how the time
of a search grows with the tokens of its output, and the memory of training with the
tokens of its batch. What the two programs are given besides is said by --search and
--training; on 2 CPU cores the base model takes about half an hour.
"""

from __future__ import annotations

import itertools
import pathlib
import shlex
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import numpy as np

from benchmarks.lib import alternation, measure
from keras_transformer.cli import programs

_STEPS = flags.DEFINE_list(
    "steps", ["32", "64", "128", "256", "512"], "Tokens of an output; empty: none."
)
_ROWS = flags.DEFINE_list(
    "rows", ["16", "32", "64", "128"], "Pairs of a training batch; empty: none."
)
_SEARCH = flags.DEFINE_string(
    "search", "--batch_size=8 --repeats=3", "More flags of decode.py."
)
_TRAINING = flags.DEFINE_string("training", "--steps=3", "More flags of train_step.py.")


def main() -> dict:
    """Run the programs and print what grows how."""
    searches = [
        measured("decode.py", _SEARCH.value, steps=number) for number in _STEPS.value
    ]
    trainings = [
        measured("train_step.py", _TRAINING.value, rows=number)
        for number in _ROWS.value
    ]
    result = {"benchmark": "scaling"}
    if len(searches) > 1:
        seconds = {line["steps"]: line["median_call_s"] for line in searches}
        result |= {"search_s": seconds, "search_exponent": exponent(seconds)}
    if len(trainings) > 1:
        memory = {
            line["rows"] * (line["source_length"] + line["target_length"]): line[
                "peak_megabytes"
            ]
            for line in trainings
        }
        result |= {
            "training_megabytes": memory,
            "megabytes_a_token": added_a_token(memory),
        }
    measure.write_line(**result)
    return result


def measured(program: str, more: str, **given: str) -> dict:
    """Run one program and print its line again."""
    path = pathlib.Path(__file__).with_name(program)
    arguments = [
        *shlex.split(more),
        *(f"--{name}={own}" for name, own in given.items()),
    ]
    command = shlex.join([sys.executable, str(path), *arguments])
    line = alternation.last_json_line(
        program, command, alternation.run(program, command)
    )
    measure.write_line(**line)
    return line


def exponent(values: dict[int, float]) -> float:
    """Return the e of value ~ size^e by least squares: 1 is linear, 2 quadratic.

    Args:
        values: By size; at least two.
    """
    slope, _ = np.polyfit(np.log(list(values)), np.log(list(values.values())), 1)
    return measure.rounded(float(slope), 3)


def added_a_token(memory: dict[int, float]) -> list[float]:
    """Return what each further token takes, from each size to the next larger one.

    Weights and libraries, which every size needs, are in none of them. They are equal
    where memory grows linearly.
    """
    return [
        measure.rounded((memory[larger] - memory[size]) / (larger - size), 3)
        for size, larger in itertools.pairwise(sorted(memory))
    ]


if __name__ == "__main__":
    programs.run(main)
