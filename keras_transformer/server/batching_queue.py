"""Joins the texts of concurrent requests into batches for the model."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# A text joins the batch of an older one unless it is longer than this many times the
# older one's bytes plus the constant: it would hold up the answer.
_MAX_LENGTH_RATIO, _MAX_LENGTH_EXTRA = 2, 64
# Rows with more bytes are long: one of several threads is kept free of them, and they
# share no batch with others.
_LONGEST_SHORT = 500


class QueueFullError(Exception):
    """There is no room for the rows of a request; it may be sent again later."""


class ModelError(Exception):
    """The model failed on a batch."""


@dataclasses.dataclass(eq=False)
class _Row:
    """A row of a request that waits."""

    signature: str
    values: Mapping[str, Any]
    answer: asyncio.Future
    arrival: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def length(self) -> int:
        """Bytes of its texts."""
        return sum(len(text) for text in self.values.values() if type(text) is bytes)

    @property
    def is_long(self) -> bool:
        """Whether it may take much longer than a sentence."""
        return self.length > _LONGEST_SHORT


class BatchingQueue:
    """Runs a model on batches of the rows that wait.

    A batch has the row that has waited longest and the rows of the same signature that
    are nearest to it in length. One of several threads runs no long rows, so that short
    ones never wait for these to end. Use as an asynchronous context manager.

    Args:
        run: Takes the name of a signature and its inputs by name, one item per row;
            returns its outputs by name. Called in a thread.
        max_batch_size: Rows per batch.
        batch_timeout_seconds: How long a row waits for others if the model is idle.
        max_queued: Rows that may wait.
        num_threads: Batches that run at the same time.
        on_batch: Called with the signature and the number of rows of each batch.
    """

    def __init__(
        self,
        run: Callable[[str, Mapping[str, list]], Mapping[str, np.ndarray]],
        *,
        max_batch_size: int,
        batch_timeout_seconds: float,
        max_queued: int,
        num_threads: int = 1,
        on_batch: Callable[[str, int], None] = lambda signature, size: None,
    ):
        self._run = run
        self._max_batch_size = max_batch_size
        self._batch_timeout_seconds = batch_timeout_seconds
        self._max_queued = max_queued
        self._num_threads = num_threads
        self._on_batch = on_batch
        self._waiting: list[_Row] = []
        # Also set when long rows may run again.
        self._arrived = asyncio.Event()
        self._num_long_batches = 0
        self._is_forming = asyncio.Lock()

    async def __aenter__(self) -> BatchingQueue:
        self._pool = concurrent.futures.ThreadPoolExecutor(self._num_threads, "batch")
        self._workers = [
            asyncio.create_task(self._work()) for _ in range(self._num_threads)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def num_queued(self) -> int:
        """Number of rows that wait."""
        return sum(not row.answer.done() for row in self._waiting)

    async def ask(
        self, signature: str, rows: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the outputs for each row of one request.

        If this is cancelled, rows that still wait are dropped.

        Args:
            signature: Its name.
            rows: At least one row; each has the inputs by name, strings as bytes.

        Returns:
            For each row its outputs by name, without a batch axis. Rows of one batch
            are padded with "" or 0 to the same shape.

        Raises:
            QueueFullError: If there is no room.
            ModelError: If the model fails on a batch that has one of the rows.
        """
        if self.num_queued + len(rows) > self._max_queued:
            raise QueueFullError("The queue of the server is full: try again later.")
        loop = asyncio.get_running_loop()
        added = [_Row(signature, values, loop.create_future()) for values in rows]
        self._waiting += added
        self._arrived.set()
        answers = [row.answer for row in added]
        try:
            return await asyncio.gather(*answers)
        finally:
            for answer in answers:
                answer.cancel()

    async def _work(self) -> None:
        while True:
            batch = await self._next_batch()
            is_long = batch[0].is_long
            self._num_long_batches += is_long
            try:
                answers = await self._run_batch(batch)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                # Whatever it is: without a worker, all requests would wait for ever.
                for row in batch:
                    if not row.answer.done():
                        row.answer.set_exception(_model_error(error))
                continue
            finally:
                if is_long:
                    self._num_long_batches -= 1
                    self._arrived.set()
            for row, answer in zip(batch, answers, strict=True):
                if not row.answer.done():
                    row.answer.set_result(answer)

    async def _run_batch(self, batch: Sequence[_Row]) -> list[dict[str, Any]]:
        """Return the outputs of each row."""
        signature = batch[0].signature
        self._on_batch(signature, len(batch))
        inputs = {name: [row.values[name] for row in batch] for name in batch[0].values}
        outputs = await asyncio.get_running_loop().run_in_executor(
            self._pool, self._run_model, signature, inputs
        )
        for name, values in outputs.items():
            if len(values) != len(batch):
                raise ValueError(
                    f"output {name} has {len(values)} rows for {len(batch)} inputs"
                )
        return [
            {name: values[index] for name, values in outputs.items()}
            for index in range(len(batch))
        ]

    def _run_model(
        self, signature: str, inputs: Mapping[str, list]
    ) -> Mapping[str, np.ndarray]:
        try:
            return self._run(signature, inputs)
        except BaseException as error:
            # A future cannot hold StopIteration, and CancelledError ends a worker.
            raise _model_error(error) from error

    async def _next_batch(self) -> list[_Row]:
        """Wait for rows and take those of the next batch."""
        async with self._is_forming:
            while True:
                # Without those whose client has left.
                self._waiting = [row for row in self._waiting if not row.answer.done()]
                self._arrived.clear()
                rows = self._ready()
                if not rows:
                    await self._arrived.wait()
                    continue
                waited = time.monotonic() - rows[0].arrival
                left = self._batch_timeout_seconds - waited
                if left <= 0 or len(rows) >= self._max_batch_size:
                    return self._take(rows)
                # Until then, unless more rows fill the batch.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), left)

    def _ready(self) -> list[_Row]:
        """Return the rows that may run now, oldest first."""
        if self._num_long_batches < max(self._num_threads - 1, 1):
            return self._waiting
        return [row for row in self._waiting if not row.is_long]

    def _take(self, rows: Sequence[_Row]) -> list[_Row]:
        """Return the oldest row and those that go with it, which wait no more."""
        oldest = rows[0]
        longest = _MAX_LENGTH_RATIO * oldest.length + _MAX_LENGTH_EXTRA
        near = [
            row
            for row in rows
            if row.signature == oldest.signature
            and row.is_long == oldest.is_long
            and row.length <= longest
        ]
        near.sort(key=lambda row: abs(row.length - oldest.length))
        batch = near[: self._max_batch_size]
        taken = set(batch)
        self._waiting = [row for row in self._waiting if row not in taken]
        return batch


def _model_error(error: BaseException) -> ModelError:
    """Return an error with the first line of another."""
    return ModelError((str(error).splitlines() or [type(error).__name__])[0])
