"""Text files of lines, as programs read and write them."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import os
import pathlib
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, AnyStr, BinaryIO

from keras_transformer import atomic_files

_SECONDS_BETWEEN_PROGRESS = 10
# UTF-16 shows in these, whatever language they are in.
_LINES_WITH_MARKS_OF_UTF_16 = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Argument of zlib for files with a header of gzip.
_GZIP = 16 + zlib.MAX_WBITS
_LINE_ENDS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")


def read_lines(path: str | os.PathLike | None, *, has_ends: bool = False) -> list[str]:
    """Read a text file, plain or .gz, or standard input for None.

    Lines end at a line feed, with or without a carriage return before it; Unicode's
    other line separators are ordinary characters. A byte order mark is dropped.

    Args:
        path: The file.
        has_ends: Keep line ends and the byte order mark.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not valid UTF-8, or a .gz file is damaged; the message
            names the file.
        OSError: If the file or standard input cannot be read.
    """
    name, lines = read_raw_lines(path, has_ends=has_ends)
    return [
        decode_line(line, name, number, has_end=has_ends)
        for number, line in enumerate(lines, start=1)
    ]


def read_pairs(
    source: str | os.PathLike, target: str | os.PathLike
) -> tuple[list[str], list[str]]:
    """Read two text files; line n of one translates line n of the other.

    Args:
        source: As the path of `read_lines`, whose errors are raised too.
        target: The other file.

    Raises:
        ValueError: If they differ in their number of lines.
    """
    sources, targets = map(read_lines, (source, target))
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} has {len(targets)}: line "
            "n of one must translate line n of the other."
        )
    return sources, targets


class StoredLines:
    """The lines of a text file, as in `read_lines`, but left on the disk.

    They are read each time they are iterated, by one iterator at a time. Standard input
    and pipes are copied to a temporary file.

    Args:
        path: The file, plain or .gz; None: standard input.
        has_ends: Keep line ends and the byte order mark.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not valid UTF-8, or a .gz file is damaged; the message
            names the file.
        OSError: If the file or standard input cannot be read.
    """

    def __init__(self, path: str | os.PathLike | None, *, has_ends: bool = False):
        self._name = "standard input" if path is None else str(path)
        self._path, self._has_ends = path, has_ends
        self._copy: BinaryIO | None = None
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115  closed with this
            weakref.finalize(self, self._copy.close)
            self._copy.writelines(iterate_lines(path, has_ends=True))
        self._num_lines = sum(1 for _ in self._decoded())

    def __len__(self) -> int:
        return self._num_lines

    def __iter__(self) -> Iterator[str]:
        number = 0
        for number, line in enumerate(self._decoded(), start=1):
            if number > self._num_lines:
                break
            yield line
        if number != self._num_lines:
            raise OSError(f"{self._name} has changed while it was read. Begin again.")

    def _decoded(self) -> Iterator[str]:
        if self._copy is not None:
            self._copy.seek(0)
        lines = self._copy or iterate_lines(self._path, has_ends=True)
        for number, line in enumerate(lines, start=1):
            yield decode_line(line, self._name, number, has_end=self._has_ends)


def read_raw_lines(
    path: str | os.PathLike | None, *, has_ends: bool = False
) -> tuple[str, list[bytes]]:
    """Return a name for messages, and the lines as in `iterate_lines`."""
    name = "standard input" if path is None else str(path)
    return name, list(iterate_lines(path, has_ends=has_ends))


def iterate_lines(
    path: str | os.PathLike | None, *, has_ends: bool = False
) -> Iterator[bytes]:
    """Yield the lines of a text file, plain or .gz, or of standard input for None.

    They come as bytes, without line ends and without a byte order mark unless
    `has_ends`.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a .gz file is damaged, or the text is in UTF-16 or UTF-32.
        OSError: If the file or standard input cannot be read.
    """
    try:
        with _opened_to_read(path) as file:
            for number, line in enumerate(file, start=1):
                check_not_utf_16(line, path, number)
                yield line if has_ends else strip_line(line, number)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} is not a complete gzip file: {error}. Compress it again, or "
            "rename it without .gz if it is plain text."
        ) from error


def check_not_utf_16(line: bytes, path: str | os.PathLike | None, number: int) -> None:
    """Check one of a file's first lines for the marks and the NULs of UTF-16.

    Args:
        line: The line as in the file.
        path: The file; None: standard input.
        number: Its number, from 1.

    Raises:
        ValueError: If the line is in UTF-16 or UTF-32.
    """
    if number > _LINES_WITH_MARKS_OF_UTF_16:
        return
    has_mark = number == 1 and line.startswith(
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    )
    # All but a few characters of most languages have a NUL for each other byte.
    if has_mark or line.count(b"\0") > max(len(line) // 4, 1):
        name = "standard input" if path is None else path
        raise ValueError(
            f"{name}, line {number}, is in UTF-16 or UTF-32. Convert it to UTF-8, for "
            "instance with iconv --from-code=UTF-16 --to-code=UTF-8."
        )


def strip_line(line: bytes, number: int) -> bytes:
    """Return a line without its end and, for line 1, without a byte order mark.

    Args:
        line: The line as in the file.
        number: Its number, from 1.
    """
    return line.removeprefix(_BYTE_ORDER_MARK if number == 1 else b"").rstrip(b"\r\n")


def decode_line(line: bytes, name: str, number: int, *, has_end: bool = False) -> str:
    """Return a line as text, stripped as in `strip_line`.

    Args:
        line: The line as in the file.
        name: Name of the file, for the message.
        number: Number of the line, from 1.
        has_end: Do not strip it.

    Raises:
        ValueError: If it is not valid UTF-8; the message names file and line.
    """
    try:
        return (line if has_end else strip_line(line, number)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number}, is not valid UTF-8: {error.reason} at byte "
            f"{error.start + 1}. Convert it, for instance with iconv."
        ) from error


def write_lines(path: str | os.PathLike | None, lines: Iterable[str]) -> None:
    """Write a text file as `write_text`, or standard output for None."""
    if path is None:
        with line_writer(None) as write:
            write(lines)
    else:
        write_text(path, "".join(f"{line}\n" for line in lines))


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file atomically, compressed if it is called .gz."""
    encode = _encoder(path)
    atomic_files.atomic_write(path, encode(text) + encode(None))


