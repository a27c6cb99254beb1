"""Does export/serve.py survive any request, within bounded memory?

    python robustness/hostile_requests.py --saved_model=exports/multi30k/1

starts the server on a free port of this machine and sends 2,000 requests, one after the
other: damaged, deep and huge JSON, wrong types, NaN, 100,000 empty texts, paths out of
the folder, wrong methods, kinds and lengths of bodies. No answer may have status 500,
and in between texts must be translated as before. Prints one line of JSON: answers by
status and the peak memory of the server after each quarter. Exits with 1 if an answer
is wrong.
"""

from __future__ import annotations

import collections
import pathlib
import subprocess
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from benchmarks.lib.served_program import served, translated
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags
from robustness import http_attack

_SAVED_MODEL = flags.DEFINE_string(
    "saved_model", None, "EXPORT_DIR/VERSION, instead of --model_dir."
)
_COUNT = flags.DEFINE_integer("count", 2000, "Number of requests.", lower_bound=4)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the requests.", lower_bound=0)
_MODEL = ModelFlags()

_TEXTS = ["a", "A dog runs.", "", "\u00e9 7"]
_PATIENCE_SECONDS = 120.0


def main() -> dict:
    """Start the server, send the requests and print the results."""
    if (_MODEL.model_dir.value is None) == (_SAVED_MODEL.value is None):
        raise ValueError("Give one of --model_dir and --saved_model.")
    startup.import_tensorflow()
    from keras_transformer.hardware import describe

    model = (
        f"--saved_model={_SAVED_MODEL.value}"
        if _SAVED_MODEL.value
        else f"--model_dir={_MODEL.model_dir.value}"
    )
    with tempfile.TemporaryFile("w+") as errors:
        with served(model, stderr=errors) as (server, address):
            result = attack(server, address)
        errors.seek(0)
        result["tracebacks"] = errors.read().count("Traceback")
    measure.write_line(**result, machine=describe())
    if result["tracebacks"] or result["wrong_answers"] or "500" in result["statuses"]:
        raise ValueError("The server did not survive all requests: see the line above.")
    return result


def attack(server: subprocess.Popen, address: tuple[str, int]) -> dict:
    """Send the requests in four parts, and texts to translate after each."""
    host, port = address
    expected = translated(host, port, _TEXTS, _PATIENCE_SECONDS)
    statuses: collections.Counter[str] = collections.Counter()
    megabytes = [_peak_megabytes(server)]
    wrong = 0
    requests = http_attack.hostile_requests(_COUNT.value, _SEED.value)
    for part in range(4):
        outcome = http_attack.send(host, port, requests[part::4], _PATIENCE_SECONDS)
        for request in outcome.failures:
            print(f"status 500: {request!r:.300}", file=sys.stderr)
        named = {str(status or "closed"): n for status, n in outcome.statuses.items()}
        statuses.update(named)
        answer = translated(host, port, _TEXTS, _PATIENCE_SECONDS)
        wrong += answer != expected
        megabytes.append(_peak_megabytes(server))
    return {
        "requests": len(requests),
        "statuses": dict(sorted(statuses.items())),
        "wrong_answers": wrong,
        "peak_megabytes": megabytes,
    }


def _peak_megabytes(server: subprocess.Popen) -> int:
    return round(measure.memory_kib(process=server.pid) * 1024 / 1e6)


if __name__ == "__main__":
    programs.run(main)
