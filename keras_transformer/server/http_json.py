"""JSON requests and answers of the server, and its one-line errors."""

from __future__ import annotations

import asyncio
import codecs
import json
import math
import re
from collections.abc import Coroutine, Mapping
from typing import Any

import fastapi
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException

from keras_transformer import wording
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.translation.pipeline import as_python

# Characters of an error, which may show what the client has sent.
_LONGEST_ERROR = 300
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def json_response(
    content: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> fastapi.Response:
    """Return JSON in UTF-8, with NaN and Infinity as TF Serving writes them.

    Args:
        content: Also with arrays of NumPy and their items; bytes are text.
        status: Of the answer.
        headers: Of the answer.
    """
    text = _encoded(content).encode("utf-8", "replace")
    return fastapi.Response(text, status, headers, "application/json")


def _encoded(content: Any) -> str:
    """Return JSON, made in small pieces, between which other threads run."""
    if isinstance(content, dict):
        items = (
            f"{json.dumps(key)}: {_encoded(item)}" for key, item in content.items()
        )
        return f"{{{', '.join(items)}}}"
    if isinstance(content, list) or getattr(content, "ndim", 0) > 1:
        return f"[{', '.join(map(_encoded, content))}]"
    return json.dumps(as_python(content), ensure_ascii=False)


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> fastapi.Response:
    """Return an error as TF Serving and LibreTranslate write it, on one short line."""
    line = " ".join(message.split())
    if len(line) > _LONGEST_ERROR:
        line = f"{line[:_LONGEST_ERROR]}..."
    return json_response({"error": line}, status, headers)


async def read_object(request: fastapi.Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        HTTPException: If it is not one.
    """
    check_charset(request.headers.get("content-type", ""), "The body")
    # A byte order mark is no part of JSON.
    text = decoded(await request.body(), "The body").removeprefix("\ufeff")
    try:
        content = json.loads(text, parse_float=_finite)
    except RecursionError as error:
        raise HTTPException(400, "JSON Parse error: it is nested too deeply") from error
    except ValueError as error:
        raise HTTPException(400, f"JSON Parse error: {error}") from error
    if not isinstance(content, dict):
        raise HTTPException(400, "The body must be a JSON object")
    return content


def check_charset(content_type: str, name: str) -> None:
    """Raise HTTPException if a Content-Type says that something is not UTF-8.

    Args:
        content_type: The header.
        name: What has it.
    """
    _, options = parse_options_header(content_type)
    charset = options.get(b"charset", b"utf-8").decode("latin-1")
    try:
        is_utf_8 = codecs.lookup(charset).name in ("utf-8", "ascii")
    except (LookupError, ValueError):
        is_utf_8 = False
    if not is_utf_8:
        raise HTTPException(
            415, f"{name:.60} must be in UTF-8. Received: charset={charset:.60}"
        )


def decoded(content: bytes, name: str) -> str:
    """Return the text of UTF-8.

    Args:
        content: The bytes.
        name: What they are.

    Raises:
        HTTPException: If they are not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(
            400, f"{name:.60} is not valid UTF-8 at byte {error.start + 1:,}"
        ) from error


def without_surrogates(text: str) -> str:
    """Return a text with U+FFFD, as TensorFlow has it, for each half of a pair.

    JSON may have such halves, which no encoding has.
    """
    return _SURROGATE.sub("\ufffd", text)


def _finite(number: str) -> float:
    """Return a number of a body; unlike NaN and Infinity, 1e400 must be a mistake."""
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number} is beyond the range of float64")
    return value


def check_at_most(
    most: int, noun: str, count: int, what: str, remedy: str = ""
) -> None:
    """Raise HTTPException if `what`, which may have `most` of a noun, has more."""
    if count > most:
        limit = wording.count(most, noun)
        message = f"{what} may have {limit}. Received: {count:,}. {remedy}"
        raise HTTPException(413, message.rstrip())


def check_num_texts(count: int, config: ServerConfig) -> None:
    """Raise HTTPException if a request has too many texts."""
    check_at_most(config.max_texts, "text", count, "A request", "Send several.")


def check_length(text: str | bytes, config: ServerConfig) -> None:
    """Raise HTTPException if a text is too long."""
    check_at_most(
        config.max_characters, "character", len(text), "A text", "Split the text."
    )


async def unless_client_leaves(request: fastapi.Request, work: Coroutine) -> Any:
    """Return the result of `work`; cancel it if the client closes the connection.

    Raises:
        HTTPException: If the client has left.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPException(499, "The client closed the connection")
        return task.result()
    finally:
        task.cancel()
        leaving.cancel()


async def _disconnect(request: fastapi.Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
