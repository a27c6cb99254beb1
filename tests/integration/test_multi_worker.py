"""Two workers on this machine: equal to one process, and when one is lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_transformer.runs import lock
from keras_transformer.runs.model_dir import ModelDir
from tests.small_corpus import write_corpus

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), "data", 285)


def start(repository, corpus, folder, *options, workers=2):
    """Start a run in so many workers; None: in one process, on two replicas."""
    train = [
        str(repository / "bin" / "train.py"),
        "--preset=tiny",
        f"--data_dir={corpus}",
        f"--model_dir={folder}",
        *("--num_layers=1", "--d_model=6", "--d_ff=7", "--num_heads=2"),
        *("--tokens_per_batch=150", "--max_length=40", "--warmup_steps=5"),
        *("--bleu_sentences=0", "--log_every_steps=1", "--nopreflight"),
        *options,
    ]
    launcher = repository / "bin" / "launch_local_workers.py"
    command = [sys.executable, launcher, f"--num_workers={workers}", "--", *train]
    if workers is None:
        mirrored = ["--distribution=mirrored", "--num_replicas=2"]
        command = [sys.executable, *train, *mirrored]
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # as users have it
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def ended(process, status=0):
    """Wait for the end; return the lines."""
    lines = process.communicate(timeout=240)[0].splitlines()
    assert process.returncode == status, "\n".join(lines)
    return lines


def weights(folder):
    model = ModelDir(folder).load_model("latest")
    return [weight.numpy() for weight in model.trainable_weights]


@pytest.mark.parametrize(
    "jit_compile", ["false", pytest.param("true", marks=pytest.mark.release)]
)
def test_two_workers_equal_one_process_with_two_replicas(
    repository, corpus, tmp_path, jit_compile
):
    """The same rows and dropout masks on each replica, whatever process it is in."""
    options = ["--train_steps=4", f"--jit_compile={jit_compile}"]
    runs = {
        name: start(repository, corpus, tmp_path / name, *options, workers=workers)
        for name, workers in (("two", 2), ("one", None))
    }
    lines = ended(runs["two"])
    ended(runs["one"])
    [described] = [line for line in lines if "parameters, " in line]
    assert "2 replicas in 2 workers" in described
    # Worker 1 says nothing, nor does TensorFlow in either.
    ours = re.compile(
        r"\[0\] (step|validation|trained|cost|tracing|compil|still|warning"
        r"|[\d,]+ par)"
    )
    assert [line for line in lines if not ours.match(line)] == []
    for ours, theirs in zip(
        weights(tmp_path / "two"), weights(tmp_path / "one"), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


def test_a_lost_worker_ends_the_other_and_any_number_goes_on(
    repository, corpus, tmp_path
):
    """Worker 1 is killed; the other says so; one worker resumes, then two finish."""
    first = start(
        repository,
        corpus,
        tmp_path,
        "--train_steps=100000",
        "--checkpoint_every_steps=5",
        "--keep_checkpoints=2",
        "--evaluate_every_steps=100000",
    )
    for line in first.stdout:
        if line.startswith("[0] step 12/"):
            break
    os.kill(worker_of(first, 1), signal.SIGKILL)
    began = time.monotonic()
    lines = ended(first, status=128 + signal.SIGKILL)  # of the first that failed
    assert time.monotonic() - began < 60
    [said] = [line for line in lines if "another has ended" in line]
    step = ModelDir(tmp_path).checkpoints().latest().step
    assert "Worker 0 of 2 ends" in said
    assert f"training resumes from step {step:,}, with any number of" in said
    lines = ended(
        start(repository, corpus, tmp_path, f"--train_steps={step + 3}", workers=1)
    )
    assert any(line.startswith(f"[0] step {step + 1:,}/") for line in lines)
    assert any("1 replica," in line for line in lines)
    ended(start(repository, corpus, tmp_path, f"--train_steps={step + 5}"))
    assert ModelDir(tmp_path).checkpoints().latest().step == step + 5


def test_a_second_run_in_the_same_folder_is_refused_by_all_its_workers(
    repository, corpus, tmp_path
):
    with lock.held(tmp_path):
        lines = ended(start(repository, corpus, tmp_path, "--train_steps=3"), status=1)
    refusals = [line for line in lines if f"is in use: process {os.getpid()}" in line]
    assert sorted(line.split()[0] for line in refusals) == ["[0]", "[1]"]


def worker_of(launcher, number):
    """Return the process id of a worker, by its TF_CONFIG."""
    children = f"/proc/{launcher.pid}/task/{launcher.pid}/children"
    with open(children, encoding="ascii") as file:
        for child in file.read().split():
            with open(f"/proc/{child}/environ", "rb") as environment:
                values = dict(
                    entry.split(b"=", 1)
                    for entry in environment.read().split(b"\0")
                    if b"=" in entry
                )
            if json.loads(values[b"TF_CONFIG"])["task"]["index"] == number:
                return int(child)
    raise LookupError(f"no worker {number}")
