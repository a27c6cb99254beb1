"""XLA's compiled programs on disk, so that a second start does not compile them again.

TensorFlow reads and writes the files: one for each program, written aside and renamed,
so processes may share the folder. It says nothing of the machine in their names, so
each combination of TensorFlow, processor and GPU driver has a folder of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import pathlib
import platform

from keras_transformer.inference import hardware

# Variable of the environment that TensorFlow reads its settings of XLA from.
FLAGS = "TF_XLA_FLAGS"
_FOLDER_FLAG = "--tf_xla_persistent_cache_directory"
# Bytes of all folders together; the oldest files are deleted beyond it.
_MOST_BYTES = 2 * 10**9


def use() -> None:
    """Let TensorFlow keep its programs on disk, before it is imported.

    Does nothing if the environment names a folder for them already, or if there is none
    to write in: TensorFlow compiles nothing that it cannot store.
    """
    given = os.environ.get(FLAGS, "")
    if _FOLDER_FLAG in given:
        return
    try:
        folder = _root() / _machine()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # such as a home that is read-only, or unknown
        return
    if not os.access(folder, os.W_OK):
        return
    _delete_oldest(_root())
    # In quotes: flags end at white space.
    os.environ[FLAGS] = f'{given} {_FOLDER_FLAG}="{folder}"'.strip()


def _root() -> pathlib.Path:
    """Return the folder of the user for all machines."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "keras_transformer" / "xla"


def _machine() -> str:
    """Return a name for what a program depends on beside its own code."""
    try:
        driver = pathlib.Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        driver = ""
    parts = platform.machine(), hardware.cpu_features(), driver
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return f"tensorflow-{importlib.metadata.version('tensorflow')}-{digest}"


def _delete_oldest(root: pathlib.Path) -> None:
    """Delete the oldest files beyond `_MOST_BYTES`, and those a crash left empty."""
    files = []
    for path in root.glob("*/*"):
        with contextlib.suppress(OSError):  # another process has deleted it
            state = path.stat()
            files.append((state.st_mtime, state.st_size, path))
            if not state.st_size:
                path.unlink()
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
