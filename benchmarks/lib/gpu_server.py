"""Timing a server with an export: its starts, and many requests afterwards."""

from __future__ import annotations

import concurrent.futures
import http.client
import pathlib
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.lib import latencies, measure
from benchmarks.lib.served_program import served, translated

_PATIENCE_SECONDS = 300.0
_GAUGE = re.compile(rb"^keras_transformer_search_programs (\S+)", re.MULTILINE)
# Texts of a request: most have one.
_TEXTS = (1, 1, 1, 2, 4, 8)
_CLIENTS = 16


def measure_server(
    version: pathlib.Path,
    texts: Sequence[str],
    num_requests: int,
    num_programs: int,
    write: Callable[..., None],
) -> None:
    """Start a server with nothing in its cache of programs, and again; send requests.

    Args:
        version: The export. Its translation of a text must be the text.
        texts: The texts of the requests.
        num_requests: Number of requests after the second start.
        num_programs: Programs that it compiles when it starts.
        write: Called with the figures of each start, then with those of the requests.
    """
    with tempfile.TemporaryDirectory() as cache:
        # It keeps programs in this folder unless flags of TensorFlow name another.
        variables = {"XDG_CACHE_HOME": cache, "TF_XLA_FLAGS": ""}
        for start in ("from nothing", "second"):
            began = time.perf_counter()
            with served(f"--saved_model={version}", **variables) as (_, address):
                translated(*address, texts[:1], _PATIENCE_SECONDS)
                first_answer = time.perf_counter() - began
                found = _wait_for_programs(address, num_programs)
                write(
                    start=start,
                    first_answer_s=round(first_answer, 1),
                    all_compiled_s=round(time.perf_counter() - began, 1),
                    programs=found,
                    usual_programs=num_programs,
                )
                if start == "second":
                    write(**_send(address, pathlib.Path(cache), texts, num_requests))


def _wait_for_programs(address: tuple[str, int], wanted: int) -> int:
    """Wait until as many programs are compiled; return their number in any case."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (found := _num_programs(address)) < wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _num_programs(address: tuple[str, int]) -> int:
    """Return the number of compiled programs, from the server's metrics."""
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", "/metrics")
        return int(float(_GAUGE.search(connection.getresponse().read())[1]))
    finally:
        connection.close()


def _send(
    address: tuple[str, int],
    cache: pathlib.Path,
    texts: Sequence[str],
    num_requests: int,
) -> dict[str, Any]:
    """Let several clients send requests of mixed sizes; return what they got."""
    draw = random.Random(0)
    requests = [draw.choices(texts, k=draw.choice(_TEXTS)) for _ in range(num_requests)]

    def send(request):
        began = time.perf_counter()
        found = translated(*address, request, _PATIENCE_SECONDS)
        return time.perf_counter() - began, found == request

    before = _num_programs(address), _num_files(cache)
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(_CLIENTS) as pool:
        seconds, are_right = zip(*pool.map(send, requests), strict=True)
    took = time.perf_counter() - began
    after = _num_programs(address), _num_files(cache)
    return {
        "requests": num_requests,
        "clients": _CLIENTS,
        "right": sum(are_right),
        "compiled_meanwhile": max(after[0] - before[0], after[1] - before[1]),
        "texts_per_s": measure.rounded(sum(map(len, requests)) / took),
        **latencies.percentiles(seconds),
    }


def _num_files(folder: pathlib.Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))
