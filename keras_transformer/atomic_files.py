"""Atomic writes: a process killed at any moment leaves no partial file or folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import pathlib
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

# Contents of the hidden folder in which a folder is filled: the lock of the process
# that fills it, the new folder, and during the exchange the old one.
_LOCK, _NEW, _OLD = "being_filled.lock", "new", "replaced"
_PATTERN = re.compile(r"[\[\]*?\\]")
# Streams of this process, which may be files that others write to.
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def atomic_write(path: str | os.PathLike, data: bytes | str) -> None:
    """Write a temporary file, then rename it: readers see the old file or the new one.

    Args:
        path: The file, as in `open_whole`.
        data: The content; text is written as UTF-8.

    Raises:
        OSError: If the disk is full or the folder cannot be written; the old file
            stays.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    with naming(path), open_whole(path) as file:
        file.write(content)


@contextlib.contextmanager
def open_whole(
    path: str | os.PathLike, *, keep_partial: bool = False
) -> Iterator[BinaryIO]:
    """Open a temporary file for writing, which is renamed to `path` at the end.

    Links are followed, and a file keeps its owner and permissions. A path that is not a
    regular file, such as a FIFO or a device, is written directly.

    Args:
        path: The file; its folder is made if absent.
        keep_partial: Write to `path`.partial, over what is there of an earlier run, and
            keep it if the block raises, unless it is empty. Otherwise the temporary
            file is deleted.

    Yields:
        The temporary file; its `name` is its path.

    Raises:
        OSError: If the file cannot be written, or another program is writing the same
            `path`.partial; the old file stays.
    """
    check_is_local(path)
    if is_written_directly(path):
        number = _STREAMS.get(os.fspath(path))
        with _opened(path if number is None else os.dup(number), "wb") as file:
            yield file
        return
    path = pathlib.Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unique = f".{path.name}.{secrets.token_hex(4)}"
    aside = path.with_name(f"{path.name}.partial" if keep_partial else unique)
    old = path.stat() if path.exists() else None
    mode = 0o600 if old else 0o666  # less the umask

    def opener(path, flags):
        return os.open(path, flags | os.O_CREAT, mode)

    with _opened(aside, "r+b", opener=opener) as file:
        _lock(file)
        try:
            if old:
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            yield file
            file.truncate()  # what an earlier run has written beyond
            os.fsync(file.fileno())
            os.replace(aside, path)
        except BaseException:
            if not (keep_partial and os.fstat(file.fileno()).st_size):
                os.unlink(aside)
            raise


def is_written_directly(path: str | os.PathLike) -> bool:
    """Return whether a path is a stream of this process, a FIFO or a device."""
    is_other = os.path.exists(path) and not os.path.isfile(path)
    return is_other or os.fspath(path) in _STREAMS


