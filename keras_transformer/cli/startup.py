"""Importing TensorFlow in a program: faster, and without its messages.

A program calls `import_tensorflow` when its flags are checked. Other Python code
imports TensorFlow as usual.
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

from keras_transformer.cli import xla_cache

# Messages of TensorFlow's C++: all (0), no INFO (1), no WARNING (2), no ERROR (3), so
# only fatal errors. A missing GPU is an ERROR.
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_ONLY_FATAL = "3"
# Whether the memory of a GPU is taken when it is needed.
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
# First letters of the lines that each level hides.
_HIDDEN = {"1": "I", "2": "IW", _ONLY_FATAL: "IWE"}


def import_tensorflow(onednn: bool = True, compiles: bool = False) -> None:
    """Import TensorFlow and Keras, before anything else in this process does.

    The environment variable TF_CPP_MIN_LOG_LEVEL decides what they print. It is set to
    3 unless it is already set, so that child processes are quiet too.

    Args:
        onednn: Whether oneDNN may be used. It multiplies faster, but does not give
            back memory that has been freed.
        compiles: Whether the program trains or searches under XLA. Its programs are
            then kept on disk.
    """
    os.environ.setdefault(LOG_LEVEL, _ONLY_FATAL)
    # By default the first program takes all memory of a GPU.
    os.environ.setdefault(_GROWTH, "true")
    if compiles:
        xla_cache.use()
    if "tensorflow" in sys.modules:
        return
    if not onednn:
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    # Importing TensorFlow and tracing a model create millions of objects that stay.
    # Python searches for cycles after every 700 new objects by default, which takes a
    # tenth to a fifth of a start.
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
        # It warns of functions that are traced again for each shape, which is intended.
        tf.get_logger().setLevel(logging.ERROR)


class _NoPicturesForKeras(importlib.abc.MetaPathFinder):
    """Hides Matplotlib while Keras is imported.

    Keras 3.15 imports it if it is installed, which takes a second, for functions that
    no program calls.
    """

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib" and "keras" in sys.modules:
            spec = sys.modules["keras"].__spec__
            if getattr(spec, "_initializing", False):
                raise ModuleNotFoundError(f"{name}: not for Keras", name=name)
        return None


@contextlib.contextmanager
def _log_level_kept() -> Iterator[None]:
    """Hide the lines that TensorFlow 2.21 prints before it reads the level.

    Meanwhile standard error goes through `sed`. That is a separate process, so that the
    last line is still printed if loading ends this process.
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
