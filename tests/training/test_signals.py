"""A run that is asked to stop saves its step and says where it stands."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from keras_transformer.training import signals
from tests.small_corpus import write_corpus


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def hears_hangups():
    """As without `nohup`, which the tests themselves may run under."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_hangup_stays_ignored_where_nohup_has_it_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = signals.Stop()
    with stop.listening():
        send(signal.SIGHUP)
    assert stop.number is None


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=str
)
def test_a_signal_is_remembered_and_handlers_come_back(number):
    before = signal.getsignal(number)
    stop = signals.Stop()
    with stop.listening():
        assert stop.number is None
        send(number)
        assert stop.number == number
    assert signal.getsignal(number) is before


def test_what_loses_nothing_ends_at_once():
    stop = signals.Stop()
    with stop.listening(), pytest.raises(KeyboardInterrupt), stop.interruptible():
        send(signal.SIGTERM)
        time.sleep(5)
        raise AssertionError("the block went on")
    assert stop.number == signal.SIGTERM


def test_a_second_signal_in_the_same_second_is_the_same_wish(monkeypatch):
    """It comes from the parent of a group that was signalled as a whole."""
    killed = []
    monkeypatch.setattr(signals.os, "kill", lambda *call: killed.append(call))
    stop = signals.Stop()
    stop._take(signal.SIGINT, None)
    stop._take(signal.SIGTERM, None)
    assert not killed
    assert stop.number == signal.SIGINT
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signals.time, "monotonic", lambda: stop._since + 2)
    stop._take(signal.SIGTERM, None)
    signal.signal(signal.SIGTERM, before)
    assert killed == [(os.getpid(), signal.SIGTERM)]


def test_a_block_that_comes_after_the_signal_does_not_begin():
    stop = signals.Stop()
    stop.number = signal.SIGTERM
    with pytest.raises(KeyboardInterrupt), stop.interruptible():
        raise AssertionError("the block began")


def test_outside_such_a_block_a_signal_interrupts_nothing():
    stop = signals.Stop()
    with stop.listening():
        with stop.interruptible():
            pass
        send(signal.SIGTERM)
    assert stop.number == signal.SIGTERM


def test_a_thread_that_is_not_the_main_one_leaves_signals_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with signals.Stop().listening():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_exit_status_is_that_of_shells():
    assert signals.StoppedBySignalError(signal.SIGTERM, "stopped").exit_status == 143
    assert signals.StoppedBySignalError(signal.SIGINT, "stopped").exit_status == 130
    assert signals.StoppedBySignalError(signal.SIGHUP, "stopped").exit_status == 129


@pytest.mark.long
def test_a_stopped_run_is_saved_and_says_where(repository, tmp_path):
    corpus = write_corpus(tmp_path, "data", 285)
    place = tmp_path / "model"

    def start():
        return subprocess.Popen(
            [
                sys.executable,
                repository / "bin" / "train.py",
                "--preset=tiny",
                f"--data_dir={corpus}",
                f"--model_dir={place}",
                "--num_layers=1",
                "--d_model=6",
                "--d_ff=7",
                "--num_heads=2",
                "--tokens_per_batch=150",
                "--max_length=40",
                "--train_steps=100000",  # more than are done before the signal
                "--warmup_steps=5",
                "--bleu_sentences=0",
                "--log_every_steps=1",
                "--keep_checkpoints=2",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )

    with start() as process:
        for line in process.stdout:
            if line.startswith("step 7/"):
                break
        process.send_signal(signal.SIGTERM)
        last = process.stdout.read().splitlines()[-1]
    assert process.returncode == 143
    (saved,) = (place / "checkpoints").iterdir()
    step = int(saved.name.removeprefix("step-"))
    assert step >= 7
    assert last == (
        f"stopped by SIGTERM: step {step:,} is saved in {saved}. Run the same command "
        "again to resume."
    )
