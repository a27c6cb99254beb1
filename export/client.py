"""Translate a file with a TensorFlow Serving server.

    python export/client.py --server=localhost:8500 --model_name=ende \
        --input=test.en --output=test.de

sends batches of lines, several at the same time, over gRPC (--protocol=rest: HTTP).
Translations are written in input order as they arrive, to OUTPUT.partial, which is
renamed to OUTPUT at the end and kept if the program ends early. A batch is sent again
while the server is absent or busy, for up to --deadline_seconds.

Use --signature=parse for a served parser. With --signature=nbest, align or score, each
output line is JSON with all outputs. With --signature=document a line is a paragraph,
whose spaces and line end stay. --protect and --glossary, as in bin/translate.py, also
ask the signature align. Needs the extra `serving`.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import text_files, white_space, wording
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ProtectionFlags, report_guess
from keras_transformer.serving import client, protected_client

_SERVER = flags.DEFINE_string(
    "server", None, "HOST:PORT; TF Serving's own ports are 8500 (gRPC), 8501 (REST)."
)
_PROTOCOL = flags.DEFINE_enum(
    "protocol", "grpc", list(client.PROTOCOLS), "Protocol of the server."
)
_MODEL_NAME = flags.DEFINE_string(
    "model_name", None, "Name of the model on the server."
)
_SIGNATURE = flags.DEFINE_enum(
    "signature",
    "serving_default",
    [*client.TRANSLATION_SIGNATURES, "parse"],
    "Signature of the model.",
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Text file (also .gz), one sentence per line, or with --signature=document one "
    "paragraph; default: standard input.",
)
_SECOND_INPUT = flags.DEFINE_string(
    "second_input",
    None,
    "Text file with the prefix, or the translation to score, of each input line.",
)
_OUTPUT = flags.DEFINE_string("output", None, "Default: standard output.")
_DEADLINE_SECONDS = flags.DEFINE_float(
    "deadline_seconds",
    30.0,
    "Time limit of a batch in seconds, including retries while the server is absent "
    "or busy.",
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Lines per request.")
_CONCURRENCY = flags.DEFINE_integer(
    "concurrency", 4, "Number of requests sent at the same time."
)
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "For --signature=sample.")
_TOP_K = flags.DEFINE_integer("top_k", 0, "For --signature=sample; 0: all tokens.")
_TOP_P = flags.DEFINE_float("top_p", 1.0, "For --signature=sample; 1: all tokens.")
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "For --signature=sample: seed of the first line, plus 1 for each further line.",
)
_LANGUAGES = {
    side: flags.DEFINE_string(
        f"{side}_language",
        None,
        f"For --signature=multilingual: code of the {side} language.",
    )
    for side in ("source", "target")
}
_PROTECTION = ProtectionFlags()
# Signatures that answer with one translation.
_TRANSLATIONS = ("serving_default", "prefix", "sample", "multilingual")
_SECOND_NAMES = {"prefix": "prefix", "score": "target_text"}


def main() -> dict:
    """Send requests, write the answers and return the JSON summary."""
    programs.check_given(_SERVER, _MODEL_NAME)
    programs.check_output(_OUTPUT, _INPUT, _SECOND_INPUT, _PROTECTION.glossary)
    config = client.ClientConfig(
        server=_SERVER.value,
        model_name=_MODEL_NAME.value,
        protocol=_PROTOCOL.value,
        signature=_SIGNATURE.value,
        deadline_seconds=_DEADLINE_SECONDS.value,
        batch_size=_BATCH_SIZE.value,
        concurrency=_CONCURRENCY.value,
    )
    protection = _PROTECTION.read()
    if not protection.is_empty and _SIGNATURE.value not in protected_client.SIGNATURES:
        raise ValueError(
            "--protect and --glossary are for --signature="
            f"{', '.join(protected_client.SIGNATURES)}. Received: --signature="
            f"{_SIGNATURE.value}."
        )
    inputs = read_inputs()
    if _PROTOCOL.value == "grpc":  # its messages are defined by TensorFlow
        startup.import_tensorflow()
    answers, num_cut = ask(config, inputs, protection), 0
    line_end = "" if _SIGNATURE.value == "document" else "\n"
    with (
        text_files.line_writer(_OUTPUT.value, line_end=line_end) as write,
        contextlib.closing(answers),
        programs.needing("serving", "The client"),
    ):
        for answer in answers:
            write([format_answer(answer)])
            num_cut += answer.get("truncated", False)
    text_files.report_cut(num_cut, len(inputs["text"]))
    return {"lines": len(inputs["text"])}


def read_inputs() -> dict[str, list]:
    """Return the inputs of the signature, one item per line."""
    is_document = _SIGNATURE.value == "document"
    texts = text_files.read_lines(_INPUT.value, has_ends=is_document)
    if _SIGNATURE.value in (*_TRANSLATIONS, "nbest"):
        texts = [*map(white_space.without_invisible, texts)]
    inputs: dict[str, list] = {"text": texts}
    second = _SECOND_NAMES.get(_SIGNATURE.value)
    if (second is None) != (_SECOND_INPUT.value is None):
        raise ValueError(
            "--second_input is needed for --signature=prefix and --signature=score, "
            f"and only for them. Received: --signature={_SIGNATURE.value}."
        )
    if second:
        inputs[second] = text_files.read_lines(_SECOND_INPUT.value)
        if len(inputs[second]) != len(texts):
            raise ValueError(
                f"{_SECOND_INPUT.value} has "
                f"{wording.count(len(inputs[second]), 'line')} and the input "
                f"{wording.count(len(texts), 'line')}: line n of both must belong "
                "together."
            )
    is_multilingual = _SIGNATURE.value == "multilingual"
    for flag in _LANGUAGES.values():
        if (flag.value is not None) != is_multilingual:
            raise ValueError(
                f"--{flag.name} is needed for --signature=multilingual, and only for "
                f"it. Received: --signature={_SIGNATURE.value}."
            )
        if is_multilingual:
            inputs[flag.name] = [flag.value] * len(texts)
    if _SIGNATURE.value == "sample":
        inputs["temperature"] = [_TEMPERATURE.value] * len(texts)
        inputs["top_k"] = [_TOP_K.value] * len(texts)
        inputs["top_p"] = [_TOP_P.value] * len(texts)
        inputs["seed"] = [_SEED.value + row for row in range(len(texts))]
    return inputs


def ask(config, inputs, protection):
    """Yield the answer to each line, with what is protected."""
    if protection.is_empty:
        yield from client.ask(config, inputs)
        return
    found = protected_client.find_placeholders(config)
    tokens = protected_client.find_tokens(config, inputs["text"])
    protection = protection.with_placeholders(found, tokens)
    report_guess(protection)
    yield from protected_client.ask(config, inputs, protection)


def format_answer(answer: dict) -> str:
    """Return the translation or tree, or all outputs of other signatures as JSON."""
    if _SIGNATURE.value == "parse":
        return text_files.one_line(answer["tree"])
    if _SIGNATURE.value == "document":
        return answer["translation"]
    if _SIGNATURE.value in _TRANSLATIONS:
        return text_files.one_line(answer["translation"])
    return json.dumps(answer, ensure_ascii=False)


def run() -> None:
    """Run as a console script."""
    programs.run(main, may_be_urls=[_SERVER])


if __name__ == "__main__":
    run()
