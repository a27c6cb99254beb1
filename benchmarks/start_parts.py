"""What bin/translate.py spends its first seconds on; benchmarks/startup.py runs it.

    echo "1 2 3" | python benchmarks/start_parts.py model_dir runs/my

translates standard input as bin/translate.py does, and prints the seconds of each part
as one line of JSON.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer import text_files
from keras_transformer.cli import startup


class Parts:
    """Seconds of the parts of a process, one after the other.

    Args:
        began: Of `time.monotonic`: when the first part did.

    Attributes:
        seconds: By the names of the parts.
    """

    def __init__(self, began: float):
        self.seconds: dict[str, float] = {}
        self._began = began

    def end(self, name: str) -> None:
        """End a part; the next one begins."""
        now = time.monotonic()
        self.seconds[name] = measure.rounded(now - self._began)
        self._began = now


def of_model_dir(folder: str, lines: list[str], parts: Parts) -> None:
    """Time the parts with a trained model."""
    from keras_transformer.runs.model_dir import ModelDir

    parts.end("imports_s")
    translator = ModelDir(folder).load_translator().with_prepared_weights()
    parts.end("load_s")
    translator.translate_batch.get_concrete_function()
    parts.end("trace_s")
    _answer_twice(lambda: translator.translate(lines), parts)


def of_saved_model(folder: str, lines: list[str], parts: Parts) -> None:
    """Time the parts with an exported model."""
    from keras_transformer.inference.translator import translate_in_batches
    from keras_transformer.serving import saved_model

    parts.end("imports_s")
    translate_batch = saved_model.load(folder)
    parts.end("load_s")
    _answer_twice(lambda: translate_in_batches(lines, 1, translate_batch), parts)


def _answer_twice(answer, parts):
    answer()
    parts.end("first_call_s")
    answer()
    parts.end("later_call_s")


def main(kind: str, folder: str) -> None:
    """Translate standard input and print the parts."""
    parts = Parts(float(os.environ.get("STARTED_AT", time.monotonic())))
    lines = text_files.read_lines(None)
    startup.import_tensorflow()
    # As bin/translate.py does.
    from keras_transformer.inference import batching, cpu_threads

    run = {"model_dir": of_model_dir, "saved_model": of_saved_model}[kind]
    with (
        cpu_threads.threads_for_few_sentences(len(lines)),
        batching.without_graph_optimizer(len(lines)),
    ):
        run(folder, lines, parts)
    print(json.dumps(parts.seconds), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
