"""Which threads TensorFlow makes: for a few sentences, fewer are faster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from keras_transformer import hardware

# By itself TensorFlow sleeps in one thread while others do a product, and wakes it
# after: 20 us each, of the 60 to 200 us that a product of few rows takes. So the thread
# that waits takes its share; and no second one looks for operations to start meanwhile,
# on a core that the product needs.
_FEW_THREADS = {
    "TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD": "1",
    "TF_NUM_INTEROP_THREADS": "1",
}

# With two cores, AVX2 and beam 4, the base model translates one sentence in 0.39 s
# instead of 0.47, 8 in 1.27 instead of 1.32, and 16 in 2.4 instead of 2.1.
_FEW_SENTENCES = 8


@contextlib.contextmanager
def made_for(num_sentences: int) -> Iterator[None]:
    """Have TensorFlow make its threads for so many sentences, within this context.

    It makes them at its first operation, and reads there how: later this is without
    effect. Variables of the environment that are set stay as they are. On a GPU, where
    it was not measured, nothing changes.

    Args:
        num_sentences: To translate, in as many batches as there will be.
    """
    is_few = num_sentences <= _FEW_SENTENCES and not hardware.has_gpu()
    added = _FEW_THREADS.keys() - os.environ.keys() if is_few else ()
    os.environ.update({name: _FEW_THREADS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
