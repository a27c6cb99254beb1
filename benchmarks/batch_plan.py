"""How long does the plan of a large corpus take, and how much memory?

    python benchmarks/batch_plan.py --pairs=10000000
    python benchmarks/batch_plan.py --pairs=10000000 --corpora=3 --pack

plans batches of pairs with lengths typical of news, without their tokens, then reads
one batch of each of two epochs, which shuffles them. With --corpora, the pairs are of
several corpora of equal size whose weights double: 1, 2, 4, ... Prints one line of
JSON; its keys are explained in benchmarks/README.md.
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

_PAIRS = flags.DEFINE_integer("pairs", 1_000_000, "Number of pairs.", lower_bound=1)
_CORPORA = flags.DEFINE_integer(
    "corpora", 1, "Corpora that the pairs are divided into.", lower_bound=1
)
_PACK = flags.DEFINE_bool("pack", False, "Pack several pairs into a row.")
_TOKENS_PER_BATCH = flags.DEFINE_integer(
    "tokens_per_batch", 25_000, "Most tokens per side in a batch.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of lengths and shuffle.", lower_bound=0)


def main() -> dict:
    """Plan two epochs, and print times, memory and padding."""
    startup.import_tensorflow()
    import numpy as np

    from benchmarks.lib import synthetic_corpus
    from keras_transformer import data
    from keras_transformer.data.metadata import CorpusMetadata
    from keras_transformer.hardware import describe

    lengths = synthetic_corpus.lengths_like_news(_PAIRS.value, _SEED.value)
    sizes = [len(part) for part in np.array_split(lengths[0], _CORPORA.value)]
    weights = 2.0 ** np.arange(_CORPORA.value)
    corpora = [
        CorpusMetadata(str(number), size, share)
        for number, (size, share) in enumerate(
            zip(sizes, weights / weights.sum(), strict=True)
        )
    ]
    make_plan = data.PackedBatchPlan if _PACK.value else data.BatchPlan
    before = measure.memory_kib("VmRSS")
    times = [time.perf_counter()]
    plan = make_plan(
        *lengths,
        tokens_per_batch=_TOKENS_PER_BATCH.value,
        seed=_SEED.value,
        corpora=corpora,
    )
    times.append(time.perf_counter())
    for epoch in range(2):
        plan.batch(epoch * plan.batches_per_epoch)
        times.append(time.perf_counter())
    plan_s, *epochs = np.diff(times)
    result = {
        "benchmark": "batch_plan",
        "pairs": plan.num_pairs,
        "corpora": _CORPORA.value,
        "pack": _PACK.value,
        "tokens_per_batch": _TOKENS_PER_BATCH.value,
        "batches_per_epoch": plan.batches_per_epoch,
        "padding_rate": measure.rounded(plan.padding_rate),
        "plan_s": measure.rounded(float(plan_s)),
        "epoch_s": measure.rounded(float(max(epochs))),
        "peak_mib": (measure.memory_kib("VmHWM") - before) // 1024,
        "machine": describe(),
    }
    measure.write_line(**result)
    return result


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
