"""Client of a TensorFlow Serving server, over gRPC or REST."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from keras_transformer import given_texts, wording
from keras_transformer.config import check_above_zero, check_at_least, check_choice

PROTOCOLS = ("grpc", "rest")
# Exponential backoff between attempts, in seconds: first wait, longest wait, growth.
# Random jitter shortens each wait by up to half, so that clients do not synchronize.
_FIRST_WAIT, _LONGEST_WAIT, _WAIT_GROWTH = 0.1, 2.0, 2.0
# Rows are sorted by length within this number of batches. With 16, batches of captions
# have 8 % padding; larger values delay answers, which are yielded in input order.
_BATCHES_SORTED = 16
# HTTP status codes of a busy server, or of a proxy without a server.
_BUSY_STATUSES = (429, 502, 503, 504)
# Signatures that the export of a translation model can have.
TRANSLATION_SIGNATURES = (
    "serving_default",
    "nbest",
    "prefix",
    "sample",
    "align",
    "score",
    "document",
    "multilingual",  # for models that are told both languages
)
# Names of the inputs that are numbers; other inputs are strings.
_FLOATS = ("temperature", "top_p")
_INTEGERS = ("top_k", "seed", "program")


@dataclasses.dataclass(frozen=True)
class ClientConfig:
    """Address of a server, and how to send requests.

    Raises:
        ValueError: If a number is outside its range, or the protocol unknown.
    """

    # "HOST:PORT"; each protocol has its own port (TF Serving: 8500 gRPC, 8501 REST).
    server: str
    model_name: str
    protocol: str = "grpc"
    signature: str = "serving_default"
    # Time limit of one batch, including all retries.
    deadline_seconds: float = 30.0
    # Sources per request.
    batch_size: int = 32
    # Number of requests sent at the same time.
    concurrency: int = 4

    def __post_init__(self):
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_above_zero("deadline_seconds", self.deadline_seconds)
        for name in ("batch_size", "concurrency"):
            check_at_least(name, getattr(self, name), 1)
        if not self.server.rpartition(":")[0]:
            raise ValueError(
                f"`server` must be HOST:PORT. Received: server={self.server!r}."
            )


# A batch by name, one item per row, and the outputs of each row by name.
Batch = Mapping[str, Sequence]
Answers = list[dict[str, Any]]
Translate = Callable[[Callable[[Batch], Answers], Batch], Answers]


class Connection(Protocol):
    """A connection to a server."""

    def predict(
        self, inputs: Mapping[str, Sequence], timeout_seconds: float
    ) -> dict[str, list]:
        """Send one batch, without retries, and return its outputs.

        Returns:
            By name, a list with one item per row.

        Raises:
            NoAnswerError: If the server is absent or busy; the request can be retried.
            TimeoutError: If the answer takes too long.
            ValueError: If the server rejects the request.
        """

    def close(self) -> None:
        """Close the connection."""


class NoAnswerError(Exception):
    """The server is absent or busy; the request can be retried."""


def ask(
    config: ClientConfig,
    inputs: Mapping[str, Sequence],
    translate: Translate | None = None,
) -> Iterator[dict[str, Any]]:
    """Send rows in batches of similar length; yield answers in input order.

    Args:
        config: Server and requests.
        inputs: The signature's inputs by name, one item per row; texts in any form that
            `given_texts.each` takes.
        translate: Called, by threads, with a function that sends a batch and with the
            inputs of one; returns the answers. None: they are those of the server.

    Yields:
        For each row its outputs by name; texts as str.

    Raises:
        TypeError: If a text is no string.
        ValueError: If the inputs differ in their number of rows, or the server does not
            have the model or signature, or rejects the inputs.
        ConnectionError: If the server is absent or busy until a batch's deadline.
        TimeoutError: If the deadline passes while the server works.
    """
    inputs = {name: _rows(name, values) for name, values in inputs.items()}
    sizes = {name: len(values) for name, values in inputs.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(wording.unequal_inputs(sizes))
    connection = connect(config)
    is_over = threading.Event()

    def send(batch):
        outputs = retry(config, lambda left: connection.predict(batch, left), is_over)
        rows = zip(*outputs.values(), strict=True)
        return [dict(zip(outputs, row, strict=True)) for row in rows]

    def answer(rows):
        batch = {name: [values[row] for row in rows] for name, values in inputs.items()}
        return translate(send, batch) if translate else send(batch)

    batches = in_batches([len(text) for text in inputs["text"]], config.batch_size)
    answers: dict[int, dict[str, Any]] = {}
    next_row = 0
    pool = concurrent.futures.ThreadPoolExecutor(config.concurrency)
    try:
        for rows, outputs in zip(batches, pool.map(answer, batches), strict=True):
            answers.update(zip(rows, outputs, strict=True))
            while next_row in answers:
                yield answers.pop(next_row)
                next_row += 1
    finally:
        is_over.set()  # after an error, nothing is retried and the rest is not sent
        connection.close()
        pool.shutdown(cancel_futures=True)


def _rows(name: str, values: Any) -> Sequence:
    """Return the rows of an input, which are checked if they are texts."""
    if name in _FLOATS or name in _INTEGERS:
        return values
    return given_texts.as_list(values, name)


def in_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return batches of row indices, of similar length and from nearby rows.

    Args:
        lengths: Length of each row.
        batch_size: Rows in a batch.
    """
    batches = []
    block_size = batch_size * _BATCHES_SORTED
    for first in range(0, len(lengths), block_size):
        block = range(first, min(first + block_size, len(lengths)))
        order = sorted(block, key=lengths.__getitem__)
        batches += [
            order[start : start + batch_size]
            for start in range(0, len(order), batch_size)
        ]
    return batches


