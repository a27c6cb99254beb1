"""Text files of sentences, one a line, as programs read and write them."""

from __future__ import annotations

import gzip
import os
import pathlib
import sys
from collections.abc import Sequence

from keras_transformer import files


def read_lines(path: str | os.PathLike | None) -> list[str]:
    """Read a text file, plain or .gz, or standard input for None.

    A line ends at a line feed alone: other separators of Unicode stand within lines.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is no UTF-8; the message names file and line.
    """
    name, lines = read_raw_lines(path)
    return [
        decode_line(line, name, number) for number, line in enumerate(lines, start=1)
    ]


def read_raw_lines(path: str | os.PathLike | None) -> tuple[str, list[bytes]]:
    """Read the lines of a text file as they are; return its name for messages too.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    name = "standard input" if path is None else str(path)
    if path is None:
        content = sys.stdin.buffer.read()
    elif not pathlib.Path(path).is_file():
        raise FileNotFoundError(f"No file {path}.")
    else:
        content = pathlib.Path(path).read_bytes()
        if name.endswith(".gz"):
            content = gzip.decompress(content)
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return name, lines


def write_lines(path: str | os.PathLike | None, lines: Sequence[str]) -> None:
    """Write a text file whole, or to standard output for None."""
    text = "".join(f"{line}\n" for line in lines)
    if path is None:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.flush()
    else:
        files.atomic_write(path, text)


def one_line(text: str) -> str:
    """Return a translation as a line: whatever a model spells, output stays aligned."""
    return text.replace("\r", " ").replace("\n", " ")


def decode_line(line: bytes, name: str, number: int) -> str:
    """Return a line without its line feed as text.

    Args:
        line: As it stands in the file.
        name: Of the file, for the message.
        number: Of the line, from 1.

    Raises:
        ValueError: If it is no UTF-8; the message names file and line.
    """
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number}, is no UTF-8: {error.reason} at byte "
            f"{error.start}. Convert it, for instance with iconv."
        ) from error
