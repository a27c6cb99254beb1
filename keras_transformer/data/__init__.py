"""Corpora, from text to batches (§5.1).

Begin with `preparation`, which reads `sources` and writes an encoded `corpus` with its
`metadata`. For training, `batch_plan` (or `packing`) decides which pairs make batch n,
`mixture` which pairs of several corpora an epoch has, `buckets` which shapes there are,
and `pipeline` fetches the batches as a `tf.data`. `corpora` reads the file that lists
several corpora; it needs no TensorFlow, so all names are loaded when they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULE_OF = {
    "WordAlignments": "alignments",
    "BatchPlan": "batch_plan",
    "PlannedBatch": "batch_plan",
    "EncodedCorpus": "corpus",
    "corpus_hash": "corpus",
    "DataMetadata": "metadata",
    "read_metadata": "metadata",
    "PackedBatchPlan": "packing",
    "evaluation_dataset": "pipeline",
    "padding_dataset": "pipeline",
    "training_dataset": "pipeline",
    "PreparationOptions": "preparation",
    "check_symbols": "preparation",
    "prepare": "preparation",
    "prepare_corpora": "preparation",
    "report": "preparation",
    "ParallelSource": "sources",
    "TextFiles": "sources",
    "open_dataset": "sources",
}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
