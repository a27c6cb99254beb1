"""TF Serving's REST API: status, metadata and predictions of the model."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any

import fastapi
import numpy as np
from starlette.exceptions import HTTPException

from keras_transformer import language_tokens
from keras_transformer.server.batching_queue import BatchingQueue
from keras_transformer.server.http_json import (
    check_length,
    check_num_texts,
    json_response,
    read_object,
    unless_client_leaves,
)
from keras_transformer.server.served_model import ServedModel, Signature, TensorInfo
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.wording import shown, unequal_inputs

_EXAMPLE = {"inputs": {"text": ["A dog runs."]}}
# Values that an output with two lengths, such as attention, may have in an answer as
# far as its texts tell, and those that an answer may have: 0.2 GB of JSON.
_MOST_EXPECTED, _MOST_VALUES = 2**24, 2**23
# A translation may have this many tokens more than its source, and ends.
_EXTRA_TOKENS = 51
_PREDICT_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"type": "object", "example": _EXAMPLE}}
    },
}


class TfServingRest:
    """The routes below /v1/models.

    Args:
        model: The model.
        queue: Runs the model.
        config: Has the model's name and the limits of requests.
    """

    def __init__(self, model: ServedModel, queue: BatchingQueue, config: ServerConfig):
        self._model = model
        self._queue = queue
        self._config = config

    def add_routes(self, app: fastapi.FastAPI) -> None:
        """Add the routes to an app."""
        for model in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
            # The longer paths first: {name} would match their last part too.
            app.add_api_route(
                f"{model}:predict",
                self.predict,
                methods=["POST"],
                openapi_extra={"requestBody": _PREDICT_BODY},
            )
            app.add_api_route(f"{model}/metadata", self.metadata)
            app.add_api_route(model, self.status)

    async def status(self, request: fastapi.Request) -> fastapi.Response:
        """Return the state of the model, which is loaded before the server listens."""
        self._check_model(request)
        status = {
            "version": str(self._model.version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return json_response({"model_version_status": [status]})

    async def metadata(self, request: fastapi.Request) -> fastapi.Response:
        """Return the signatures of the model."""
        self._check_model(request)
        version = str(self._model.version)
        spec = {
            "name": self._config.model_name,
            "signature_name": "",
            "version": version,
        }
        signatures = {
            name: {
                "inputs": _described(signature.inputs),
                "outputs": _described(signature.outputs),
                "method_name": "tensorflow/serving/predict",
                "defaults": {},
            }
            for name, signature in self._model.signatures.items()
        }
        metadata = {"signature_def": {"signature_def": signatures}}
        return json_response({"model_spec": spec, "metadata": metadata})

    async def predict(self, request: fastapi.Request) -> fastapi.Response:
        """Run a signature, on rows ("instances") or on columns ("inputs")."""
        self._check_model(request)
        body = await read_object(request)
        name = body.get("signature_name") or "serving_default"
        if not isinstance(name, str) or name not in self._model.signatures:
            known = ", ".join(self._model.signatures)
            raise HTTPException(
                400, f"Serving signature {shown(name)} not found; there are {known}"
            )
        signature = self._model.signatures[name]
        if ("inputs" in body) == ("instances" in body):
            raise HTTPException(400, 'Give one of "inputs" and "instances"')
        if "inputs" in body:
            columns = self._columns(signature, body["inputs"])
            rows = await self._ask(request, name, columns)

            def answer():
                outputs = {
                    output: _stacked([row[output] for row in rows])
                    for output in signature.outputs
                }
                return json_response({"outputs": _unnamed(outputs)})

        else:
            columns = self._columns_of_rows(signature, body["instances"])
            rows = await self._ask(request, name, columns)

            def answer():
                return json_response({"predictions": [*map(_unnamed, rows)]})

        # In a thread: attention has millions of values.
        return await asyncio.to_thread(answer)

    async def _ask(self, request, name, columns) -> list[dict[str, Any]]:
        """Return the outputs for each text by name."""
        rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        if not rows:
            return []
        self._check_told(rows)
        self._check_answer(name, rows)
        found = await unless_client_leaves(request, self._queue.ask(name, rows))
        if len(found) * max(map(_num_values, found)) > _MOST_VALUES:
            raise _too_large(name, f"{len(rows)} texts")
        return found

    def _check_told(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raise HTTPException if a text does not tell the model its language."""
        if self._model.default_language is not None:
            return
        tokens = self._model.language_tokens
        for number, row in enumerate(rows, start=1):
            if "target_language" in row:
                continue
            problem = language_tokens.untold(
                row["text"].decode("utf-8", "replace"),
                tokens,
                f"text {number}",
                "ask the signature multilingual, or serve with --target_language",
            )
            if problem:
                raise HTTPException(400, problem)

    def _check_answer(self, name: str, rows: list[Mapping[str, Any]]) -> None:
        """Raise HTTPException if an answer may be far larger than its request.

        In attention all texts have the size of the longest, a token per byte at most.
        """
        outputs = self._model.signatures[name].outputs.values()
        if all(info.shape[1:].count(None) < 2 for info in outputs):
            return
        texts = [each for row in rows for each in row.values() if type(each) is bytes]
        longest = max(map(len, texts), default=0) + 1
        if self._model.max_input_length is not None:
            longest = min(longest, self._model.max_input_length)
        if len(rows) * longest * (longest + _EXTRA_TOKENS) > _MOST_EXPECTED:
            raise _too_large(name, f"{len(rows)} texts of up to {longest:,} tokens")

    def _check_model(self, request: fastapi.Request) -> None:
        name = request.path_params["name"]
        version = request.path_params.get("version")
        if name != self._config.model_name:
            asked = f"Specific({name}, {version})" if version else f"Latest({name})"
        elif version not in (None, str(self._model.version)):
            asked = f"Specific({name}, {version})"
        else:
            return
        raise HTTPException(404, f"Servable not found for request: {asked}")

    def _columns_of_rows(self, signature: Signature, rows: Any) -> dict[str, list]:
        if not isinstance(rows, list):
            raise HTTPException(400, '"instances" must be a list')
        if len(signature.inputs) == 1:
            (name,) = signature.inputs
            rows = [row if _has_names(row) else {name: row} for row in rows]
        for row in rows:
            if not isinstance(row, dict) or row.keys() != signature.inputs.keys():
                expected = ", ".join(signature.inputs)
                raise HTTPException(
                    400,
                    f'Each item of "instances" must be an object with {expected}. '
                    f"Received: {shown(row)}",
                )
        columns = {name: [row[name] for row in rows] for name in signature.inputs}
        return self._columns(signature, columns)

    def _columns(self, signature: Signature, columns: Any) -> dict[str, list]:
        """Check the inputs and return them with strings as bytes."""
        if len(signature.inputs) == 1 and isinstance(columns, list):
            columns = {next(iter(signature.inputs)): columns}
        if not isinstance(columns, dict) or columns.keys() != signature.inputs.keys():
            received = list(columns) if isinstance(columns, dict) else columns
            expected = ", ".join(signature.inputs)
            raise HTTPException(
                400, f"The inputs must be {expected}. Received: {shown(received)}"
            )
        for name, values in columns.items():
            if not isinstance(values, list):
                raise HTTPException(
                    400,
                    f"Input {name} must be a list with one item per text. Received: "
                    f"{shown(values)}",
                )
        sizes = {name: len(values) for name, values in columns.items()}
        if len(set(sizes.values())) > 1:
            raise HTTPException(400, unequal_inputs(sizes))
        check_num_texts(max(sizes.values()), self._config)
        return {
            name: [self._value(name, info, item) for item in columns[name]]
            for name, info in signature.inputs.items()
        }

    def _value(self, name: str, info: TensorInfo, item: Any) -> Any:
        """Return an item of an input as what the model takes."""
        if info.dtype == "string":
            if isinstance(item, str):
                check_length(item, self._config)
                # The model reads invalid UTF-8, as of lone surrogates, as U+FFFD.
                return item.encode("utf-8", "surrogatepass")
            if isinstance(item, dict) and item.keys() == {"b64"}:
                content = _decode(item["b64"])
                if content is not None:
                    check_length(content, self._config)
                    return content
        elif isinstance(item, int | float) and not isinstance(item, bool):
            if info.dtype.startswith("float"):
                is_special = isinstance(item, float) and not math.isfinite(item)
                if is_special or abs(item) < 3e38:
                    return float(item)
            elif isinstance(item, int) and -(2**31) <= item < 2**31:
                return item
        raise HTTPException(
            400,
            f"Each item of input {name} must be of type {info.dtype}. Received: "
            f"{shown(item)}",
        )


