"""A lock that allows one training at a time in a model_dir."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import socket
from collections.abc import Callable, Iterator

FILE_NAME = ".training.lock"


class LockedError(OSError):
    """Another process trains in this folder."""


@contextlib.contextmanager
def held(
    model_dir: str | os.PathLike, write: Callable[[str], None] = print
) -> Iterator[bool]:
    """Keep other trainings out of a folder during the block; readers are not affected.

    The kernel releases the lock when this process ends, also after SIGKILL. The lock
    file stays and names the process that held the lock last.

    Args:
        model_dir: The folder; it is made if absent.
        write: Takes a warning if the file system has no locks.

    Yields:
        Whether the lock is held; False if the file system has no locks.

    Raises:
        LockedError: If another process holds it.
        OSError: If the folder cannot be written.
    """
    folder = pathlib.Path(model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    # Python closes its files when it executes a program, so a child process does not
    # keep the lock.
    with open(folder / FILE_NAME, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(folder) from None
        except OSError as error:
            write(
                f"{folder} is on a file system without locks ({error.strerror}): "
                "make sure that no second training runs there."
            )
            yield False
            return
        file.truncate(0)
        file.write(f"process {os.getpid()} on host {socket.gethostname()}")
        file.flush()
        yield True


def refusal(model_dir: str | os.PathLike) -> LockedError:
    """Return the error that says which process trains in a folder."""
    holder = (pathlib.Path(model_dir) / FILE_NAME).read_text(encoding="utf-8")
    return LockedError(
        f"{model_dir} is in use: {holder or 'another process'} trains there. Wait "
        "until it ends, stop it, or use another --model_dir."
    )
