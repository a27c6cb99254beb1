"""Many texts in batches of similar length, which threads answer."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from keras_transformer import given_texts
from keras_transformer.config import check_at_least
from keras_transformer.translation.batch_sizes import BATCHES_AT_ONCE

Answer = TypeVar("Answer")


class Kept(Protocol):
    """The answers of batches that an earlier run has answered."""

    def get(self, texts: Sequence[str]) -> Sequence | None:
        """Return the answers of a batch; None: it has none."""

    def add(self, texts: Sequence[str], answers: Sequence) -> None:
        """Keep the answers of a batch."""


# Most characters in a padded batch; bounds the cache's memory.
_MOST_CHARACTERS = 2**16


def in_batches(
    texts: Sequence[str],
    batch_size: int,
    answer: Callable[[list[str]], Sequence[Answer]],
    at_once: int = BATCHES_AT_ONCE,
    kept: Kept | None = None,
) -> list[Answer]:
    """Process texts in batches of similar length and return answers in order.

    Args:
        texts: The inputs; see `given_texts.each`.
        batch_size: Most texts of a batch; long texts get smaller batches.
        answer: Returns one answer for each text of a batch. Called by threads.
        at_once: Number of threads that call `answer`.
        kept: Answers of an earlier run, which are not computed again; those of this run
            are added. None: there are none.

    Raises:
        ValueError: If `batch_size` is below 1.
        TypeError: If a text is no string.
    """
    texts = given_texts.as_list(texts)
    answered = in_blocks(texts, batch_size, answer, len(texts), at_once, kept)
    return [each for _, ready in answered for each in ready]


def in_blocks(
    texts: Iterable[str],
    batch_size: int,
    answer: Callable[[list[str]], Sequence[Answer]],
    block_size: int,
    at_once: int = BATCHES_AT_ONCE,
    kept: Kept | None = None,
) -> Iterator[tuple[int, list[Answer]]]:
    """Process texts as in `in_batches` and yield answers in order when available.

    Batches of the next block start while a block is still running. No more texts are
    taken than these. Close the iterator to stop early.

    Args:
        texts: The inputs.
        batch_size: Most texts of a batch; long texts get smaller batches.
        answer: Same as in `in_batches`.
        block_size: Number of successive texts that are sorted by length together.
        at_once: Number of threads that call `answer`.
        kept: Same as in `in_batches`.

    Yields:
        After each batch, its number of texts and the next answers in order.

    Raises:
        ValueError: If `batch_size` is below 1.
        TypeError: If a text is no string.
    """
    check_at_least("batch_size", batch_size, 1)

    answers: dict[int, Answer] = {}
    num_yielded = 0
    batches = _batches(texts, batch_size, block_size)
    answered = _answered(answer, batches, at_once, kept)
    with contextlib.closing(answered):
        for rows, found in answered:
            answers.update(zip(rows, found, strict=True))
            ready = []
            while num_yielded in answers:
                ready.append(answers.pop(num_yielded))
                num_yielded += 1
            yield len(rows), ready


def first_call_alone(
    answer: Callable[[list[str]], Sequence[Answer]],
) -> Callable[[list[str]], Sequence[Answer]]:
    """Return a function whose other calls begin when one has its answer.

    A call that traces a graph must be alone.
    """
    alone, has_answered = threading.Lock(), threading.Event()

    def call(texts):
        if not has_answered.is_set():
            with alone:
                if not has_answered.is_set():
                    answers = answer(texts)
                    has_answered.set()
                    return answers
        return answer(texts)

    return call


def _answered(
    answer: Callable[[list[str]], Sequence[Answer]],
    batches: Iterable[tuple[list[int], list[str]]],
    at_once: int,
    kept: Kept | None,
) -> Iterator[tuple[list[int], Sequence[Answer]]]:
    """Yield the rows and the answers of batches in order, answered by threads.

    Batches are taken when they are needed. Those that run when this is interrupted end,
    and their answers are kept.
    """
    pool = concurrent.futures.ThreadPoolExecutor(at_once)
    # Batches that run or wait, so that no thread is idle while answers are used.
    calls: collections.deque[Callable] = collections.deque()

    def submit(rows, texts):
        future = pool.submit(answer, texts)

        def result():
            answers = future.result()
            if kept is not None:
                kept.add(texts, answers)
            return rows, answers

        return result

    def next_answers():
        found = calls[0]()
        calls.popleft()
        return found

    try:
        for rows, texts in batches:
            if kept is not None and (found := kept.get(texts)) is not None:
                calls.append(lambda rows=rows, found=found: (rows, found))
            else:
                calls.append(submit(rows, texts))
            if len(calls) == 2 * at_once:
                yield next_answers()
        while calls:
            yield next_answers()
    finally:
        pool.shutdown(cancel_futures=True)
        for call in calls:
            with contextlib.suppress(Exception):  # it was cancelled, or failed
                call()


def _batches(
    texts: Iterable[str], batch_size: int, block_size: int
) -> Iterator[tuple[list[int], list[str]]]:
    """Yield the numbers and the texts of each batch, block after block."""
    remaining, start = given_texts.each(texts), 0
    while block := list(itertools.islice(remaining, block_size)):
        for rows in _cut_by_length(list(map(len, block)), batch_size):
            yield [start + row for row in rows], [block[row] for row in rows]
        start += len(block)


def _cut_by_length(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return the indices of the texts of each batch.

    Batches of long texts are first: threads that share all of them then end about
    together.

    Args:
        lengths: Characters of each text.
        batch_size: Most texts of a batch.
    """
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        most = min(batch_size, _MOST_CHARACTERS // max(lengths[number], 1))
        if not batches or len(batches[-1]) >= most:
            batches.append([])
        batches[-1].append(number)
    return sorted(batches, key=lambda batch: -lengths[batch[-1]])
