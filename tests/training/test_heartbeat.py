"""A line at least every 30 seconds; no test waits, the clock is made up."""

import threading

import pytest

from keras_transformer.training.heartbeat import Heartbeat


class Clock:
    """Seconds that pass only when somebody waits; is over at the end of the world."""

    def __init__(self, end):
        self.now = 0.0
        self.end = end
        self.events = {}

    def __call__(self):
        return self.now

    def wait(self, seconds):
        """Wait as `threading.Event.wait` does; what happens meanwhile happens."""
        until = self.now + seconds
        for at in sorted(self.events):
            if self.now < at <= until:
                self.now = at
                self.events.pop(at)()
        self.now = until
        return self.now > self.end


@pytest.fixture
def said():
    return []


def test_something_is_said_every_30_seconds_while_nothing_comes(said):
    clock = Clock(end=100)
    heartbeat = Heartbeat(lambda line: said.append((clock.now, line)), clock)
    heartbeat("step 7")
    with heartbeat.during("training"):
        heartbeat.watch(clock.wait)
    assert said == [
        (0, "step 7"),
        (30, "still training, 30 s after the last line"),
        (60, "still training, 1 min 0 s after the last line"),
        (90, "still training, 1 min 30 s after the last line"),
    ]


def test_a_line_puts_it_off(said):
    clock = Clock(end=70)
    heartbeat = Heartbeat(lambda line: said.append((clock.now, line)), clock)
    clock.events[25] = lambda: heartbeat("step 8")
    with heartbeat.during("training"):
        heartbeat.watch(clock.wait)
    assert said == [(25, "step 8"), (55, "still training, 30 s after the last line")]


def test_it_says_what_is_running_now(said):
    clock = Clock(end=40)
    heartbeat = Heartbeat(said.append, clock)
    with heartbeat.during("training"):
        with heartbeat.during("evaluating"):
            heartbeat.watch(clock.wait)
        clock.end = 70
        heartbeat.watch(clock.wait)
    assert [line.split(",")[0] for line in said] == [
        "still evaluating",
        "still training",
    ]


def test_a_closed_output_is_left_to_the_next_line():
    def fail(line):
        raise BrokenPipeError

    clock = Clock(end=70)
    heartbeat = Heartbeat(fail, clock)
    heartbeat.watch(clock.wait)
    with pytest.raises(BrokenPipeError):
        heartbeat("step 1")


def test_a_thread_watches_within_the_context_and_ends_with_it(said):
    """The clock is late by 30 seconds as soon as the thread looks."""
    spoken, looks = threading.Event(), iter([0.0, 0.0])

    def write(line):
        said.append(line)
        spoken.set()

    heartbeat = Heartbeat(write, lambda: next(looks, 30.0))
    before = threading.active_count()
    with heartbeat.during("evaluating"):
        assert spoken.wait(20)
    assert threading.active_count() == before
    assert said[0] == "still evaluating, 30 s after the last line"
