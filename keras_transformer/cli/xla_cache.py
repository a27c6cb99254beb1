"""XLA's compiled programs on disk, so that a second start does not compile them again.

TensorFlow reads and writes the files: one for each program, written aside and renamed,
so processes may share the folder, on several hosts too. It says nothing of the machine
in their names, so each combination of TensorFlow, processor, GPUs, their driver and
XLA's flags has a folder of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import shlex
import shutil

from keras_transformer import hardware

# Variable of the environment that TensorFlow reads its settings of XLA from.
FLAGS = "TF_XLA_FLAGS"
_FOLDER_FLAG = "--tf_xla_persistent_cache_directory"
# Bytes of all folders together; the oldest files are deleted beyond it.
_MOST_BYTES = 2 * 10**9
# Bytes that must be free. A program of a training step takes up to some 50 MB.
_LEAST_FREE = 10**9
# Ends the name of a file that is being written.
_UNFINISHED = ".tmp"
_DRIVER = pathlib.Path("/proc/driver/nvidia")


def use() -> None:
    """Let TensorFlow keep its programs on disk, before it is imported.

    Does nothing if the environment names a folder for them already, or if there is none
    with room to write in: TensorFlow compiles nothing that it cannot store.
    """
    given = os.environ.get(FLAGS, "")
    if _FOLDER_FLAG in given:
        return
    try:
        folder = _root() / _machine()
        folder.mkdir(parents=True, exist_ok=True)
        _delete_oldest(_root())
        has_room = shutil.disk_usage(folder).free >= _LEAST_FREE
    except (OSError, RuntimeError):  # such as a home that is read-only, or unknown
        return
    if not has_room or not os.access(folder, os.W_OK):
        return
    # In quotes: flags end at white space.
    os.environ[FLAGS] = f'{given} {_FOLDER_FLAG}="{folder}"'.strip()


def folder() -> str | None:
    """Return the folder that TensorFlow keeps its programs in; None: it does not."""
    for flag in shlex.split(os.environ.get(FLAGS, "")):
        name, _, value = flag.partition("=")
        if name == _FOLDER_FLAG:
            return value
    return None


def _root() -> pathlib.Path:
    """Return the folder of the user for all machines."""
    return hardware.cache_folder("xla")


def _machine() -> str:
    """Return a name for what a program depends on beside its own code."""
    parts = [platform.machine(), hardware.cpu_features()]
    parts += [os.environ.get("XLA_FLAGS", ""), *_gpus()]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return f"tensorflow-{importlib.metadata.version('tensorflow')}-{digest}"


def _gpus() -> list[str]:
    """Return the GPUs' driver and their models, each once; [] if there are none."""
    try:
        driver = (_DRIVER / "version").read_text()
        found = [path.read_text() for path in _DRIVER.glob("gpus/*/information")]
    except OSError:
        return []
    lines = {line for text in found for line in text.splitlines()}
    return [driver, *sorted(line for line in lines if line.startswith("Model:"))]


def _delete_oldest(root: pathlib.Path) -> None:
    """Delete the oldest files beyond `_MOST_BYTES`, and those a crash left empty.

    A file that is being written is empty at first.
    """
    files = []
    for path in root.glob("*/*"):
        with contextlib.suppress(OSError):  # another process has deleted it
            state = path.stat()
            files.append((state.st_mtime, state.st_size, path))
            if not state.st_size and path.suffix != _UNFINISHED:
                path.unlink()
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
