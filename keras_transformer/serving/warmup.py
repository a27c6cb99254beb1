"""Requests that TF Serving runs before a model gets traffic, so that no client waits.

The first request of every new shape costs TensorFlow time. The requests here cover the
lengths that sources have, by powers of two, alone and in a batch, for each signature.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.inference.generator import SequenceGenerator
from keras_transformer.serving.client import predict_request

# Where TF Serving looks, in the folder of a version.
FILE = pathlib.PurePath("assets.extra") / "tf_serving_warmup_requests"
_BATCH_SIZES = (1, 8)


def write_warmup_requests(
    saved_model: str | os.PathLike,
    searcher: SequenceGenerator,
    signatures: Sequence[str],
    longest: int = 128,
) -> int:
    """Write the requests into an exported model.

    Args:
        saved_model: The folder of a version.
        searcher: What was exported.
        signatures: Names of its signatures.
        longest: Tokens of the longest source.

    Returns:
        The number of requests.

    Raises:
        ModuleNotFoundError: If the extra `serving` is not installed.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    path = pathlib.Path(saved_model) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in warmup_requests(searcher, signatures, longest):
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.CopyFrom(request)
            writer.write(log.SerializeToString())
            count += 1
    return count


def warmup_requests(
    searcher: SequenceGenerator, signatures: Sequence[str], longest: int
) -> Iterator[Any]:
    """Yield a `PredictRequest` for each signature, length and batch size."""
    draw = np.random.default_rng(0)
    size = searcher.model.config.vocab_size
    longest = min(longest, searcher.decoding.max_input_length)
    lengths = [2**power for power in range(longest.bit_length()) if 2**power <= longest]
    for signature in signatures:
        for batch_size in _BATCH_SIZES:
            for length in lengths:
                # Pieces of the vocabulary, drawn; as words they are about as many.
                rows = draw.integers(4, size, size=(batch_size, length))
                texts = searcher.tokenizer.decode(rows.tolist())
                yield predict_request(
                    "default", signature, inputs_for(signature, texts)
                )


def inputs_for(signature: str, texts: Sequence[str]) -> dict[str, Sequence]:
    """Return inputs of a signature that are all valid, one item a text."""
    batch = len(texts)
    inputs: dict[str, Sequence] = {"text": texts}
    if signature == "prefix":
        inputs["prefix"] = [""] * batch
    if signature == "score":
        inputs["target_text"] = texts
    if signature == "sample":
        inputs |= {
            "temperature": [1.0] * batch,
            "top_k": [0] * batch,
            "top_p": [1.0] * batch,
            "seed": [*range(batch)],
        }
    return inputs
