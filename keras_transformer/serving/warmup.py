"""Warmup requests: TF Serving runs them before a model gets traffic.

TensorFlow is slow for the first request of every new shape. The warmup requests cover
source lengths of powers of two, single and in a batch, for each signature. Before them
come those that compile the usual programs of an export, see `program_sizes`.
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
from keras_transformer.translation.program_sizes import COMPILE, Size

# Path in the folder of a version, as defined by TF Serving.
FILE = pathlib.PurePath("assets.extra") / "tf_serving_warmup_requests"
_BATCH_SIZES = (1, 8)
_LONGEST = 128  # tokens of a source


def write_warmup_requests(
    saved_model: str | os.PathLike,
    searcher: SequenceGenerator,
    signatures: Sequence[str],
    programs: Sequence[Size],
) -> None:
    """Write the warmup requests into an exported model.

    Args:
        saved_model: The folder of a version, EXPORT_DIR/VERSION.
        searcher: The exported translator or parser.
        signatures: Names of the exported signatures.
        programs: The sizes of its programs.

    Raises:
        ModuleNotFoundError: If the extra `serving` is not installed.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    path = pathlib.Path(saved_model) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in (
            *compile_requests(programs),
            *warmup_requests(searcher, signatures),
        ):
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.CopyFrom(request)
            writer.write(log.SerializeToString())


def compile_requests(programs: Sequence[Size]) -> Iterator[Any]:
    """Yield a `PredictRequest` for each usual program."""
    for number, size in enumerate(programs):
        if size.is_usual:
            yield predict_request("default", COMPILE, {"program": [number]})


def warmup_requests(
    searcher: SequenceGenerator, signatures: Sequence[str]
) -> Iterator[Any]:
    """Yield a `PredictRequest` for each signature, length and batch size."""
    draw = np.random.default_rng(0)
    size = searcher.model.config.vocab_size
    language = next(iter(searcher.tokenizer.languages), "")
    longest = min(_LONGEST, searcher.decoding.max_input_length)
    lengths = [2**power for power in range(longest.bit_length()) if 2**power <= longest]
    for signature in signatures:
        for batch_size in _BATCH_SIZES:
            for length in lengths:
                # Random ids; tokenizing their text again gives a similar length.
                rows = draw.integers(4, size, size=(batch_size, length))
                texts = searcher.tokenizer.decode(rows.tolist())
                yield predict_request(
                    "default", signature, inputs_for(signature, texts, language)
                )


def inputs_for(
    signature: str, texts: Sequence[str], language: str = ""
) -> dict[str, Sequence]:
    """Return valid inputs of a signature, one item per text.

    Args:
        signature: Its name.
        texts: The sources.
        language: Code of a language, for the signature "multilingual".
    """
    batch = len(texts)
    inputs: dict[str, Sequence] = {"text": texts}
    if signature == "prefix":
        inputs["prefix"] = [""] * batch
    if signature == "multilingual":
        inputs["source_language"] = inputs["target_language"] = [language] * batch
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
