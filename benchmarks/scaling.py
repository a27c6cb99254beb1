"""How do search time and training memory grow with the number of tokens?

    python benchmarks/scaling.py --steps=32,64,128,256,512 --rows=16,32,64,128

runs decode.py for each number of output tokens and train_step.py for each number of
rows, each in a process of its own. Prints their lines of JSON, then the growth of
search time with output tokens, and of training memory with tokens per batch. --search
and --training pass more flags to the two programs. The base model takes about half an
hour on 2 CPU cores.
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
    "steps",
    ["32", "64", "128", "256", "512"],
    "Numbers of output tokens; empty: no search.",
)
_ROWS = flags.DEFINE_list(
    "rows",
    ["16", "32", "64", "128"],
    "Numbers of pairs per training batch; empty: no training.",
)
_SEARCH = flags.DEFINE_string(
    "search", "--batch_size=8 --repeats=3", "More flags of decode.py."
)
_TRAINING = flags.DEFINE_string("training", "--steps=3", "More flags of train_step.py.")


def main() -> dict:
    """Run the programs and print the growth."""
    searches = [
        run_program("decode.py", _SEARCH.value, steps=number) for number in _STEPS.value
    ]
    trainings = [
        run_program("train_step.py", _TRAINING.value, rows=number)
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
            "megabytes_a_token": growth_per_token(memory),
        }
    measure.write_line(**result)
    return result


def run_program(program: str, more: str, **given: str) -> dict:
    """Run one program, print its line of JSON and return it."""
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
    """Return e in value ~ size^e by least squares: 1 is linear, 2 quadratic.

    Args:
        values: Values by size; at least two.
    """
    slope, _ = np.polyfit(np.log(list(values)), np.log(list(values.values())), 1)
    return measure.rounded(float(slope), 3)


def growth_per_token(memory: dict[int, float]) -> list[float]:
    """Return the additional memory per token between consecutive sizes.

    Weights and libraries, which every size needs, cancel out. All values are equal if
    memory grows linearly.
    """
    return [
        measure.rounded((memory[larger] - memory[size]) / (larger - size), 3)
        for size, larger in itertools.pairwise(sorted(memory))
    ]


if __name__ == "__main__":
    programs.run(main)
