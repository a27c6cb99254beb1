"""How long does it take from a command to its first result?

    python benchmarks/startup.py --preset=base --repeats=5

makes a model with random weights and a vocabulary of numbers as a model_dir, and
exports it. Then times, alternating and each in a process of its own, bin/translate.py
on one sentence with each of the two, the parts of the same work, and bin/train.py on
the phrasebook up to its first step. Prints one line of JSON; its keys are
explained in benchmarks/README.md.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import fixed_lengths, measure, program_starts
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import define_overrides, override
from keras_transformer.config import ModelConfig

_PRESET = flags.DEFINE_string("preset", "base", "Name of the model's configuration.")
_SOURCE_LENGTH = flags.DEFINE_integer(
    "source_length", 30, "Tokens of the sentence, including EOS.", lower_bound=2
)
_STEPS = flags.DEFINE_integer(
    "steps", 40, "Tokens of its translation; at least --source_length.", lower_bound=2
)
_TOKENS_PER_BATCH = flags.DEFINE_integer(
    "tokens_per_batch", 2048, "Tokens per side in a training batch.", lower_bound=1
)
_REPEATS = flags.DEFINE_integer(
    "repeats", 5, "Number of timed processes of each kind.", lower_bound=1
)
_TIMED = flags.DEFINE_list("timed", list(program_starts.TIMED), "Programs to time.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of weights and sentence.", lower_bound=0)
_MODEL_FLAGS = define_overrides(
    ModelConfig,
    leave_out=("target_vocab_size", "pad_id", "bos_id", "eos_id"),
)


def main() -> dict:
    """Make the models, start the programs, and print."""
    preset = fixed_lengths.preset_of(_PRESET.value, _SOURCE_LENGTH.value, _STEPS.value)
    preset = dataclasses.replace(preset, model=override(preset.model, _MODEL_FLAGS))
    for name in _TIMED.value:
        if name not in program_starts.TIMED:
            raise ValueError(
                f"--timed must be among {', '.join(program_starts.TIMED)}. "
                f"Received: {name}."
            )
    startup.import_tensorflow()
    environment = measure.environment("float32")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = program_starts.make(
            folder, preset, _TIMED.value, _SOURCE_LENGTH.value, _SEED.value
        )
        commands = program_starts.commands(
            folder, preset, _TIMED.value, _TOKENS_PER_BATCH.value, _SEED.value
        )
        timed = program_starts.time_alternating(commands, _REPEATS.value)
    result = {
        "benchmark": "startup",
        "preset": preset.name,
        "num_parameters": made["num_parameters"],
        "source_length": _SOURCE_LENGTH.value,
        "steps": _STEPS.value,
        "tokens_per_batch": _TOKENS_PER_BATCH.value,
        "model": dataclasses.asdict(preset.model),
        "repeats": _REPEATS.value,
    }
    for name, values in timed.items():
        result |= measure.spread(name, values)
    result |= environment
    measure.write_line(**result)
    return result


if __name__ == "__main__":
    programs.run(main)
