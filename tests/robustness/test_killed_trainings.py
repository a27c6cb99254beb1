"""A training that is killed goes on and ends where it would have ended."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
import threading
import time

import pytest

from robustness import kills
from tests.small_corpus import write_corpus

pytestmark = pytest.mark.long


def test_a_killed_run_ends_bit_for_bit_where_it_would_have(tmp_path):
    """robustness/killed_trainings.py does it 30 times, on two replicas too."""
    corpus = write_corpus(tmp_path, "data", 285)
    kills.run_to_the_end(kills.training_command(corpus, tmp_path / "whole", 8))
    command = kills.training_command(corpus, tmp_path / "killed", 8)
    kills.kill_after_first_step(command, seconds=0.3)
    assert kills.newest_step(tmp_path / "killed") <= 8
    kills.run_to_the_end(command)
    assert kills.newest_step(tmp_path / "killed") == 8
    assert kills.distance_of_weights(tmp_path / "killed", tmp_path / "whole") == 0


def test_one_training_at_a_time_until_it_is_killed(tmp_path):
    """The second names the first; after SIGKILL nothing of it is in the way."""
    corpus = write_corpus(tmp_path, "data", 285)
    place = tmp_path / "model"
    command = kills.training_command(corpus, place, 100_000)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        for line in first.stdout:
            if line.startswith("step 2/"):
                break
        reader = threading.Thread(target=first.stdout.read)
        reader.start()
        second = subprocess.run(command, capture_output=True, text=True)
        hold_while_saving(first, place)
        first.kill()
        reader.join()
    assert second.returncode == 1
    assert "Traceback" not in second.stderr
    last = second.stderr.splitlines()[-1]
    assert last.startswith(f"train.py: {place} is in use: process {first.pid} on host")
    step = kills.newest_step(place)
    assert list(place.glob("checkpoints/.step-*"))
    kills.run_to_the_end(kills.training_command(corpus, place, step + 2))
    assert kills.newest_step(place) == step + 2
    assert not [path for path in place.rglob(".*") if path.name != ".training.lock"]


def hold_while_saving(process, place):
    """Stop a process at a moment at which it writes a checkpoint."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        if list(place.glob("checkpoints/.step-*/new/*")):
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.003)


def take_terminal():
    """Make standard input the terminal that controls this process."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A shell under `nohup`, as a test run may be, passes an ignored SIGHUP on.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_training_whose_terminal_is_lost_saves_its_step(tmp_path):
    corpus = write_corpus(tmp_path, "data", 285)
    place = tmp_path / "model"
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [
            *kills.training_command(corpus, place, 100_000),
            "--checkpoint_every_steps=100000",
        ],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        preexec_fn=take_terminal,
    )
    os.close(its_end)
    with open(terminal, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("step 3/"):
                break
    assert process.wait(60) == 128 + signal.SIGHUP
    assert kills.newest_step(place) >= 3
