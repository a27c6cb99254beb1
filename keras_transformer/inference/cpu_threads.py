"""TensorFlow's threads: fewer for few sentences and for many, one more to compile."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping

from keras_transformer import hardware
from keras_transformer.translation.batch_sizes import BATCHES_AT_ONCE

# Variables of the number of threads that start operations, and that share one.
_STARTING = "TF_NUM_INTEROP_THREADS"
_SHARING = "TF_NUM_INTRAOP_THREADS"

# By default the calling thread sleeps during a matrix product and is woken afterwards:
# 20 us of the 60 to 200 us that a product of few rows takes. With the first setting it
# takes part in the product. With the second, no other thread uses a core to look for
# operations to start.
_FEW_THREADS = {
    "TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD": "1",
    _STARTING: "1",
}

# With two cores, AVX2 and beam 4, the base model translates one sentence in 0.39 s
# instead of 0.47, 4 in 0.77 instead of 0.80, and 16 in 2.4 instead of 2.1. From 5
# sentences on a program of a search runs twice at once, unless one thread starts both.
_FEW_SENTENCES = 4

# Batches of each thread, at least, if there is a choice: then threads end together.
_BATCHES_OF_THREAD = 4
# Batches at once, at most, if there is a choice. Each takes memory: 1.2 GB with 384
# sentences and the base model.
_MOST_AT_ONCE = 4


@contextlib.contextmanager
def threads_for_few_sentences(num_sentences: int) -> Iterator[None]:
    """Configure TensorFlow's threads within this context, if there are few sentences.

    TensorFlow creates its threads at its first operation; afterwards this has no
    effect. Environment variables that are already set are not changed. Does nothing on
    a machine with a GPU, where it was not measured.

    Args:
        num_sentences: Number of sentences to translate, over all batches.

    Examples:
        >>> with kt.threads.threads_for_few_sentences(num_sentences=1):
        ...     translation = translator("one two")
        ...
    """
    is_few = num_sentences <= _FEW_SENTENCES and not hardware.has_gpu()
    with _set_unless_given(_FEW_THREADS if is_few else {}):
        yield


@contextlib.contextmanager
def threads_for_batches(num_batches: int, at_once: int | None = None) -> Iterator[int]:
    """Divide the cores among batches that run at once, within this context.

    By default all cores share each operation of a batch, and small ones hardly gain by
    it. With two cores and 20,000 lines, a model of 1.2 M weights translates 1.1 times
    (float32) and 1.2 times (int8) as many a second with a core for each of two batches.
    As with `threads_for_few_sentences`, this has an effect before TensorFlow's first
    operation, variables that are set are not changed, and a GPU is not divided.

    Args:
        num_batches: Number of batches to come.
        at_once: Batches to run at once; None: up to 4, if there are enough for them.

    Yields:
        Batches to run at once; two that share all cores if these are not divided.

    Examples:
        >>> with kt.threads.threads_for_batches(num_batches=2) as at_once:
        ...     print(at_once)
        ...
        2
    """
    cores = len(os.sched_getaffinity(0))
    chosen = at_once or min(cores, num_batches // _BATCHES_OF_THREAD, _MOST_AT_ONCE)
    if hardware.has_gpu() or chosen < 2:
        yield at_once or BATCHES_AT_ONCE
        return
    with _set_unless_given({_SHARING: str(math.ceil(cores / chosen))}):
        yield chosen


def one_more_for_a_compiler() -> None:
    """Have a thread more than cores to start operations, before TensorFlow's first one.

    XLA holds such a thread while it compiles a program, which takes seconds. With two
    of them the operations of short batches would wait for those of a long one: 40
    users of a server with short sentences then wait 6 s beside long texts, not 1 s. An
    environment variable that is already set is not changed.

    Examples:
        >>> kt.threads.one_more_for_a_compiler()
    """
    os.environ.setdefault(_STARTING, str(len(os.sched_getaffinity(0)) + 1))


@contextlib.contextmanager
def _set_unless_given(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that have no value, within this context."""
    added = settings.keys() - os.environ.keys()
    os.environ.update({name: settings[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
