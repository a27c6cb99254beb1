"""Following the checkpoints of a run that goes on meanwhile."""

import json
import subprocess
import sys
import types

import pytest

from keras_transformer.runs import checkpoint_watcher
from keras_transformer.runs.checkpoints import CheckpointFolder
from tests.small_corpus import write_corpus
from tests.training.small_runs import config_of, train


class Run:
    """Stands for a model_dir of 9 steps whose newest checkpoint changes as one waits.

    Args:
        folder: Takes the checkpoints.
        steps: The newest after each wait; 0: there is none.
        stops_early: Whether the last of them is the run's last.
    """

    path = "runs/x"

    def __init__(self, folder, *steps, stops_early=False):
        self.steps = list(steps)
        self._found = {
            step: CheckpointFolder(folder).save(
                step, {"stopped_early": stops_early and step == max(steps)}
            )
            for step in set(steps) - {0}
        }

    def sleep(self, seconds):
        if len(self.steps) > 1:
            self.steps.pop(0)

    def checkpoints(self):
        newest = self._found.get(self.steps[0])
        return types.SimpleNamespace(latest=lambda: newest)

    def read_config(self):
        return types.SimpleNamespace(training=types.SimpleNamespace(train_steps=9))


def test_each_newest_checkpoint_is_seen_once_until_the_last_step(tmp_path):
    run = Run(tmp_path, 0, 2, 2, 3, 7, 9, 9)
    seen = [
        found.step for found in checkpoint_watcher.new_checkpoints(run, sleep=run.sleep)
    ]
    assert seen == [2, 3, 7, 9]


def test_waiting_ends_where_training_stopped_early(tmp_path):
    run = Run(tmp_path, 2, 4, 4, stops_early=True)
    seen = [
        found.step for found in checkpoint_watcher.new_checkpoints(run, sleep=run.sleep)
    ]
    assert seen == [2, 4]


def test_waiting_ends_when_nothing_comes(tmp_path):
    run = Run(tmp_path, 2)
    checkpoints = checkpoint_watcher.new_checkpoints(
        run, poll_seconds=30, idle_minutes=2, sleep=run.sleep
    )
    assert next(checkpoints).step == 2
    with pytest.raises(TimeoutError, match="No checkpoint after step 2 came to runs/x"):
        next(checkpoints)


@pytest.mark.long
def test_each_checkpoint_gets_a_line_of_the_report(repository, tmp_path):
    """Below those that were there, from an earlier start of the program."""
    corpus = write_corpus(tmp_path, "data", 285)
    train(corpus, tmp_path / "run", config_of(corpus, train_steps=2))
    (tmp_path / "report").write_text('{"step": 1}\n')
    program = [sys.executable, repository / "bin" / "evaluate.py", "--follow"]
    done = subprocess.run(
        [
            *program,
            f"--model_dir={tmp_path / 'run'}",
            *(f"--data_dir={corpus}", "--split=valid", "--bootstrap_samples=0"),
            *(f"--report={tmp_path / 'report'}", "--beam_size=1"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("step 2\n")
    lines = (tmp_path / "report").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]
    assert "sacrebleu" in json.loads(lines[1])
    wrong = subprocess.run(program, capture_output=True, text=True)
    assert "--follow scores the new checkpoints of --model_dir" in wrong.stderr
