"""The options of a training run: their defaults, ranges and help in one place.

Imports no TensorFlow, so that a program can check its flags before loading it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_transformer import tasks
from keras_transformer.config import check_at_least, check_choice

DISTRIBUTIONS = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
# Validation sentences translated for BLEU unless `bleu_sentences` says otherwise.
_BLEU_SENTENCES = 1000


def _option(default: Any, **rules: Any) -> Any:
    """Define a field with the rules that `RunOptions` checks and its flag follows.

    Args:
        default: The field's default.
        **rules: `minimum`, an integer; `choices`; and `flag`, the name of the flag
            where it is not the field's.
    """
    return dataclasses.field(default=default, metadata=rules)


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a run is carried out. No option changes which model is trained.

    The comment above a field is the help of its flag in bin/train.py.

    Raises:
        ValueError: If a number is outside its range or a choice unknown; the message
            names the field.
    """

    # Devices to train on. auto: the workers of TF_CONFIG if it names several, else all
    # GPUs, else one CPU.
    distribution: str = _option("auto", choices=DISTRIBUTIONS)
    # Devices of this machine to use; without GPUs, logical CPU devices. Default: all
    # GPUs, else one CPU.
    num_replicas: int | None = _option(None, minimum=1)
    # Most padded tokens of one side that a replica processes at once. A larger batch is
    # split into microbatches, so --tokens_per_batch holds on any number of devices.
    # Default: no limit.
    max_tokens_per_replica: int | None = _option(None, minimum=1)
    # Whether gradients are computed under XLA. auto: only on a GPU.
    jit_compile: str = _option("auto", choices=("auto", "true", "false"))
    # Steps between two checkpoints. Default: by minutes only.
    checkpoint_every_steps: int | None = _option(None, minimum=1)
    # Minutes between two checkpoints. Default: 10, as in the paper, or by steps only if
    # --checkpoint_every_steps is given.
    checkpoint_every_minutes: float | None = None
    # Number of newest checkpoints to keep. Default: the number that is averaged.
    keep_checkpoints: int | None = _option(None, minimum=1)
    # Steps between two evaluations on the validation split.
    evaluate_every_steps: int = _option(1000, minimum=1)
    # Validation sentences translated at each evaluation for BLEU, which then decides
    # the best checkpoint; with 0 the loss decides. Several corpora have equal shares,
    # and the mean of their BLEU decides. Default: 1000, for parsing 0.
    bleu_sentences: int | None = _option(None, minimum=0)
    # Stop after this many evaluations without a new best. Default: never.
    early_stopping_evaluations: int | None = _option(None, minimum=1)
    # Steps between two lines of progress.
    log_every_steps: int = _option(100, minimum=1)
    # Go back to the last checkpoint with half the learning rate after this many
    # consecutive steps whose loss or gradients are not finite; stop the second time.
    max_skipped_steps: int = _option(5, minimum=1)
    # Try the largest batch before the first step and print the memory it takes.
    has_preflight: bool = _option(True, flag="preflight")
    # A model_dir, or a checkpoint in one, whose weights training starts from.
    init_checkpoint: str | None = None
    # Resume a run although its corpus now has other pairs.
    allow_changed_corpus: bool = False

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, rules = getattr(self, field.name), field.metadata
            if "choices" in rules:
                check_choice(field.name, value, rules["choices"])
            if "minimum" in rules and value is not None:
                check_at_least(field.name, value, rules["minimum"])
        minutes = self.checkpoint_every_minutes
        if minutes is not None and minutes <= 0:
            raise ValueError(
                "`checkpoint_every_minutes` must be above 0. "
                f"Received: checkpoint_every_minutes={minutes}."
            )

    def for_task(self, task: str) -> RunOptions:
        """Return the options with the number of BLEU sentences resolved.

        The output of a parser is not text, so it has no BLEU.
        """
        sentences = self.bleu_sentences
        if not tasks.of(task).writes_text:
            sentences = 0
        elif sentences is None:
            sentences = _BLEU_SENTENCES
        return dataclasses.replace(self, bleu_sentences=sentences)

    def minutes_between_checkpoints(self) -> float | None:
        """Return the minutes between two checkpoints; None: by steps only."""
        if self.checkpoint_every_minutes is None and not self.checkpoint_every_steps:
            return 10.0  # §6.1
        return self.checkpoint_every_minutes
