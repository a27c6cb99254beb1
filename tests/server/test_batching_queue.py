"""How rows of concurrent requests are joined into batches."""

import asyncio
import concurrent.futures
import contextlib

import numpy as np
import pytest

from keras_transformer.server.batching_queue import (
    BatchingQueue,
    ModelError,
    QueueFullError,
)
from tests.server.fake_model import FakeModel


def rows_of(*texts):
    return [{"text": text.encode()} for text in texts]


def run(story, **options):
    """Run `story(queue, model)` with a queue over a fake model; return the batches."""
    model = FakeModel()
    settings = {"max_batch_size": 5, "batch_timeout_seconds": 0.0, "max_queued": 23}

    async def main():
        async with BatchingQueue(model.served().run, **(settings | options)) as queue:
            await story(queue, model)

    asyncio.run(main())
    return model.batches


async def start(queue, *texts, signature="serving_default"):
    """Start a request, whose rows then wait or run; return its task."""
    task = asyncio.create_task(queue.ask(signature, rows_of(*texts)))
    await asyncio.sleep(0.01)
    return task


async def keep_busy(queue, model):
    """Let the model run a batch that ends once its gate is open; return its task."""
    model.gate.clear()
    task = await start(queue, "first")
    while queue.num_queued:
        await asyncio.sleep(0.001)
    return task


def test_requests_that_wait_for_the_model_share_a_batch():
    async def story(queue, model):
        tasks = [await keep_busy(queue, model)]
        tasks += [await start(queue, text) for text in ("ab", "cd", "ef")]
        assert queue.num_queued == 3
        model.gate.set()
        answers = await asyncio.gather(*tasks)
        found = [row["translation"] for (row,) in answers]
        assert found == [b"tsrif", b"ba", b"dc", b"fe"]

    assert run(story) == [["first"], ["ab", "cd", "ef"]]


def test_rows_wait_for_others_if_the_model_is_idle():
    async def story(queue, model):
        await asyncio.gather(await start(queue, "one"), await start(queue, "two"))

    assert run(story, batch_timeout_seconds=0.5) == [["one", "two"]]


def test_a_full_batch_does_not_wait():
    async def story(queue, model):
        await asyncio.wait_for(await start(queue, *"abcde"), timeout=30)

    assert run(story, batch_timeout_seconds=59.0) == [[*"abcde"]]


def test_a_batch_that_fills_while_it_waits_does_not_wait_longer():
    async def story(queue, model):
        tasks = [await start(queue, "a"), await start(queue, *"bcde")]
        await asyncio.wait_for(asyncio.gather(*tasks), timeout=30)

    assert run(story, batch_timeout_seconds=59.0) == [[*"abcde"]]


def test_a_batch_has_the_oldest_row_and_those_nearest_to_it_in_length():
    """Long texts do not hold up short ones, and none waits for ever."""

    async def story(queue, model):
        texts = ["x" * length for length in (11, 200, 2, 10, 13, 12, 3, 11)]
        first = await keep_busy(queue, model)
        task = await start(queue, *texts)
        model.gate.set()
        answer = (await asyncio.gather(first, task))[1]
        assert [len(row["translation"]) for row in answer] == [*map(len, texts)]

    sizes = [[len(text) for text in batch] for batch in run(story)]
    assert sizes == [[5], [11, 11, 10, 12, 13], [200, 3, 2]]


def test_a_text_that_is_much_longer_than_the_oldest_waits():
    """At most 2 x 2 + 64 bytes beside 2."""

    async def story(queue, model):
        await queue.ask("serving_default", rows_of("x" * 2, "x" * 69, "x" * 68))

    sizes = [[len(text) for text in batch] for batch in run(story)]
    assert sizes == [[2, 68], [69]]


def test_batches_have_one_signature():
    async def story(queue, model):
        answers = await asyncio.gather(
            queue.ask("serving_default", rows_of("ab")),
            queue.ask("nbest", rows_of("cd")),
            queue.ask("serving_default", rows_of("ef")),
        )
        assert answers[1][0]["translations"].tolist() == [b"dc", b"DC", b""]

    assert run(story, batch_timeout_seconds=0.02) == [["ab", "ef"], ["cd"]]


def test_rows_of_several_batches_are_not_padded_to_each_other():
    async def story(queue, model):
        first, second = await queue.ask("align", rows_of("ab", "c"))
        assert first["pieces"].tolist() == [b"b", b"a"]
        assert second["pieces"].tolist() == [b"c"]
        assert (first["attention"].tolist(), second["attention"].tolist()) == (
            [1, 1],
            [1],
        )

    assert run(story, max_batch_size=1) == [["ab"], ["c"]]


def test_a_batch_that_fails_fails_only_its_own_requests():
    """What still waits of a request that failed is dropped."""

    async def story(queue, model):
        first = await keep_busy(queue, model)
        # Some of it may already be on its way, but not all.
        tasks = [await start(queue, "a" * 99, "bad", *["b" * 99] * 7)]
        tasks += [await start(queue, "de", signature="nbest")]
        tasks += [await start(queue, "c" * 99)]
        model.gate.set()
        failed, *others = await asyncio.gather(*tasks, return_exceptions=True)
        await first
        assert isinstance(failed, ModelError)
        assert str(failed) == "a weight is missing"
        assert others[0][0]["translations"][0] == b"ed"
        assert others[1][0]["translation"] == b"c" * 99

    batches = run(story, max_batch_size=1)
    assert batches.count(["b" * 99]) < 3
    others = [batch for batch in batches if batch != ["b" * 99]]
    assert others == [["first"], ["a" * 99], ["bad"], ["de"], ["c" * 99]]


