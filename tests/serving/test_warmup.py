"""Warmup requests have TF Serving's format, and the model can run them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.serving import warmup
from tests.small_models import make_translator


@pytest.fixture(scope="module")
def translator():
    return make_translator()


def read_requests(saved_model):
    records = tf.data.TFRecordDataset(str(saved_model / warmup.FILE))
    return [
        prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        for record in records
    ]


@pytest.mark.long
def test_every_request_runs(small_export):
    signatures = tf.saved_model.load(str(small_export)).signatures
    requests = read_requests(small_export)
    assert len(requests) == 70  # 7 signatures, batches of 1 and 8, 1 to 16 tokens
    for request in requests:
        inputs = {
            name: tf.constant(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        outputs = signatures[request.model_spec.signature_name](**inputs)
        for value in outputs.values():
            assert len(value) == len(inputs["text"])


def test_requests_cover_the_lengths_of_sources(translator, small_export):
    """Up to the longest power of two below the limit of 23 tokens."""
    lengths = set()
    for request in read_requests(small_export):
        texts = tf.make_ndarray(request.inputs["text"])
        tokens, _ = translator.source_tokens(tf.constant(texts))
        lengths.add(int(np.max(translator.lengths(tokens))))
    assert min(lengths) <= 3
    assert max(lengths) >= 16
