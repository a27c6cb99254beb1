"""Writing files so that a run killed at any moment leaves nothing half-written."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

# In the hidden folder that a folder is filled in: the lock of the process that fills
# it, the new folder, and while they are exchanged the old one.
_LOCK, _NEW, _OLD = "being_filled.lock", "new", "replaced"


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
    with folder_aside(path) as aside:
        yield aside
        if path.exists():
            # A folder cannot be renamed over a full one: step it out of the way first.
            os.rename(path, aside.parent / _OLD)
        os.rename(aside, path)


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
    with folder_aside(parent / "new") as aside:
        numbered = NumberedFolder(aside)
        yield numbered
        while numbered.path is None:
            path = parent / str(next_number(parent))
            try:
                os.rename(aside, path)  # never over a folder with content
                numbered.path = path
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise


@contextlib.contextmanager
def folder_aside(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Make an empty folder beside `path`, on the same disk, to be filled and renamed.

    It lies in a hidden folder that this process locks and deletes in the end. A process
    that is killed loses its lock: the next call for the same `path` deletes what it
    left.

    Yields:
        The folder to be filled.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, f".{glob.escape(path.name)}.*")
    holder, lock = _locked_folder(path)
    with lock:
        try:
            yield holder / _NEW
        finally:
            _clear(holder)


def sweep(parent: str | os.PathLike, pattern: str) -> None:
    """Delete what killed processes left of the folders that `folder_aside` made.

    Args:
        parent: The folder to look in; it need not exist.
        pattern: Names to look at, such as `.step-*`. Folders of living processes stay,
            and so does everything on a file system that has no locks.
    """
    for holder in pathlib.Path(parent).glob(pattern):
        with contextlib.suppress(OSError), open(holder / _LOCK, "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _clear(holder)


def _locked_folder(path: pathlib.Path) -> tuple[pathlib.Path, IO[bytes]]:
    """Make a hidden folder with a lock, which is held, and an empty folder `_NEW`."""
    while True:
        holder = pathlib.Path(
            tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
        )
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(open(holder / _LOCK, "wb"))
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(lock, fcntl.LOCK_EX)
                os.mkdir(holder / _NEW)
            except FileNotFoundError:
                continue  # swept by another process before it was locked
            except BaseException:
                shutil.rmtree(holder, ignore_errors=True)
                raise
            stack.pop_all()
            return holder, lock


def _clear(holder: pathlib.Path) -> None:
    """Delete a folder that `_locked_folder` made, but first put back what it replaced.

    Where that fails too, everything stays, for a person to find.
    """
    path = holder.parent / holder.name[1:].rpartition(".")[0]
    if (holder / _OLD).exists() and not path.exists():
        os.rename(holder / _OLD, path)
    for part in (_NEW, _OLD, ""):  # the lock last: without it nobody may sweep the rest
        shutil.rmtree(holder / part, ignore_errors=True)


def sha256_of(*paths: str | os.PathLike) -> str:
    """Return the hexadecimal SHA-256 over the contents of the files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


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
