"""How many tokens a second `fit` trains on, with one shape or with mixed lengths.

    python benchmarks/lib/training_rate.py base mixed_bfloat16 200x64 20

compiles the step for 200 rows of 64 + 64 tokens, writes "ready", waits for a line, and
then times 20 steps, several times. With "200x64mixed" batches are planned as in
bin/train.py, with as many tokens, from pairs as long as captions and news. A program
of its own, so that benchmarks/gpu.py can compile several at once and time them by
turns.
"""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import sys
import time
from typing import Any

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])

from benchmarks.lib import measure
from keras_transformer import presets
from keras_transformer.cli import startup

_REPEATS = 3
_UNTIMED_STEPS = 3
MIXED = "mixed"
# Of mixed lengths: enough pairs that no batch comes twice.
_PAIRS = 200_000
_LONGEST = 256


def main(preset: str, precision: str, shape: str, steps: int) -> None:
    """Compile, wait, time, and write a line of JSON."""
    startup.import_tensorflow(compiles=True)
    from benchmarks.lib import fit_timing
    from keras_transformer.training import run_setup
    from keras_transformer.training.run_options import RunOptions

    rows, length = map(int, shape.removesuffix(MIXED).split("x"))
    is_mixed, options = shape.endswith(MIXED), RunOptions()
    chosen = presets.get(preset)
    training = dataclasses.replace(
        chosen.training,
        tokens_per_batch=rows * length,
        max_length=min(rows * length, _LONGEST),
        pack=is_mixed and run_setup.uses_xla(options),
    )
    config = fit_timing.run_config(
        dataclasses.replace(chosen, training=training), precision
    )
    model = run_setup.build(config, options)
    if is_mixed:
        batches, tokens = mixed_batches(config, steps)
    else:
        batches = fit_timing.same_batch(config.model, rows, length, length, seed=0)
        tokens = 2 * rows * length * steps

    def fit(number):
        began = time.perf_counter()
        model.fit(batches, steps_per_epoch=number, shuffle=False, verbose=0)
        return time.perf_counter() - began

    first = fit(1)
    fit(_UNTIMED_STEPS)
    print("ready", flush=True)
    sys.stdin.readline()
    seconds = statistics.median(fit(steps) for _ in range(_REPEATS))
    peak = fit_timing.tensor_bytes("peak")
    measure.write_line(
        part="train",
        preset=preset,
        precision=precision,
        shape=shape,
        first_step_s=round(first, 1),
        step_s=measure.rounded(seconds / steps),
        tokens_per_s=round(tokens / seconds),
        peak_gib=peak and round(peak / 2**30, 2),
    )


def mixed_batches(config: Any, steps: int) -> tuple[Any, int]:
    """Return batches of mixed lengths, and the tokens of the first steps."""
    from benchmarks.lib import synthetic_corpus
    from keras_transformer import data

    lengths = synthetic_corpus.mixed_lengths(_PAIRS, seed=0)
    corpus = synthetic_corpus.random_corpus(
        *lengths, seed=0, vocab_size=config.model.vocab_size
    )
    training = config.training
    make_plan = corpus.packed_batch_plan if training.pack else corpus.batch_plan
    plan = make_plan(
        tokens_per_batch=training.tokens_per_batch, max_length=training.max_length
    )
    tokens = 0
    for step in range(steps):
        pairs = plan.batch(step).rows
        pairs = pairs[pairs >= 0]
        tokens += (
            corpus.source_lengths[pairs].sum() + corpus.target_lengths[pairs].sum()
        )
    return data.training_dataset(corpus, plan), int(tokens)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