@contextlib.contextmanager
def line_writer(
    path: str | os.PathLike | None, line_end: str = "\n", *, keep_rest: bool = False
) -> Iterator[Callable[[Iterable[str]], None]]:
    """Write a text file step by step, or standard output for None.

    Open it before long work, so that a path that cannot be written is refused at once.

    Lines go to `path`.partial, compressed if `path` is called .gz. It is renamed to
    `path` when the block ends. If the block raises, `path`.partial keeps the lines so
    far, and a note of the error says so.

    Args:
        path: The file; its folder is made if absent.
        line_end: Written after each line.
        keep_rest: What an earlier run has written to `path`.partial stays until lines
            are written over it; otherwise it goes with the first lines.

    Yields:
        A function that writes lines and flushes them.

    Raises:
        OSError: If the file or standard output cannot be written.
    """
    num_lines = 0
    encode = _encoder(path)

    def write(lines):
        nonlocal num_lines
        if not (lines := list(lines)):
            return
        with atomic_files.naming(path):
            file.write(encode("".join(f"{line}{line_end}" for line in lines)))
            if is_aside and not keep_rest:
                file.truncate()
            file.flush()
        num_lines += len(lines)

    is_aside = path is not None and not atomic_files.is_written_directly(path)
    with _opened_to_write(path) as file:
        try:
            yield write
            with atomic_files.naming(path):
                file.write(encode(None))
        except BaseException as error:
            if num_lines and is_aside:
                error.add_note(f"{file.name} keeps the first {num_lines} lines.")
            raise


def _encoder(path: str | os.PathLike | None) -> Callable[[str | None], bytes]:
    """Return a function that encodes the texts of a file in order, None for its end."""
    if not is_compressed(path):
        return lambda text: b"" if text is None else text.encode("utf-8")
    compressor = zlib.compressobj(wbits=_GZIP)

    def encode(text):
        if text is None:
            return compressor.flush()
        # So that all of it can be read before the end is written.
        return compressor.compress(text.encode("utf-8")) + compressor.flush(
            zlib.Z_SYNC_FLUSH
        )

    return encode


def is_compressed(path: str | os.PathLike | None) -> bool:
    """Return whether a text file is compressed, by its name, .gz or .GZ."""
    return path is not None and os.fspath(path).lower().endswith(".gz")


def report_cut(num_cut: int, num_texts: int, limit: int | None = None) -> None:
    """Say on standard error that sources were cut, if any were.

    Args:
        num_cut: Number of sources that were cut.
        num_texts: Number of sources.
        limit: Most tokens that the model reads of a source; None: unknown.
    """
    if num_cut:
        tokens = "" if limit is None else f" of {limit:,} tokens"
        print(
            f"{num_cut:,} of {num_texts:,} sources were cut to the model's limit"
            f"{tokens}. Divide long lines.",
            file=sys.stderr,
        )


def report_looped(num_looped: int, num_texts: int) -> None:
    """Say on standard error that translations repeat themselves, if any do."""
    if num_looped:
        print(
            f"{num_looped:,} of {num_texts:,} translations repeat a phrase four times "
            "in a row or more. --max_repetitions=3 forbids it (for an export, when it "
            "is made).",
            file=sys.stderr,
        )


def progress(num_lines: int) -> Any:
    """Return a tqdm bar for lines, silent for the first ten seconds.

    Then it prints every ten seconds to standard error how many lines are done and how
    long the rest takes.
    """
    import tqdm

    return tqdm.tqdm(
        total=num_lines,
        unit=" lines",
        delay=_SECONDS_BETWEEN_PROGRESS,
        mininterval=_SECONDS_BETWEEN_PROGRESS,
        smoothing=0,  # lines come sorted by length
    )


def one_line(text: AnyStr) -> AnyStr:
    """Replace line ends inside a sentence by spaces, so that it fits on one line."""
    if isinstance(text, bytes):
        return text.translate(_LINE_ENDS_TO_SPACES)
    return text.replace("\r", " ").replace("\n", " ")


def _opened_to_read(path) -> contextlib.AbstractContextManager[BinaryIO]:
    if path is None:
        if sys.stdin is None:
            raise OSError("Standard input is closed. Give a file to read instead.")
        return contextlib.nullcontext(sys.stdin.buffer)
    if not pathlib.Path(path).exists():
        raise FileNotFoundError(f"No file {path}.")
    return (gzip.open if is_compressed(path) else open)(path, "rb")


def _opened_to_write(path) -> contextlib.AbstractContextManager[BinaryIO]:
    if path is not None:
        return atomic_files.open_whole(path, keep_partial=True)
    if sys.stdout is None:
        raise OSError("Standard output is closed. Give a file to write instead.")
    sys.stdout.flush()
    return contextlib.nullcontext(sys.stdout.buffer)
