"""How long do the parts of the start of bin/translate.py take?

    echo "1 2 3" | python benchmarks/start_parts.py model_dir runs/my

translates standard input the same as bin/translate.py, and prints the seconds of each
part as one line of JSON. benchmarks/startup.py runs it.
"""

from __future__ import annotations

import argparse
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
    """Times the consecutive parts of a process.

    Args:
        began: Start of the first part, from `time.monotonic`.

    Attributes:
        seconds: Seconds by the name of the part.
    """

    def __init__(self, began: float):
        self.seconds: dict[str, float] = {}
        self._began = began

    def end(self, name: str) -> None:
        """End a part and start the next one."""
        now = time.monotonic()
        self.seconds[name] = measure.rounded(now - self._began)
        self._began = now


def of_model_dir(folder: str, lines: list[str], parts: Parts) -> None:
    """Time the parts with a trained model."""
    from keras_transformer import opening
    from keras_transformer.opening import of_run  # noqa: F401  imported when needed

    parts.end("imports_s")
    translator = opening.open_model(folder).searcher
    parts.end("load_s")
    translator._translate_batch.get_concrete_function()
    parts.end("trace_s")
    _answer_twice(lambda: translator.translate(lines), parts)


def of_saved_model(folder: str, lines: list[str], parts: Parts) -> None:
    """Time the parts with an exported model."""
    from keras_transformer import opening
    from keras_transformer.translation.pipeline import translate_in_batches

    parts.end("imports_s")
    translate_batch = opening.open_model(folder).run_batch
    parts.end("load_s")
    _answer_twice(lambda: translate_in_batches(lines, 1, translate_batch), parts)


def _answer_twice(answer, parts):
    answer()
    parts.end("first_call_s")
    answer()
    parts.end("later_call_s")


KINDS = {"model_dir": of_model_dir, "saved_model": of_saved_model}


def main() -> None:
    """Translate standard input and print the seconds of the parts."""
    parts = Parts(float(os.environ.get("STARTED_AT", time.monotonic())))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS, help="kind of the model")
    parser.add_argument("folder", help="model_dir, or EXPORT_DIR/VERSION")
    arguments = parser.parse_args()
    run, folder = KINDS[arguments.kind], arguments.folder
    lines = text_files.read_lines(None)
    startup.import_tensorflow()
    # Same as bin/translate.py.
    from keras_transformer.inference import cpu_threads, graph_optimizer

    with (
        cpu_threads.threads_for_few_sentences(len(lines)),
        graph_optimizer.disabled_for(len(lines)),
    ):
        run(folder, lines, parts)
    print(json.dumps(parts.seconds), flush=True)


if __name__ == "__main__":
    main()
