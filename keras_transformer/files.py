"""Writing files so that a run killed at any moment leaves nothing half-written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any


def atomic_write(path: str | os.PathLike, data: bytes | str) -> None:
    """Write a file aside, then rename it: readers see the old file or the new one.

    Args:
        path: The file; its folder is made if it is absent.
        data: The whole content; text is written as UTF-8.

    Raises:
        OSError: If the disk is full or the folder cannot be written; the old file
            stays.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = data.encode("utf-8") if isinstance(data, str) else data
    handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_umask())  # mkstemp makes private files
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Fill a folder aside, then rename it to `path`; on an error it vanishes.

    A folder already at `path` is replaced, and stays until the new one is whole.

    Yields:
        The folder aside, to be filled, beside `path` and on the same disk.
    """
    path = pathlib.Path(path)
    with _aside(path.parent, f".{path.name}.") as aside:
        yield aside
        os.chmod(aside, 0o777 & ~_umask())
        _swap_in(aside, path)


class NumberedFolder:
    """A folder that is being filled aside and gets its number when it is whole."""

    def __init__(self, aside: pathlib.Path):
        self.aside = aside
        # Set when the folder is in its place.
        self.path: pathlib.Path | None = None


@contextlib.contextmanager
def numbered_folder(
    parent: str | os.PathLike, next_number: Callable[[pathlib.Path], int]
) -> Iterator[NumberedFolder]:
    """Fill a folder aside, then rename it to the next free number in `parent`.

    Another process may do the same meanwhile: neither takes the other's number.

    Args:
        parent: Holds the numbered folders; it is made if it is absent.
        next_number: Returns the number to try, given `parent`.

    Yields:
        The folder: fill `aside`; afterwards `path` says where it is.
    """
    parent = pathlib.Path(parent)
    with _aside(parent, ".new.") as aside:
        numbered = NumberedFolder(aside)
        yield numbered
        os.chmod(aside, 0o777 & ~_umask())
        while numbered.path is None:
            path = parent / str(next_number(parent))
            try:
                os.rename(aside, path)  # never over a folder with content
                numbered.path = path
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise


def sha256_of(*paths: str | os.PathLike) -> str:
    """Return the hexadecimal SHA-256 over the contents of the files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def _aside(parent: pathlib.Path, prefix: str) -> Iterator[pathlib.Path]:
    """Make a folder to be filled and renamed in the block; on an error it vanishes."""
    parent.mkdir(parents=True, exist_ok=True)
    aside = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield aside
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _swap_in(aside: pathlib.Path, path: pathlib.Path) -> None:
    if not path.exists():
        os.rename(aside, path)
        return
    # A folder cannot be renamed over a full one: step the old one out of the way first.
    old = pathlib.Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    kept = old / path.name
    try:
        os.rename(path, kept)
        os.rename(aside, path)
    except BaseException:
        if kept.exists():
            os.rename(kept, path)  # where this fails too, the old one stays in `kept`
        old.rmdir()
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def reason(error: Any) -> str:
    """Return what a TensorFlow file error says, without nodes and temporary files.

    Args:
        error: A `tf.errors.OpError`.
    """
    return error.message.rsplit("; ", 1)[-1].split(" [Op:")[0]
