"""One training at a time in a folder, until its process dies."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys

import pytest

from keras_transformer.runs import lock

HOLD = """
import subprocess, sys
from keras_transformer.runs import lock
with lock.held(sys.argv[1]):
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    print(child.pid, flush=True)
    child.wait()
"""


@pytest.fixture
def holder(tmp_path, repository):
    """A process that holds the lock, and has a child that inherits what it can."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=repository,
    )
    child = int(process.stdout.readline())
    yield process
    process.kill()
    os.kill(child, signal.SIGKILL)
    process.communicate()


def test_a_second_training_is_refused_until_the_first_is_killed(tmp_path, holder):
    host = socket.gethostname()
    with (
        pytest.raises(
            lock.LockedError,
            match=f"in use: process {holder.pid} on host {host} trains there. Wait",
        ),
        lock.held(tmp_path),
    ):
        raise AssertionError("both train")
    holder.kill()
    holder.wait()
    with lock.held(tmp_path) as is_held:
        assert is_held
        assert f"process {os.getpid()} on" in str(lock.refusal(tmp_path))


def test_a_lock_is_free_again_after_the_block(tmp_path):
    with contextlib.suppress(ZeroDivisionError), lock.held(tmp_path / "new"):
        raise ZeroDivisionError
    with lock.held(tmp_path / "new") as is_held:
        assert is_held


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    lines = []
    with lock.held(tmp_path, lines.append) as is_held:
        assert not is_held
    assert len(lines) == 1
    assert "is on a file system without locks (No locks available): make" in lines[0]