@pytest.mark.parametrize(
    "error",
    [
        SystemExit("no power"),
        KeyboardInterrupt(),
        StopIteration("no power"),
        asyncio.CancelledError("no power"),
        concurrent.futures.CancelledError("no power"),
    ],
)
def test_whatever_the_model_raises_the_next_request_is_answered(monkeypatch, error):
    async def story(queue, model):
        with monkeypatch.context() as patched:
            patched.setattr(queue, "_run", raising)
            with pytest.raises(ModelError, match="no power|KeyboardInterrupt"):
                await asyncio.wait_for(await start(queue, "a"), timeout=30)
        await asyncio.wait_for(await start(queue, "b"), timeout=30)

    def raising(signature, inputs):
        raise error

    assert run(story) == [["b"]]


def test_a_model_that_loses_rows_swaps_no_answers(monkeypatch):
    async def story(queue, model):
        monkeypatch.setattr(
            queue, "_run", lambda signature, inputs: {"translation": np.array([b"x"])}
        )
        with pytest.raises(ModelError, match="translation has 1 rows for 2 inputs"):
            await asyncio.wait_for(await start(queue, "a", "b"), timeout=30)

    run(story)


def test_a_request_for_which_there_is_no_room_is_refused_at_once():
    async def story(queue, model):
        tasks = [await keep_busy(queue, model), await start(queue, *"fg")]
        with pytest.raises(QueueFullError, match="queue of the server is full: try"):
            await queue.ask("serving_default", rows_of("h", "i"))
        tasks.append(await start(queue, "j"))
        model.gate.set()
        await asyncio.gather(*tasks)
        await queue.ask("serving_default", rows_of("h", "i", "k"))

    assert run(story, max_queued=3) == [["first"], [*"fgj"], [*"hik"]]


def test_rows_of_a_cancelled_request_do_not_run():
    async def story(queue, model):
        first = await keep_busy(queue, model)
        gone, stays = await start(queue, "gone"), await start(queue, "stays")
        gone.cancel()
        await asyncio.sleep(0.01)
        assert queue.num_queued == 1
        model.gate.set()
        await asyncio.gather(first, stays)

    assert run(story) == [["first"], ["stays"]]


def test_several_threads_run_several_batches_at_once():
    async def story(queue, model):
        tasks = [await keep_busy(queue, model), await start(queue, "second")]
        assert queue.num_queued == 0
        tasks.append(await start(queue, "third"))
        assert queue.num_queued == 1
        model.gate.set()
        await asyncio.gather(*tasks)

    batches = run(story, num_threads=2)
    assert sorted(batches) == [["first"], ["second"], ["third"]]


LONG = "x" * 600


@pytest.mark.parametrize("num_threads", [2, 3])
def test_one_thread_is_kept_free_of_long_texts(num_threads):
    async def story(queue, model):
        model.gate.clear()
        tasks = [await start(queue, "x" * (600 + 2000 * n)) for n in range(num_threads)]
        assert queue.num_queued == 1
        tasks.append(await start(queue, "ab"))
        assert queue.num_queued == 1  # "ab" runs
        model.gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks), timeout=30)

    assert len(run(story, num_threads=num_threads)) == num_threads + 1


def test_short_texts_that_never_end_do_not_starve_long_ones():
    """A long text runs when it is the oldest, whatever comes after it."""

    async def story(queue, model):
        async def go_on(count):
            for _ in range(count):
                await queue.ask("serving_default", rows_of("ab"))

        users = [asyncio.create_task(go_on(50)) for _ in range(8)]
        await asyncio.sleep(0.001)
        await asyncio.wait_for(queue.ask("serving_default", rows_of(LONG)), timeout=30)
        assert not all(user.done() for user in users)
        await asyncio.gather(*users)

    batches = run(story, num_threads=2, max_batch_size=2)
    assert batches.index([LONG]) < 40


def test_long_texts_that_never_end_do_not_starve_short_ones():
    async def story(queue, model):
        async def go_on(count):
            for _ in range(count):
                await queue.ask("serving_default", rows_of(LONG))

        users = [asyncio.create_task(go_on(50)) for _ in range(8)]
        await asyncio.sleep(0.001)
        await asyncio.wait_for(queue.ask("serving_default", rows_of("ab")), timeout=30)
        assert not all(user.done() for user in users)
        await asyncio.gather(*users)

    assert run(story, num_threads=2, max_batch_size=2).index(["ab"]) < 40


def test_short_texts_share_no_batch_with_long_ones():
    async def story(queue, model):
        first = await keep_busy(queue, model)
        tasks = [await start(queue, text) for text in (LONG, "ab", LONG, "cd")]
        model.gate.set()
        await asyncio.gather(first, *tasks)

    assert run(story) == [["first"], [LONG, LONG], ["ab", "cd"]]


def test_a_long_batch_that_fails_lets_the_next_run():
    async def story(queue, model):
        model.gate.clear()
        with contextlib.suppress(ModelError):
            tasks = [await start(queue, "bad", "y" * 600), await start(queue, LONG)]
            tasks += [await start(queue, "z" * 600), await start(queue, LONG * 9)]
            model.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[0], ModelError)
        assert found[3][0]["translation"] == LONG.encode() * 9

    run(story, num_threads=2)
