"""TensorFlow's threads: fewer for a few sentences, one more beside a compiler."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from keras_transformer import hardware

# Variable of the number of threads that start operations.
_STARTING = "TF_NUM_INTEROP_THREADS"

# By default the calling thread sleeps during a matrix product and is woken afterwards:
# 20 us of the 60 to 200 us that a product of few rows takes. With the first setting it
# takes part in the product. With the second, no other thread uses a core to look for
# operations to start.
_FEW_THREADS = {
    "TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD": "1",
    _STARTING: "1",
}

# With two cores, AVX2 and beam 4, the base model translates one sentence in 0.39 s
# instead of 0.47, 8 in 1.27 instead of 1.32, and 16 in 2.4 instead of 2.1.
_FEW_SENTENCES = 8


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
    added = _FEW_THREADS.keys() - os.environ.keys() if is_few else ()
    os.environ.update({name: _FEW_THREADS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


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
