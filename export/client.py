"""Translate a file through a TensorFlow Serving server.

    python export/client.py --server=localhost:8500 --model_name=ende \
        --input=test.en --output=test.de

sends lines in batches, several at once, over gRPC (--protocol=rest: HTTP). It writes
the translations in the order of the lines as they come: to OUTPUT.partial, which
becomes OUTPUT at the end and stays if the program ends early. A batch that finds the
server absent or busy is sent again until --deadline_seconds have passed.

--signature=parse asks a served parser for trees. With --signature=nbest, align or score
each line becomes one of JSON with all outputs. Needs the extra `serving`.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import text_files
from keras_transformer.cli import programs, startup
from keras_transformer.serving import client

_SERVER = flags.DEFINE_string(
    "server", None, "HOST:PORT; TF Serving's own ports are 8500 (gRPC), 8501 (REST)."
)
_PROTOCOL = flags.DEFINE_enum(
    "protocol", "grpc", list(client.PROTOCOLS), "How to reach it."
)
_MODEL_NAME = flags.DEFINE_string(
    "model_name", None, "What the server calls the model."
)
_SIGNATURE = flags.DEFINE_enum(
    "signature",
    "serving_default",
    ["serving_default", "nbest", "prefix", "sample", "align", "score", "parse"],
    "What to ask for.",
)
_INPUT = flags.DEFINE_string(
    "input", None, "Text file, one sentence a line; .gz too; default: standard input."
)
_SECOND_INPUT = flags.DEFINE_string(
    "second_input", None, "Line by line the prefixes, or the translations to score."
)
_OUTPUT = flags.DEFINE_string("output", None, "Default: standard output.")
_DEADLINE_SECONDS = flags.DEFINE_float(
    "deadline_seconds",
    30.0,
    "For each batch, from the first attempt to the answer; while the server is absent "
    "or busy it is asked again.",
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Lines in a request.")
_CONCURRENCY = flags.DEFINE_integer("concurrency", 4, "Requests at once.")
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "For --signature=sample.")
_TOP_K = flags.DEFINE_integer("top_k", 0, "For --signature=sample; 0: all tokens.")
_TOP_P = flags.DEFINE_float("top_p", 1.0, "For --signature=sample; 1: all tokens.")
_SEED = flags.DEFINE_integer(
    "seed", 0, "For --signature=sample, of the first line; each next line has one more."
)
_SECOND_NAMES = {"prefix": "prefix", "score": "target_text"}


def main() -> dict:
    """Ask, write the answers and return the JSON summary."""
    programs.check_given(_SERVER, _MODEL_NAME)
    config = client.ClientConfig(
        server=_SERVER.value,
        model_name=_MODEL_NAME.value,
        protocol=_PROTOCOL.value,
        signature=_SIGNATURE.value,
        deadline_seconds=_DEADLINE_SECONDS.value,
        batch_size=_BATCH_SIZE.value,
        concurrency=_CONCURRENCY.value,
    )
    inputs = read_inputs()
    if _PROTOCOL.value == "grpc":  # whose messages are TensorFlow's
        startup.import_tensorflow()
    answers, num_cut = client.ask(config, inputs), 0
    with text_files.line_writer(_OUTPUT.value) as write, contextlib.closing(answers):
        try:
            for answer in answers:
                write([format_answer(answer)])
                num_cut += answer.get("truncated", False)
        except ModuleNotFoundError as error:
            raise ValueError(
                f"The client needs {error.name}: install keras_transformer[serving]."
            ) from error
    text_files.report_cut(num_cut, len(inputs["text"]))
    return {"lines": len(inputs["text"])}


def read_inputs() -> dict[str, list]:
    """Return the inputs of the signature, one item a line."""
    texts = text_files.read_lines(_INPUT.value)
    inputs: dict[str, list] = {"text": texts}
    second = _SECOND_NAMES.get(_SIGNATURE.value)
    if (second is None) != (_SECOND_INPUT.value is None):
        raise ValueError(
            "--second_input goes with --signature=prefix and --signature=score, which "
            f"need it. Received: --signature={_SIGNATURE.value}."
        )
    if second:
        inputs[second] = text_files.read_lines(_SECOND_INPUT.value)
        if len(inputs[second]) != len(texts):
            raise ValueError(
                f"{_SECOND_INPUT.value} has {len(inputs[second])} lines and the input "
                f"{len(texts)}: they must belong together line by line."
            )
    if _SIGNATURE.value == "sample":
        inputs["temperature"] = [_TEMPERATURE.value] * len(texts)
        inputs["top_k"] = [_TOP_K.value] * len(texts)
        inputs["top_p"] = [_TOP_P.value] * len(texts)
        inputs["seed"] = [_SEED.value + row for row in range(len(texts))]
    return inputs


def format_answer(answer: dict) -> str:
    """Return the translation or tree, or all outputs as JSON where there are more."""
    if _SIGNATURE.value == "parse":
        return text_files.one_line(answer["tree"])
    if _SIGNATURE.value in ("serving_default", "prefix", "sample"):
        return text_files.one_line(answer["translation"])
    return json.dumps(answer, ensure_ascii=False)


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
