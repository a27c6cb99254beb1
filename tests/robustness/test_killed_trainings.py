"""A training that is killed and resumed ends with the same weights."""

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


@pytest.mark.long
def test_a_killed_and_resumed_run_ends_with_exactly_the_same_weights(tmp_path):
    """robustness/killed_trainings.py does it 30 times, also with two replicas."""
    corpus = write_corpus(tmp_path, "data", 285)
    uninterrupted = tmp_path / "uninterrupted"
    kills.run(kills.training_command(corpus, uninterrupted, 8))
    command = kills.training_command(corpus, tmp_path / "killed", 8)
    kills.kill_after_first_step(command, seconds=0.3)
    assert kills.newest_step(tmp_path / "killed") <= 8
    kills.run(command)
    assert kills.newest_step(tmp_path / "killed") == 8
    distance = kills.distance_of_weights(
        tmp_path / "killed", tmp_path / "uninterrupted"
    )
    assert distance == 0


@pytest.mark.release
def test_a_model_dir_has_one_training_at_a_time(tmp_path):
    """The error of a second names the first; after SIGKILL, training can resume."""
    corpus = write_corpus(tmp_path, "data", 285)
    model_dir = tmp_path / "model"
    command = kills.training_command(corpus, model_dir, 100_000)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        for line in first.stdout:
            if line.startswith("step 2/"):
                break
        reader = threading.Thread(target=first.stdout.read)
        reader.start()
        second = subprocess.run(command, capture_output=True, text=True)
        stop_while_saving(first, model_dir)
        first.kill()
        reader.join()
    assert second.returncode == 1
    assert "Traceback" not in second.stderr
    last = second.stderr.splitlines()[-1]
    in_use = f"train.py: {model_dir} is in use: process {first.pid} on host"
    assert last.startswith(in_use)
    step = kills.newest_step(model_dir)
    assert list(model_dir.glob("checkpoints/.step-*"))
    kills.run(kills.training_command(corpus, model_dir, step + 2))
    assert kills.newest_step(model_dir) == step + 2
    hidden = {path.name for path in model_dir.rglob(".*")}
    assert hidden <= {".training.lock"}


def stop_while_saving(process, model_dir):
    """Stop a process with SIGSTOP while it writes a checkpoint."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        if list(model_dir.glob("checkpoints/.step-*/new/*")):
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.003)


def take_terminal():
    """Make standard input the controlling terminal of this process."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Tests may run under `nohup`, whose ignored SIGHUP is inherited.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.long
def test_a_training_that_loses_its_terminal_saves_its_step(tmp_path):
    corpus = write_corpus(tmp_path, "data", 285)
    model_dir = tmp_path / "model"
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [
            *kills.training_command(corpus, model_dir, 100_000),
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
    assert kills.newest_step(model_dir) >= 3
