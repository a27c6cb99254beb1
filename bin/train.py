"""Train a Transformer on a prepared corpus, or go on with a run that was stopped.

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

from keras_transformer import presets, wording
from keras_transformer.cli import device_flags, preset_flags, programs, startup
from keras_transformer.config import DecodingConfig, ModelConfig, TrainingConfig

_PRESET = flags.DEFINE_string(
    "preset", "base", "Name of the configuration to train; help: print all of them."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "A corpus prepared by bin/prepare_data.py."
)
_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Where checkpoints, logs and model.keras go."
)
_TASK = flags.DEFINE_enum(
    "task", None, ["translation", "parsing"], "What is learned; default: the corpus's."
)
_CHECKPOINT_EVERY_STEPS = flags.DEFINE_integer(
    "checkpoint_every_steps", None, "Steps between two checkpoints.", lower_bound=1
)
_CHECKPOINT_EVERY_MINUTES = flags.DEFINE_float(
    "checkpoint_every_minutes",
    None,
    "Minutes between two checkpoints; 10, as in the paper, unless they come by steps.",
)
_KEEP_CHECKPOINTS = flags.DEFINE_integer(
    "keep_checkpoints",
    None,
    "Checkpoints kept; default: as many as are averaged.",
    lower_bound=1,
)
_EVALUATE_EVERY_STEPS = flags.DEFINE_integer(
    "evaluate_every_steps", 1000, "Steps between two evaluations.", lower_bound=1
)
_BLEU_SENTENCES = flags.DEFINE_integer(
    "bleu_sentences",
    None,
    "Validation sentences translated at each evaluation for BLEU, which then decides "
    "the best checkpoint; 0: none, the loss decides. Default: 1000, for parsing 0.",
    lower_bound=0,
)
_EARLY_STOPPING_EVALUATIONS = flags.DEFINE_integer(
    "early_stopping_evaluations",
    None,
    "Evaluations without a new best after which training stops; default: never.",
    lower_bound=1,
)
_LOG_EVERY_STEPS = flags.DEFINE_integer(
    "log_every_steps", 100, "Steps between two lines of progress.", lower_bound=1
)
_MAX_SKIPPED_STEPS = flags.DEFINE_integer(
    "max_skipped_steps",
    5,
    "Steps in a row whose loss or gradients are not finite, after which training goes "
    "back to the last checkpoint with half the learning rate, and the next time stops.",
    lower_bound=1,
)
_PREFLIGHT = flags.DEFINE_bool(
    "preflight",
    True,
    "Try the largest batch before the first step, and say what memory it takes.",
)
_INIT_CHECKPOINT = flags.DEFINE_string(
    "init_checkpoint", None, "A model_dir, or a checkpoint in one, to fine-tune from."
)
_ALLOW_CHANGED_CORPUS = flags.DEFINE_bool(
    "allow_changed_corpus",
    False,
    "Go on with a run whose corpus was prepared anew from other pairs.",
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Draws the first weights, the batches and dropout.", lower_bound=0
)
# The corpus decides the vocabulary.
_PRESET_FLAGS = {
    "model": preset_flags.define(
        ModelConfig,
        leave_out=("vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"),
    ),
    "training": preset_flags.define(TrainingConfig),
    "decoding": preset_flags.define(DecodingConfig),
}
flags.adopt_module_key_flags(device_flags)
flags.adopt_module_key_flags(preset_flags)


def main() -> dict:
    """Train and return the JSON summary."""
    if _PRESET.value == "help":
        print(presets.table())
        return {"presets": presets.names()}
    programs.check_given(_DATA_DIR, _MODEL_DIR)
    preset, devices = chosen_preset(), device_flags.options()
    # TensorFlow takes seconds to import: wrong flags are answered before.
    startup.import_tensorflow()
    from keras_transformer import data
    from keras_transformer.training import run as training_run
    from keras_transformer.training.signals import StoppedBySignalError

    metadata = data.read_metadata(_DATA_DIR.value)
    check_task(metadata.task)
    config = training_run.resolve(
        preset,
        metadata,
        precision=device_flags.PRECISION.value,
        seed=_SEED.value,
    )
    options = training_run.RunOptions(
        **devices,
        checkpoint_every_steps=_CHECKPOINT_EVERY_STEPS.value,
        checkpoint_every_minutes=_CHECKPOINT_EVERY_MINUTES.value,
        keep_checkpoints=_KEEP_CHECKPOINTS.value,
        evaluate_every_steps=_EVALUATE_EVERY_STEPS.value,
        bleu_sentences=1000 if _BLEU_SENTENCES.value is None else _BLEU_SENTENCES.value,
        early_stopping_evaluations=_EARLY_STOPPING_EVALUATIONS.value,
        log_every_steps=_LOG_EVERY_STEPS.value,
        max_skipped_steps=_MAX_SKIPPED_STEPS.value,
        has_preflight=_PREFLIGHT.value,
        init_checkpoint=_INIT_CHECKPOINT.value,
        allow_changed_corpus=_ALLOW_CHANGED_CORPUS.value,
    )
    try:
        summary = training_run.train(
            _DATA_DIR.value,
            _MODEL_DIR.value,
            config,
            options,
            write=say,
        )
    except StoppedBySignalError as stopped:
        say(str(stopped))
        sys.exit(stopped.exit_status)
    if "model_keras" not in summary:  # worker 0 says the rest
        return summary
    print(
        f"trained {wording.count(summary['steps'], 'step')}; "
        f"{summary['model_dir']}/model.keras has the weights of "
        f"{summary['model_keras']}"
    )
    print(
        f"cost of the whole run: {summary['flops']:.2g} FLOPs, counted from the model "
        f"(compare with Table 2: bin/training_cost.py), in "
        f"{wording.duration(summary['seconds'])}"
    )
    return summary


def say(line: str) -> None:
    """Print a line; a terminal or pipe that is gone must not end training unsaved."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_task(task: str) -> None:
    """Raise if flags ask for another task than the corpus was prepared for."""
    if _TASK.value not in (None, task):
        raise ValueError(
            f"--task={_TASK.value} needs a corpus that is prepared for it; that in "
            f"{_DATA_DIR.value} is for --task={task}. Prepare another, or leave --task "
            "out."
        )
    if task == "parsing" and _BLEU_SENTENCES.value:
        raise ValueError("--bleu_sentences is for --task=translation.")


def chosen_preset() -> presets.Preset:
    """Return the preset with the fields that flags override."""
    preset = presets.get(_PRESET.value)
    parts = {
        part: preset_flags.override(getattr(preset, part), holders)
        for part, holders in _PRESET_FLAGS.items()
    }
    return dataclasses.replace(preset, **parts)


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
