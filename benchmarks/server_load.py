"""How many users does export/serve.py bear, and does each get the right answer?

    python benchmarks/server_load.py --model_dir=runs/quickstart/model \
        --input=runs/quickstart/data/test.source

starts the server on a free port of this machine and translates the first --texts lines
one by one, which gives the right answers and the rate without batches. Then --users
users send lines drawn at random, each the next as soon as it has an answer, for
--seconds, and for a quarter of it to a server with room for few texts. Every answer is
compared. Prints a line of JSON for each; keys are in benchmarks/README.md.
Needs the extras server and load.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import latencies, measure
from benchmarks.lib.served_program import served, translated
from keras_transformer import text_files
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags

_INPUT = flags.DEFINE_string("input", None, "Text file, one sentence a line.")
_TEXTS = flags.DEFINE_integer("texts", 500, "Lines to send.", lower_bound=1)
_USERS = flags.DEFINE_integer("users", 200, "Users at the same time.", lower_bound=1)
_SECONDS = flags.DEFINE_integer("seconds", 120, "Length of the load.", lower_bound=1)
_SERVER = flags.DEFINE_string(
    "server", "", "Flags of export/serve.py for the first load, in one string."
)
_MODEL = ModelFlags()

_ROOT = pathlib.Path(__file__).resolve().parents[1]
# A server that is overloaded by more users than this.
_LITTLE_ROOM = ["--max_queued_texts=20", "--max_texts=20"]
# How long the overload takes, in lengths of the first load.
_SHARE_OF_OVERLOAD = 0.25
_PATIENCE_SECONDS = 120.0


def main() -> list[dict]:
    """Run the loads and print."""
    programs.check_given(_MODEL.model_dir, _INPUT)
    with programs.needing("load", "benchmarks/server_load.py"):
        _check_locust()
    startup.import_tensorflow()
    environment = measure.environment("float32")
    texts = text_files.read_lines(_INPUT.value)[: _TEXTS.value]
    results, model = [], f"--model_dir={_MODEL.model_dir.value}"
    with tempfile.TemporaryDirectory() as name:
        expected = pathlib.Path(name) / "expected.json"
        with served(model, *_SERVER.value.split()) as (server, address):
            one_by_one = translate_one_by_one(address, texts, expected)
            loaded = load(address, expected, _SECONDS.value)
            loaded["peak_megabytes"] = _peak_megabytes(server)
        results.append({"load": "one by one", **one_by_one})
        results.append({"load": f"{_USERS.value} users", **loaded})
        with served(model, *_LITTLE_ROOM) as (server, address):
            overloaded = load(address, expected, _SHARE_OF_OVERLOAD * _SECONDS.value)
            overloaded["peak_megabytes"] = _peak_megabytes(server)
        results.append({"load": "overload", **overloaded})
    for result in results:
        measure.write_line(benchmark="server_load", **result, **environment)
    return results


def _check_locust() -> None:
    """Raise ModuleNotFoundError without Locust, which patches what imports it."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('locust') is None)"
    if subprocess.run([sys.executable, "-c", code], check=False).returncode:
        raise ModuleNotFoundError("No module named 'locust'", name="locust")


def translate_one_by_one(address, texts, expected: pathlib.Path) -> dict:
    """Translate texts one after the other and write the answers to a file."""
    seconds, answers = [], {}
    for text in texts:
        began = time.perf_counter()
        (answers[text],) = translated(*address, [text], _PATIENCE_SECONDS)
        seconds.append(time.perf_counter() - began)
    expected.write_text(json.dumps(answers), encoding="utf-8")
    return {
        "right": len(seconds),
        "texts_per_s": measure.rounded(len(seconds) / sum(seconds)),
        **latencies.percentiles(seconds),
    }


def load(address, expected: pathlib.Path, seconds: float) -> dict:
    """Let Locust's users send the texts; return what they got."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "locust", "--headless", "--json", "--only-summary"),
            *("--locustfile", _ROOT / "benchmarks" / "lib" / "load_users.py"),
            *("--host", "http://{}:{}".format(*address)),
            *("--users", str(_USERS.value), "--spawn-rate", str(_USERS.value)),
            *("--run-time", f"{seconds:.0f}s", "--stop-timeout", "60"),
        ],
        env={**os.environ, "TEXTS_JSON": str(expected)},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        statistics = json.loads(ended.stdout[ended.stdout.index("[") :])
    except ValueError as error:
        raise RuntimeError(f"Locust failed: {ended.stderr[-500:]}") from error
    return latencies.of_locust(statistics)


def _peak_megabytes(server: subprocess.Popen) -> int:
    return round(measure.memory_kib(process=server.pid) * 1024 / 1e6)


if __name__ == "__main__":
    programs.run(main, may_be_urls=[_SERVER])