def connect(config: ClientConfig) -> Connection:
    """Return a connection with the configured protocol."""
    return (GrpcConnection if config.protocol == "grpc" else RestConnection)(config)


def retry(
    config: ClientConfig, attempt: Callable[[float], Any], is_over: threading.Event
) -> Any:
    """Call `attempt` with exponential backoff until it succeeds or the deadline passes.

    Args:
        config: Has the deadline.
        attempt: Sends the request and returns the answer; called with the seconds left.
        is_over: Once set, nothing is retried.

    Raises:
        ConnectionError: If the server is absent or busy until the deadline.
        TimeoutError: If the deadline passes while the server works.
    """
    end = time.monotonic() + config.deadline_seconds
    last_error, wait = None, _FIRST_WAIT
    while (left := end - time.monotonic()) > 0 and not is_over.is_set():
        try:
            return attempt(left)
        except NoAnswerError as error:
            last_error = error
        left = end - time.monotonic()
        is_over.wait(min(left, wait * random.uniform(0.5, 1.0)))
        wait = min(_LONGEST_WAIT, wait * _WAIT_GROWTH)
    raise _no_server(config, last_error) from last_error


class GrpcConnection:
    """TF Serving's PredictionService over gRPC.

    Raises:
        ModuleNotFoundError: If the extra `serving` is not installed.
    """

    def __init__(self, config: ClientConfig):
        import grpc
        from tensorflow_serving.apis import prediction_service_pb2_grpc

        self._config = config
        self._channel = grpc.insecure_channel(
            config.server,
            options=[
                ("grpc.enable_retries", 0),  # `retry` does it
                ("grpc.initial_reconnect_backoff_ms", int(1000 * _FIRST_WAIT)),
                ("grpc.max_reconnect_backoff_ms", int(1000 * _LONGEST_WAIT)),
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
            ],
        )
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def predict(
        self, inputs: Mapping[str, Sequence], timeout_seconds: float
    ) -> dict[str, list]:
        request = predict_request(
            self._config.model_name, self._config.signature, inputs
        )
        response = self._send(request, timeout_seconds)
        return {name: _values(tensor) for name, tensor in response.outputs.items()}

    def close(self) -> None:
        self._channel.close()

    def _send(self, request, timeout_seconds):
        import grpc

        try:
            return self._stub.Predict(request, timeout=timeout_seconds)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            busy = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            if code in busy:
                raise NoAnswerError(details) from error
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise _timeout(self._config) from error
            if code is grpc.StatusCode.NOT_FOUND:
                raise _no_model(self._config, details) from error
            raise _rejected(self._config, f"{code.name}: {details}") from error


