"""Does export/serve.py answer small requests while large ones besiege it?

    python robustness/besieged_server.py --saved_model=exports/multi30k/1

starts the server on a free port of this machine. Users with short sentences, without
and with long texts beside them, alternate for --rounds; then come requests that are
refused for their length, pages that a parser makes larger, alignments, and requests
that never arrive, while /health is asked all the time; then pages of other origins; at
last SIGTERM, while long texts are translated. Prints one line
of JSON with the figures, and exits with 1 if one is beyond its limit. Run it alone on
the machine: others change the times.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from benchmarks.lib.served_program import PREDICT, served
from keras_transformer.cli import programs

_SAVED_MODEL = flags.DEFINE_string("saved_model", None, "EXPORT_DIR/VERSION.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Measurements.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 10.0, "Length of each.", lower_bound=0.1)

_DRAIN_SECONDS = 2
_SENTENCES = ("A dog runs.", "Two men ride their bicycles.", "A child plays outside.")
_LONG = "x" * 9000
_PATIENCE_SECONDS = 300.0
_ALLOWED_ORIGIN = "https://allowed.example"


def main() -> dict:
    """Besiege a server and print what it did."""
    programs.check_given(_SAVED_MODEL)
    options = [
        f"--saved_model={_SAVED_MODEL.value}",
        f"--drain_seconds={_DRAIN_SECONDS}",
        f"--allowed_origin={_ALLOWED_ORIGIN}",
    ]
    with served(*options) as (server, address):
        try:
            result = besiege(address, _ROUNDS.value, _SECONDS.value, server.pid)
            result["wrong_origins"] = count_wrong_origins(address, _ALLOWED_ORIGIN)
            result["stop_s"] = _stop_while_busy(server, address)
        finally:
            server.kill()  # it may not end at SIGTERM
    limits = {
        "slowdown": 3.0,
        "refusal_s": 1.0,
        "health_s": 1.0,
        "more_megabytes": 1000,
        "wrong_origins": 0,
        "stop_s": _DRAIN_SECONDS + 2,
    }
    beyond = [name for name, limit in limits.items() if result[name] > limit]
    measure.write_line(**result, beyond=beyond)
    if beyond:
        raise ValueError(f"Beyond their limits: {', '.join(beyond)}.")
    return result


def besiege(
    address: tuple[str, int],
    rounds: int,
    seconds: float,
    process: int | str = "self",
    half_sent: int = 1100,
) -> dict:
    """Send what takes much time or memory, and measure what others see.

    Args:
        address: Host and port of the server.
        rounds: How often the users' waiting is measured.
        seconds: Length of each measurement.
        process: Number of the server's process.
        half_sent: Connections with half a request.
    """
    ask(address, _predict(_LONG))  # the first takes longer
    slow = []
    for _ in range(rounds):
        alone, beside = (_percentile(address, seconds, long) for long in (0, 3))
        slow.append(beside / alone)
    megabytes = _megabytes(process)
    with _watched_health(address) as health:
        refusals = _at_once(address, [_translate("ab " * 633_333)] * 6)
        page = "".join(f"<b a={number}><p>x" for number in range(1200))
        aligned = {"inputs": ["A dog runs. " * 9] * 128, "signature_name": "align"}
        for fields in (
            _translate(page, format="html"),
            _translate("A dog runs. " * 120, glossary=[{"source": "dog"}]),
            ("PREDICT", aligned),
        ):
            ask(address, fields)
        _send_halves(address, half_sent)
    return {
        "slowdown": measure.rounded(statistics.median(slow)),
        "refusal_s": measure.rounded(max(refusals)),
        "health_s": measure.rounded(max(health)),
        "more_megabytes": _megabytes(process) - megabytes,
    }


def count_wrong_origins(address: tuple[str, int], allowed: str) -> int:
    """Count the origins that a server treats wrongly: the allowed one and others.

    Args:
        address: Host and port of the server.
        allowed: The only origin whose pages may use it.
    """
    others = ("https://other.example", f"{allowed}.other.example", "null")
    headers = {"Content-Type": "application/json"}
    wrong = 0
    for origin in (allowed, *others):
        connection = http.client.HTTPConnection(*address, timeout=60)
        with contextlib.closing(connection):
            body = json.dumps(_translate("A dog runs.")[1])
            connection.request(
                "POST", "/translate", body, {**headers, "Origin": origin}
            )
            answer = connection.getresponse()
            answer.read()
            told = answer.getheader("Access-Control-Allow-Origin")
        wrong += told != (allowed if origin == allowed else None)
    return wrong


def _stop_while_busy(server: subprocess.Popen, address) -> float:
    """Send SIGTERM while long texts are translated; return how long it takes."""

    def use() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(address, _predict(_LONG))

    users = [threading.Thread(target=use) for _ in range(8)]
    for user in users:
        user.start()
    time.sleep(1.0)
    began = time.monotonic()
    server.terminate()
    server.wait(_PATIENCE_SECONDS)
    seconds = measure.rounded(time.monotonic() - began)
    for user in users:
        user.join()
    return seconds


def _predict(text: str) -> tuple[str, dict]:
    return "PREDICT", {"inputs": {"text": [text]}}


def _translate(text: str, **fields) -> tuple[str, dict]:
    return "/translate", {"q": text, "source": "en", "target": "de", **fields}


def ask(address: tuple[str, int], request: tuple[str, dict]) -> float:
    """Send a request on a connection of its own; return how long it took."""
    path, fields = request
    path = PREDICT if path == "PREDICT" else path
    began = time.monotonic()
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
    with contextlib.closing(connection):
        body = json.dumps(fields)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    return time.monotonic() - began


def _at_once(address, requests) -> list[float]:
    """Send requests together; return how long each took."""
    seconds: list[float] = []
    _together(
        [
            lambda request=request: seconds.append(ask(address, request))
            for request in requests
        ]
    )
    return seconds


def _percentile(address, seconds: float, num_long: int) -> float:
    """Return the 99th percentile of the waiting of 40 users with short sentences."""
    end, waited = time.monotonic() + seconds, []

    def use(text: str, notes: list[float]) -> None:
        while time.monotonic() < end:
            notes.append(ask(address, _predict(text)))

    sentences = itertools.islice(itertools.cycle(_SENTENCES), 40)
    users = [lambda text=text: use(text, waited) for text in sentences]
    _together(users + [lambda: use(_LONG, [])] * num_long)
    return sorted(waited)[int(0.99 * len(waited))]


def _together(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def _watched_health(address) -> Iterator[list[float]]:
    """Ask /health all the time; yield how long the answers took."""
    seconds, is_over = [], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            began = time.monotonic()
            connection = http.client.HTTPConnection(*address, timeout=60)
            with contextlib.closing(connection):
                connection.request("GET", "/health")
                connection.getresponse().read()
            seconds.append(time.monotonic() - began)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seconds
    finally:
        is_over.set()
        thread.join()


def _send_halves(address, count: int) -> None:
    """Open connections with half a request, and wait for an answer to a whole one."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = socket.create_connection(address, timeout=60)
            stack.enter_context(connection)
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\n")
        ask(address, _translate("A dog runs."))


def _megabytes(process: int | str) -> int:
    return round(measure.memory_kib(process=process) * 1024 / 1e6)


if __name__ == "__main__":
    programs.run(main)
