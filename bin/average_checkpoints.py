"""Average the last checkpoints of a run, as the paper does before it decodes (§6.1).

    python bin/average_checkpoints.py --model_dir=runs/base --last=5

writes an ordinary checkpoint into runs/base/averaged, which bin/evaluate.py,
bin/translate.py and the export prefer until training goes on, and model.keras with the
same weights. The paper takes the last 5, ten minutes apart, for base and the last 20
for big. Takes seconds.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup

_MODEL_DIR = flags.DEFINE_string("model_dir", None, "The run whose checkpoints to use.")
_LAST = flags.DEFINE_integer(
    "last",
    None,
    "Newest checkpoints to average; default: the run's average_last, or fewer: none of "
    "the first half of its steps.",
)
_MIN_STEPS_APART = flags.DEFINE_integer(
    "min_steps_apart", 1, "Refuse checkpoints with fewer steps between them."
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder for the averaged checkpoint; default: MODEL_DIR/averaged."
)


def main() -> dict:
    """Average and return the JSON summary."""
    programs.check_given(_MODEL_DIR)
    startup.import_tensorflow()
    from keras_transformer.runs import averaging

    summary = averaging.average_run(
        _MODEL_DIR.value,
        last=_LAST.value,
        min_steps_apart=_MIN_STEPS_APART.value,
        output=_OUTPUT.value,
    )
    steps = ", ".join(f"{step:,}" for step in summary["steps"])
    if len(summary["steps"]) > 1:
        print(f"averaged the checkpoints of steps {steps} into {summary['path']}")
    else:
        print(f"copied one checkpoint, of step {steps}, to {summary['path']}")
    return summary


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
