"""Translate lines with an exported model, using only TensorFlow.

    python -I export/run_saved_model.py --saved_model=runs/quickstart/export/1 \
        --input=runs/quickstart/data/test.source --sample=5

Prints each line and, below it, its translation and score. Imports TensorFlow and
TensorFlow Text (whose operators split text into subwords), and nothing from this
project, so this program can be copied anywhere.
"""

import argparse
import contextlib
import gzip
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator

# 3: TensorFlow's C++ code prints only fatal errors. 0 shows all messages, such as an
# ERROR on machines without a GPU.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# On some x86 CPUs, TensorFlow's faster matrix products are off by default.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@contextlib.contextmanager
def without_notices() -> Iterator[None]:
    """Hide messages that TensorFlow 2.21 prints at import despite the log level.

    Standard error goes through `sed`, a process of its own, so other lines are printed
    even if the import crashes this process.
    """
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] != "3" or sys.stderr is None:
        yield
        return
    notices = "/^WARNING: All log messages before absl::|^[IWE][0-9]{4} /d"
    stderr = os.dup(2)
    with subprocess.Popen(
        ["sed", "-E", notices],
        stdin=subprocess.PIPE,
        stdout=stderr,
        start_new_session=True,  # so that Ctrl-C does not stop `sed`
    ) as sed:
        os.dup2(sed.stdin.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


with without_notices():
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the operators of the vocabulary

SIGNATURE = "serving_default"


def load_signature(saved_model: str):
    """Load the signature `serving_default` of an exported model.

    Raises:
        FileNotFoundError: If the folder contains no SavedModel.
        ValueError: If it cannot be loaded, or has no signature `serving_default`.
    """
    if not (pathlib.Path(saved_model) / "saved_model.pb").is_file():
        raise FileNotFoundError(
            f"No saved_model.pb in {saved_model}. Give the folder with the version "
            "number, EXPORT_DIR/1; export/export_saved_model.py makes it."
        )
    try:
        with tempfile.TemporaryDirectory() as links:
            # TensorFlow would take a path with `[ ] * ? \` for a pattern.
            link = pathlib.Path(links) / "model"
            link.symlink_to(pathlib.Path(saved_model).resolve())
            signatures = tf.saved_model.load(str(link)).signatures
    except Exception as error:  # each kind of damage raises another exception
        raise ValueError(
            f"The model in {saved_model} cannot be loaded, perhaps because a file is "
            f"missing or damaged: {str(error).splitlines()[0]}"
        ) from error
    if SIGNATURE not in signatures:
        raise ValueError(
            f"The model in {saved_model} must have the signature {SIGNATURE!r}. "
            f"Received: {', '.join(sorted(signatures)) or 'none'}."
        )
    return signatures[SIGNATURE]


def read_lines(path: str, sample: int | None) -> list[str]:
    """Return the lines of a file (also .gz): all, or `sample` of them, evenly spaced.

    A byte order mark and carriage returns at line ends are dropped.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is empty, not valid UTF-8 or a damaged .gz.
    """
    if not pathlib.Path(path).exists():
        raise FileNotFoundError(f"No file {path}. Check --input.")
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a complete .gz file: {error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be UTF-8 text. "
            f"Received: {error.reason} at byte {error.start + 1}."
        ) from error
    if not text:
        raise ValueError(f"{path} is empty: there is nothing to translate.")
    # Split at line feeds only, not at Unicode's other line separators.
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    if sample is None or sample >= len(lines):
        return lines
    return [lines[index * len(lines) // sample] for index in range(sample)]


def translate(
    signature, lines: list[str], batch_size: int
) -> list[tuple[str, float, bool]]:
    """Return the translation and score of each line, and whether the line was cut."""
    translated = []
    for start in range(0, len(lines), batch_size):
        outputs = signature(text=tf.constant(lines[start : start + batch_size]))
        texts = [text.decode("utf-8") for text in outputs["translation"].numpy()]
        others = (outputs[name].numpy().tolist() for name in ("score", "truncated"))
        translated += zip(texts, *others, strict=True)
    return translated


def positive_int(text: str) -> int:
    """Parse the value of a flag that must be at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, received {value}")
    return value


def main(arguments: list[str]) -> int:
    """Translate and print; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--saved_model", required=True, help="exported folder, with its version number"
    )
    parser.add_argument(
        "--input", required=True, help="text file (also .gz), one sentence per line"
    )
    parser.add_argument(
        "--sample",
        type=positive_int,
        help="translate this number of evenly spaced lines; default: all",
    )
    parser.add_argument(
        "--batch_size", type=positive_int, default=32, help="sentences per batch"
    )
    flags = parser.parse_args(arguments)
    if sys.stdout is None:
        print(f"{parser.prog}: standard output is closed.", file=sys.stderr)
        return 1
    try:
        lines = read_lines(flags.input, flags.sample)
        signature = load_signature(flags.saved_model)
        translated = translate(signature, lines, flags.batch_size)
        for line, (translation, score, _) in zip(lines, translated, strict=True):
            print(f"{line}\n  -> {translation}  ({score:.3f})")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output is gone
        _drop_output()
        return 128 + signal.SIGPIPE
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        _drop_output()
        return 1
    if num_cut := sum(is_cut for _, _, is_cut in translated):
        print(
            f"{num_cut} of {len(lines)} lines were cut to the model's limit.",
            file=sys.stderr,
        )
    return 0


def _drop_output() -> None:
    """Prevent Python from writing unwritable output again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
