"""How much of a batch is padding, and how fast are batches made?

    python benchmarks/input_pipeline.py --data_dir=data/multi30k
    python benchmarks/input_pipeline.py --synthetic_pairs=1000000
    python benchmarks/input_pipeline.py --data_dir=data/multi30k --pack

plans the batches of a training split the same as bin/train.py, or those of random
tokens with lengths typical of news. Reads --batches of them and prints one line of
JSON; its keys are explained in benchmarks/README.md. Put `taskset --cpu-list
0` in front to use only one core.
"""

from __future__ import annotations

import pathlib
import sys
import time

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs, startup

_DATA_DIR = flags.DEFINE_string("data_dir", None, "A prepared corpus.")
_SYNTHETIC_PAIRS = flags.DEFINE_integer(
    "synthetic_pairs",
    None,
    "Number of pairs of random tokens, instead of --data_dir.",
    lower_bound=1,
)
_TOKENS_PER_BATCH = flags.DEFINE_integer(
    "tokens_per_batch", 25_000, "Most tokens per side in a batch.", lower_bound=1
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length", 256, "Longer pairs are left out.", lower_bound=1
)
_PACK = flags.DEFINE_bool("pack", False, "Pack several pairs into a row.")
_BATCHES = flags.DEFINE_integer("batches", 100, "Batches to read.", lower_bound=1)
# Batches that may be prefetched, read before the clock starts.
_PREFETCHED_BATCHES = 16
_SEED = flags.DEFINE_integer("seed", 0, "Seed of tokens and shuffle.", lower_bound=0)


def main() -> dict:
    """Plan and read batches, and print times and rates."""
    if (_DATA_DIR.value is None) == (_SYNTHETIC_PAIRS.value is None):
        raise ValueError("Give one of --data_dir and --synthetic_pairs.")
    startup.import_tensorflow()
    from benchmarks.lib import synthetic_corpus
    from keras_transformer import data
    from keras_transformer.hardware import describe

    if _DATA_DIR.value is not None:
        corpus = data.EncodedCorpus.open(_DATA_DIR.value, "train")
    else:
        lengths = synthetic_corpus.lengths_like_news(
            _SYNTHETIC_PAIRS.value, _SEED.value
        )
        corpus = synthetic_corpus.random_corpus(*lengths, _SEED.value)
    began = time.perf_counter()
    make_plan = corpus.packed_batch_plan if _PACK.value else corpus.batch_plan
    plan = make_plan(
        tokens_per_batch=_TOKENS_PER_BATCH.value,
        max_length=_MAX_LENGTH.value,
        seed=_SEED.value,
    )
    planned = time.perf_counter()
    batches = iter(data.training_dataset(corpus, plan))
    next(batches)
    first = time.perf_counter()
    for _ in range(_PREFETCHED_BATCHES):
        next(batches)
    began_reading = time.perf_counter()
    tokens = 0
    for _ in range(_BATCHES.value):
        source, target = next(batches)
        tokens += int((source != corpus.pad_id).numpy().sum())
        tokens += int((target != corpus.pad_id).numpy().sum())
    seconds = time.perf_counter() - began_reading
    result = {
        "benchmark": "input_pipeline",
        "pairs": plan.num_pairs,
        "pack": _PACK.value,
        "tokens_per_batch": _TOKENS_PER_BATCH.value,
        "batches_per_epoch": plan.batches_per_epoch,
        "shapes": plan.shapes,
        "padding_rate": measure.rounded(plan.padding_rate),
        "plan_s": measure.rounded(planned - began),
        "first_batch_s": measure.rounded(first - planned),
        "batches": _BATCHES.value,
        "batches_per_s": measure.rounded(_BATCHES.value / seconds),
        "tokens_per_s": measure.rounded(tokens / seconds),
        "machine": describe(),
    }
    measure.write_line(**result)
    return result


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
