"""Corpora, from text to batches (§5.1).

Begin with `preparation`, which reads `sources` and writes an encoded `corpus` with its
`metadata`. For training, `batch_plan` (or `packing`) decides which pairs make batch n,
`buckets` which shapes there are, and `pipeline` fetches the batches as a `tf.data`.
"""

from keras_transformer.data.batch_plan import BatchPlan, PlannedBatch
from keras_transformer.data.corpus import EncodedCorpus, corpus_hash
from keras_transformer.data.metadata import DataMetadata, read_metadata
from keras_transformer.data.packing import PackedBatchPlan
from keras_transformer.data.pipeline import (
    evaluation_dataset,
    padding_dataset,
    training_dataset,
)
from keras_transformer.data.preparation import prepare, report
from keras_transformer.data.sources import ParallelSource, TextFiles, open_dataset

__all__ = [
    "BatchPlan",
    "DataMetadata",
    "EncodedCorpus",
    "PackedBatchPlan",
    "ParallelSource",
    "PlannedBatch",
    "TextFiles",
    "corpus_hash",
    "evaluation_dataset",
    "open_dataset",
    "padding_dataset",
    "prepare",
    "read_metadata",
    "report",
    "training_dataset",
]