def _has_names(row: Any) -> bool:
    """Return whether a row is an object, other than a string in Base64."""
    return isinstance(row, dict) and row.keys() != {"b64"}


def _decode(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return None


def _unnamed(outputs: Mapping[str, Any]) -> Any:
    """Return a single output without its name, as TF Serving does."""
    return next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs)


def _described(infos: Mapping[str, TensorInfo]) -> dict[str, Any]:
    """Return types as TF Serving's JSON has them."""
    return {
        name: {
            "dtype": {"float32": "DT_FLOAT"}.get(
                info.dtype, f"DT_{info.dtype.upper()}"
            ),
            "tensor_shape": {
                "dim": [
                    {"size": str(-1 if size is None else size), "name": ""}
                    for size in info.shape
                ],
                "unknown_rank": False,
            },
            "name": f"{name}:0",
        }
        for name, info in infos.items()
    }


def _num_values(row: Mapping[str, Any]) -> int:
    return sum(map(np.size, row.values()))


def _too_large(name: str, texts: str) -> HTTPException:
    return HTTPException(
        413,
        f"The answer of signature {name} to {texts} is too large. Send fewer texts or "
        "shorter ones in a request.",
    )


def _stacked(values: Sequence[Any]) -> np.ndarray | list:
    """Stack an output of several texts; pad its axes with "" or 0 to one shape."""
    if not values or not np.ndim(values[0]):
        return list(values)
    shape = np.max([value.shape for value in values], axis=0)
    filler = b"" if values[0].dtype == object else 0
    return np.stack(
        [
            np.pad(value, [(0, n) for n in shape - value.shape], constant_values=filler)
            for value in values
        ]
    )