class RestConnection:
    """TF Serving's REST API, with requests in columnar format."""

    def __init__(self, config: ClientConfig):
        import requests

        self._config = config
        self._session = requests.Session()
        model = f"http://{config.server}/v1/models/{config.model_name}"
        self._address = f"{model}:predict"

    def predict(
        self, inputs: Mapping[str, Sequence], timeout_seconds: float
    ) -> dict[str, list]:
        body = {
            "signature_name": self._config.signature,
            "inputs": {
                name: [*map(given_texts.as_str, values)]
                for name, values in inputs.items()
            },
        }
        response = self._send(body, timeout_seconds)
        status = response.status_code
        if status in _BUSY_STATUSES:
            raise NoAnswerError(f"HTTP {status}: {response.text[:500]}")
        try:
            answer = response.json()
        except ValueError as error:
            details = f"HTTP {status}, and the answer is not JSON"
            raise _rejected(self._config, details) from error
        if status == 404:
            raise _no_model(self._config, answer.get("error", ""))
        if status != 200 or "outputs" not in answer:
            details = f"HTTP {status}: {answer.get('error', 'no outputs')}"
            raise _rejected(self._config, details)
        return answer["outputs"]

    def close(self) -> None:
        self._session.close()

    def _send(self, body, timeout_seconds):
        from requests import exceptions

        try:
            return self._session.post(self._address, json=body, timeout=timeout_seconds)
        except exceptions.Timeout as error:
            raise _timeout(self._config) from error
        # ChunkedEncodingError: the server died while it answered.
        except (exceptions.ConnectionError, exceptions.ChunkedEncodingError) as error:
            raise NoAnswerError(error) from error


def predict_request(
    model_name: str, signature: str, inputs: Mapping[str, Sequence]
) -> Any:
    """Return a `PredictRequest` of one batch.

    Args:
        model_name: Name of the model on the server.
        signature: Name of a signature of the model.
        inputs: By name, one item per row: str or bytes, float, or int.
    """
    from tensorflow.core.framework import types_pb2
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature
    for name, values in inputs.items():
        tensor = request.inputs[name]
        tensor.tensor_shape.dim.add().size = len(values)
        if name in _FLOATS:
            tensor.dtype = types_pb2.DT_FLOAT
            tensor.float_val.extend(values)
        elif name in _INTEGERS:
            tensor.dtype = types_pb2.DT_INT32
            tensor.int_val.extend(values)
        else:
            tensor.dtype = types_pb2.DT_STRING
            tensor.string_val.extend(
                value.encode() if isinstance(value, str) else value for value in values
            )
    return request


def _values(tensor: Any) -> list:
    """Return the rows of a `TensorProto` as nested lists, texts as str."""
    import tensorflow as tf

    array = tf.make_ndarray(tensor)
    if array.dtype == object:
        return _texts(array.tolist())
    return array.tolist()


def _texts(values: Any) -> Any:
    if isinstance(values, list):
        return [_texts(value) for value in values]
    return values.decode("utf-8")


def _timeout(config: ClientConfig) -> TimeoutError:
    return TimeoutError(
        f"No answer from {config.server} within {_deadline(config)}. Raise "
        "--deadline_seconds, lower --batch_size, or check the load of the server."
    )


def _no_server(config: ClientConfig, details: NoAnswerError | None) -> ConnectionError:
    return ConnectionError(
        f"No answer from {config.server} ({config.protocol}) within "
        f"{_deadline(config)}. Check --server and that the server is running (TF "
        "Serving listens on port 8500 for gRPC and 8501 for REST), or raise "
        f"--deadline_seconds. Last error: {details}"
    )


def _no_model(config: ClientConfig, details: str) -> ValueError:
    return ValueError(
        f"The server {config.server} has no model {config.model_name!r} ready. Check "
        f"--model_name. Server error: {details}"
    )


def _rejected(config: ClientConfig, details: str) -> ValueError:
    return ValueError(
        f"The server {config.server} rejected the request for signature "
        f"{config.signature!r} of model {config.model_name!r}. Server error: {details}"
    )


def _deadline(config: ClientConfig) -> str:
    """Return "1 second" or "0.5 seconds"."""
    plural = "" if config.deadline_seconds == 1 else "s"
    return f"{config.deadline_seconds:g} second{plural}"
