"""Hostile HTTP requests, and sending them to a server."""

from __future__ import annotations

import collections
import http.client
import json
import random
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.lib.served_program import PREDICT
from robustness import hostile

_PATHS = (
    *["/translate"] * 40,
    *[PREDICT] * 40,
    "/v1/models/translation/versions/1:predict",
    "/v1/models/translation/versions/99999999999999999999:predict",
    "/v1/models/translation/metadata",
    "/v1/models/%00",
    "/detect",
    "/languages",
    "/health",
    "/frontend/settings",
    "/metrics",
    "/spec",
    "/",
    "//",
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/page/..%2f..%2f..%2fetc%2fpasswd",
    "/v1/models/../../../etc/passwd",
    "/v1/models/translation/metadata/../../../../etc/passwd",
    "/translate?q=%ff&source=%00&target=" + "a" * 5000,
    "/" + "a" * 20_000,
)
_METHODS = (*["POST"] * 40, "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "NONE")
_CONTENT_TYPES = (
    *["application/json"] * 8,
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=x",
    "text/plain; charset=nothing",
    "application/json; charset=utf-16",
    "",
)
# Values of the wrong type or size, as JSON.
_VALUES = (
    *("null", "true", "0", "-1", "1e400", "-1e400", "NaN", "Infinity", "1" + "0" * 400),
    *("1" + "0" * 5000, '""', '"a"', '"\\ud800"', '"\\u0000"', '"../../etc/passwd"'),
    *("[]", "{}", "[[]]", "[null]", '["a", 1]', '{"b64": "?"}', '{"b64": "/w=="}'),
    *('[{"text": "a"}, {"text": 2}]', '[{"b64": 1}]', '{"text": [], "text": 1}'),
    *("[" * 30 + "]" * 30, '["' + '", "'.join(["a"] * 200) + '"]'),
)
_NAMES = (
    *("q", "source", "target", "format", "alternatives", "api_key"),
    *("inputs", "instances", "signature_name", "text", "temperature", "seed", "nbest"),
)
_DEPTH = 100_000


class Request(NamedTuple):
    """What is sent."""

    method: str
    path: str
    content_type: str
    body: bytes
    # What the header says of the body's length, minus its real length.
    extra_length: int = 0


class Outcome(NamedTuple):
    """What a server did."""

    # Answers by status; None: it closed the connection.
    statuses: dict[int | None, int]
    # Requests that were answered with a status of 500.
    failures: list[Request]


def hostile_requests(count: int, seed: int = 0) -> list[Request]:
    """Return requests that a server may receive by mistake or from an attacker.

    Args:
        count: Number of requests.
        seed: Random seed.
    """
    draw = random.Random(seed)
    strings = hostile.hostile_strings(max(count // 4, 4), seed)
    return [
        Request(
            draw.choice(_METHODS),
            draw.choice(_PATHS),
            draw.choice(_CONTENT_TYPES),
            _body(draw, strings[number % len(strings)]),
            draw.choice((*[0] * 20, 1, 10_000, -1)),
        )
        for number in range(count)
    ]


def _body(draw: random.Random, string: bytes) -> bytes:
    """Return a body: JSON with wrong values, damaged JSON, or none."""
    kind = draw.randrange(8)
    if kind == 0:
        return draw.choice((b"", b"{", b'{"q": "a', b"[1,", b"nul", b"\0", b"{}" * 9))
    if kind == 1:
        opening = draw.choice((b"[", b'{"q":', b'{"inputs":['))
        return opening * draw.choice((100, 1000, _DEPTH))
    if kind == 2:
        empty = b'[""' + b',""' * _DEPTH + b"]"
        name = draw.choice((b"q", b"inputs", b"instances"))
        return b'{"source":"en","target":"de","%s":%s}' % (name, empty)
    if kind == 3:
        return b"x" * 2_100_000
    if kind == 4:
        return string
    fields = {"source": '"en"', "target": '"de"', "q": _quoted(string)}
    if kind == 5:
        fields = {"inputs": f"[{_quoted(string)}]"}
    for name in draw.sample(_NAMES, draw.randrange(3)):
        fields[name] = draw.choice(_VALUES)
    text = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    body = f"{{{text}}}".encode("utf-8", "surrogatepass")
    if kind == 6 and body:
        place = draw.randrange(len(body))
        body = body[:place] + draw.randbytes(1) + body[place + 1 :]
    return body


def _quoted(string: bytes) -> str:
    return json.dumps(string.decode("utf-8", "replace"))


def send(host: str, port: int, requests: Iterable[Request], seconds: float) -> Outcome:
    """Send requests one after the other, each on a connection of its own.

    Args:
        host: Address of the server.
        port: Its port.
        requests: The requests.
        seconds: How long to wait for an answer.

    Raises:
        TimeoutError: If the server does not answer a whole request in time.
    """
    statuses: collections.Counter[int | None] = collections.Counter()
    failures = []
    for request in requests:
        status = _status(host, port, request, seconds)
        statuses[status] += 1
        if status == 500:
            failures.append(request)
    return Outcome(dict(statuses), failures)


def _status(host, port, request, seconds) -> int | None:
    # A server waits for the rest of a body that is shorter than it was told.
    patience = 1.0 if request.extra_length > 0 else seconds
    connection = http.client.HTTPConnection(host, port, timeout=patience)
    try:
        connection.putrequest(request.method, request.path, skip_accept_encoding=True)
        length = max(len(request.body) + request.extra_length, 0)
        connection.putheader("Content-Length", str(length))
        connection.putheader("Content-Type", request.content_type)
        connection.endheaders()
        connection.send(request.body)
        return connection.getresponse().status
    except TimeoutError:
        if request.extra_length > 0:
            return None
        raise
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