@contextlib.contextmanager
def naming(path: str | os.PathLike | None) -> Iterator[None]:
    """Add `path`, unless None, to errors of the operating system that name no file."""
    try:
        yield
    except OSError as error:
        if path is not None and error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Fill a temporary folder, then rename it to `path`; on an error it is deleted.

    A folder already at `path` is replaced when the new one is complete. Links are
    followed, and a folder keeps its permissions.

    Yields:
        The folder to fill, beside `path` and on the same disk.

    Raises:
        NotADirectoryError: If `path` is a file.
        OSError: If the folder cannot be written.
    """
    check_folder(path)
    path = pathlib.Path(os.path.realpath(path))
    with folder_aside(path) as aside:
        yield aside
        if path.exists():
            shutil.copymode(path, aside)
            # A folder cannot be renamed over one with content, so that one moves first.
            os.rename(path, aside.parent / _OLD)
        os.rename(aside, path)


def check_folder(path: str | os.PathLike) -> None:
    """Raise unless `path` is or can be a folder.

    Raises:
        NotADirectoryError: If `path` exists and is not a folder.
        ValueError: If it is a URL.
    """
    check_is_local(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise NotADirectoryError(
            f"{path} is a file, but a folder is needed: give another path."
        )


def check_is_local(path: str | os.PathLike, name: str = "The path") -> None:
    """Raise ValueError if `path` is a URL, which would become a local folder `gs:`.

    Args:
        path: The path, or any text.
        name: Name of the argument, for the message.
    """
    path = os.fspath(path)
    if not (match := _URL.match(path)):
        return
    if match[1].lower() == "file":
        remedy = f"Give the path without {match[0]}."
    else:
        remedy = (
            f"Mount {match[0]} and give the path there, or copy what is needed to and "
            "from a local path."
        )
    raise ValueError(
        f"{name} must be a path of this machine. {remedy} Received: {path}"
    )


@contextlib.contextmanager
def without_pattern(folder: str | os.PathLike) -> Iterator[str]:
    """Yield a path of a folder that TensorFlow does not take for a pattern.

    It reads checkpoints, also those of a SavedModel, by searching for their path, in
    which `[ ] * ? \\` would be special.

    Yields:
        The path itself, or that of a link which is deleted at the end.
    """
    path = os.fspath(folder)
    if not _PATTERN.search(path):
        yield path
        return
    with tempfile.TemporaryDirectory(dir=_plain_temporary_folder()) as links:
        link = os.path.join(links, "folder")
        os.symlink(os.path.realpath(path), link)
        yield link


def _plain_temporary_folder() -> str:
    folder = tempfile.gettempdir()
    return "/tmp" if _PATTERN.search(folder) else folder


def rename_to_number(
    folder: pathlib.Path,
    parent: pathlib.Path,
    next_number: Callable[[pathlib.Path], int],
) -> pathlib.Path:
    """Rename a folder of `folder_aside` to the next free number; return its path.

    Several processes may do this at the same time; each gets its own number.

    Args:
        folder: The folder, on the same disk as `parent`.
        parent: Folder of the numbered folders.
        next_number: Returns the number to try, given `parent`.
    """
    while True:
        try:
            # Never over a folder with content.
            return folder.rename(parent / str(next_number(parent)))
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


@contextlib.contextmanager
def folder_aside(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Make an empty folder beside `path`, on the same disk, to be filled and renamed.

    It is inside a hidden folder that this process locks and finally deletes. A killed
    process loses its lock, and the next call for the same `path` deletes its folder.

    Yields:
        The folder to fill.
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
    """Delete the folders of `folder_aside` that killed processes left.

    Args:
        parent: The folder to search; it need not exist.
        pattern: Pattern of names, such as `.step-*`. Folders of running processes stay,
            and so does everything on a file system without locks.
    """
    for holder in pathlib.Path(parent).glob(pattern):
        with contextlib.suppress(OSError), open(holder / _LOCK, "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _clear(holder)


def _locked_folder(path: pathlib.Path) -> tuple[pathlib.Path, BinaryIO]:
    """Make a hidden folder with a held lock and an empty folder `_NEW`."""
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
    """Delete a folder of `_locked_folder`, after restoring the folder it replaced.

    If restoring fails, nothing is deleted.
    """
    path = holder.parent / holder.name[1:].rpartition(".")[0]
    if (holder / _OLD).exists() and not path.exists():
        os.rename(holder / _OLD, path)
    for part in (_NEW, _OLD, ""):  # the lock last: `sweep` needs it
        shutil.rmtree(holder / part, ignore_errors=True)


def sha256_of(*paths: str | os.PathLike) -> str:
    """Return the hexadecimal SHA-256 over the contents of the files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def _opened(path, *how, **options) -> Iterator[BinaryIO]:
    with open(path, *how, **options) as file:
        try:
            yield file
        except BaseException:
            file.raw.close()  # a normal close would try to write the buffer again
            raise


def _lock(file: BinaryIO) -> None:
    """Lock a file until it is closed; OSError if another program holds the lock.

    Does nothing on a file system without locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(
            f"Another program is writing {file.name}. Wait for it, or give another "
            "file."
        ) from error
    except OSError:
        pass


def reason(error: Any) -> str:
    """Return the message of a TensorFlow file error, without nodes and file names.

    Args:
        error: A `tf.errors.OpError`.
    """
    return error.message.rsplit("; ", 1)[-1].split(" [Op:")[0]
