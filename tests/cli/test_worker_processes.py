"""Processes that translate."""

import functools
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from keras_transformer.cli.worker_processes import WorkerProcesses
from keras_transformer.translation import batching, pipeline
from tests.cli import shouting_model

pytestmark = pytest.mark.long

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def workers():
    with WorkerProcesses(shouting_model.load, 2) as workers:
        yield workers


def test_every_process_translates_with_its_share_of_the_cores(workers):
    model, texts = workers.model, [f"text {number}" for number in range(200)]
    assert (model.max_input_length, model.source_language, model.at_once) == (
        20,
        "en",
        3,
    )
    assert not model.first_alone
    told, end = set(), time.monotonic() + PATIENCE_SECONDS
    while len(told) < 2 and time.monotonic() < end:  # one may start before the other
        found = batching.in_batches(
            texts, 1, pipeline.answering(model.run_batch), model.at_once
        )
        assert [each.text for each in found] == [text.upper() for text in texts]
        told |= {each.nbest[1].text for each in found}
    share = max(os.cpu_count() // 2, 1)
    assert [text.split()[1] for text in told] == [str(share)] * 2
    assert str(os.getpid()) not in {text.split()[0] for text in told}


def test_what_loading_says_is_told():
    with pytest.raises(ValueError, match=r"limit must be positive. Received: -1\."):
        WorkerProcesses(functools.partial(shouting_model.load, -1), 2)


def test_a_killed_process_is_told():
    with (
        WorkerProcesses(shouting_model.load, 1) as workers,
        pytest.raises(ChildProcessError, match="Give fewer --num_workers"),
    ):
        pipeline.translate_in_batches(["suicide", "a"], 1, workers.model.run_batch)


def test_the_processes_end_with_their_parent():
    """Also if it is killed."""
    code = (
        "import tensorflow as tf\n"
        "from keras_transformer.cli.worker_processes import WorkerProcesses\n"
        "from tests.cli import shouting_model\n"
        "if __name__ == '__main__':\n"
        "    with WorkerProcesses(shouting_model.load, 1) as workers:\n"
        "        found = workers.model.run_batch(tf.constant(['a']))\n"
        "        print(found['translations'].numpy()[0, 1].decode(), flush=True)\n"
        "        input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=pathlib.Path(__file__).parents[2],
    ) as parent:
        worker = int(parent.stdout.readline().split()[0])
        os.kill(worker, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        end = time.monotonic() + PATIENCE_SECONDS
        while pathlib.Path(f"/proc/{worker}").exists():
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_ends_them_without_a_word(tmp_path, number):
    program = tmp_path / "program.py"
    program.write_text(
        "import time\n"
        "from keras_transformer.cli import programs\n"
        "from keras_transformer.cli.worker_processes import WorkerProcesses\n"
        "from tests.cli import shouting_model\n"
        "def main():\n"
        "    with WorkerProcesses(shouting_model.load, 2):\n"
        "        print('waiting', flush=True)\n"
        "        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    programs.run(main)\n"
    )
    repository = str(pathlib.Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": repository},
        start_new_session=True,
        # The tests may run under nohup, or in the background of a script.
        preexec_fn=lambda: [
            signal.signal(each, signal.SIG_DFL)
            for each in (signal.SIGHUP, signal.SIGINT)
        ],
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        os.killpg(process.pid, number)
        _, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, error) == (128 + number, "")
