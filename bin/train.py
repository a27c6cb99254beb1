"""Train a Transformer on a prepared corpus, or resume a run that was stopped.

    python bin/train.py --preset=base --data_dir=data/wmt14_ende --model_dir=runs/base

trains the paper's base model on all GPUs of the machine: on 8 P100s the paper's 100,000
steps took 12 hours. Run the same command again to resume after a stop; SIGTERM,
Ctrl-C and SIGHUP (a lost terminal) end the step, save it, and exit with status 143, 130
or 129. Every field of the preset has a flag; `--preset=tiny` is for a CPU.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import presets, tasks, wording
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import (
    DeviceFlags,
    define_fields,
    define_overrides,
    override,
    values,
)
from keras_transformer.config import DecodingConfig, ModelConfig, TrainingConfig
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.training.run_options import RunOptions

_PRESET = flags.DEFINE_string(
    "preset", "base", "Name of the configuration to train; help: print all."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "A corpus prepared by bin/prepare_data.py."
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Folder for checkpoints, logs and model.keras."
)
_TASK = flags.DEFINE_enum(
    "task", None, tasks.NAMES, "Task to train; default: the corpus's."
)
_DEVICE = DeviceFlags()
_OPTIONS = define_fields(RunOptions, leave_out=_DEVICE.fields)
_SEED = define_fields(RunConfig, only=("seed",))["seed"]
# The corpus decides the vocabulary.
_PRESET_FLAGS = {
    "model": define_overrides(
        ModelConfig,
        leave_out=("vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"),
    ),
    "training": define_overrides(TrainingConfig),
    "decoding": define_overrides(DecodingConfig),
}


def main() -> dict:
    """Train and return the JSON summary."""
    if _PRESET.value == "help":
        print(presets.table())
        return {"presets": presets.names()}
    programs.check_given(_DATA_DIR, _MODEL_DIR)
    preset, options = chosen_preset(), chosen_options()
    # Importing TensorFlow takes seconds, so wrong flags are refused before it.
    startup.import_tensorflow(compiles=True)
    from keras_transformer import data
    from keras_transformer.training import run as training_run
    from keras_transformer.training.signals import StoppedBySignalError

    metadata = data.read_metadata(_DATA_DIR.value)
    check_task(metadata.task)
    config = training_run.resolve(
        preset,
        metadata,
        precision=_DEVICE.precision.value,
        seed=_SEED.value,
    )
    try:
        summary = training_run.train(
            _DATA_DIR.value, _MODEL_DIR.value, config, options, write=say
        )
    except StoppedBySignalError as stopped:
        say(str(stopped))
        sys.exit(stopped.exit_status)
    if "model_keras" in summary:  # only worker 0 reports
        print(
            f"trained {wording.count(summary['steps'], 'step')}; "
            f"{summary['model_dir']}/model.keras has the weights of "
            f"{summary['model_keras']}"
        )
        print(training_run.describe_cost(summary))
    return summary


def say(line: str) -> None:
    """Print a line; a lost terminal or pipe must not end training unsaved."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_task(task: str) -> None:
    """Raise if flags name another task than the corpus was prepared for."""
    if _TASK.value not in (None, task):
        raise ValueError(
            f"--task={_TASK.value} needs a corpus that is prepared for it; that in "
            f"{_DATA_DIR.value} is for --task={task}. Prepare another, or leave --task "
            "out."
        )
    if not tasks.of(task).writes_text and _OPTIONS["bleu_sentences"].value:
        raise ValueError("--bleu_sentences is for --task=translation.")


def chosen_options() -> RunOptions:
    """Return the options of the run that the flags give."""
    return RunOptions(**_DEVICE.options(), **values(_OPTIONS))


def chosen_preset() -> presets.Preset:
    """Return the preset with the fields that flags override.

    With --init_checkpoint and without --preset, it is the configuration of that model.
    """
    start = _OPTIONS["init_checkpoint"].value
    if start is not None and not _PRESET.present:
        preset = presets.of_run(start)
    else:
        preset = presets.get(_PRESET.value)
    parts = {
        part: override(getattr(preset, part), holders)
        for part, holders in _PRESET_FLAGS.items()
    }
    return dataclasses.replace(preset, **parts)


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
