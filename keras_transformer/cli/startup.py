"""Importing TensorFlow in a program: faster, and without lines of its own.

A program calls `import_tensorflow` once its flags are checked. Python code that uses
the package imports TensorFlow as it likes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

# What TensorFlow's C++ prints: all (0), no INFO (1), no WARNING (2), no ERROR (3),
# which leaves what ends the process. The lack of a GPU is an ERROR to it.
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_ONLY_FATAL = "3"
# By level, the first letters of the lines that it hides.
_HIDDEN = {"1": "I", "2": "IW", _ONLY_FATAL: "IWE"}


def import_tensorflow() -> None:
    """Import TensorFlow and Keras, before anything else of this process does.

    What they print is decided by the environment variable TF_CPP_MIN_LOG_LEVEL, which
    is set to 3 unless it is set: processes that this one starts are then quiet too.
    """
    os.environ.setdefault(LOG_LEVEL, _ONLY_FATAL)
    if "tensorflow" in sys.modules:
        return
    # Importing TensorFlow, building a model and tracing it make millions of objects
    # that stay. Python looks for cycles among them after every 700, which is a tenth to
    # a fifth of the time of a start.
    gc.set_threshold(50_000, 5, 5)
    finder = _NoPicturesForKeras()
    sys.meta_path.insert(0, finder)
    try:
        with _log_level_kept():
            import keras  # noqa: F401
            import tensorflow as tf
    finally:
        sys.meta_path.remove(finder)
    if os.environ[LOG_LEVEL] == _ONLY_FATAL:
        # Its Python warns of functions that are traced for each shape, as ours are.
        tf.get_logger().setLevel(logging.ERROR)


class _NoPicturesForKeras(importlib.abc.MetaPathFinder):
    """Hides Matplotlib from Keras while it is imported, and from nobody else.

    Keras 3.15, which comes with TensorFlow, imports it if it is there, for functions
    that no program calls: a second of each start.
    """

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib" and "keras" in sys.modules:
            spec = sys.modules["keras"].__spec__
            if getattr(spec, "_initializing", False):
                raise ModuleNotFoundError(f"{name}: not for Keras", name=name)
        return None


@contextlib.contextmanager
def _log_level_kept() -> Iterator[None]:
    """Leave out what TensorFlow 2.21 prints as it is loaded, before it knows the level.

    Standard error goes through `sed` meanwhile, a process of its own: should loading
    end this one, the line that says why is still printed.
    """
    hidden = _HIDDEN.get(os.environ[LOG_LEVEL])
    if not hidden:
        yield
        return
    lines = rf"/^WARNING: All log messages before absl::|^[{hidden}][0-9]{{4}} /d"
    stderr = os.dup(2)
    with subprocess.Popen(
        ["sed", "-E", lines],
        stdin=subprocess.PIPE,
        stdout=stderr,
        start_new_session=True,  # Ctrl-C is for this process
    ) as sed:
        os.dup2(sed.stdin.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
