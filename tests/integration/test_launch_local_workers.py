"""The program that starts workers: their numbers, lines, ends and signals."""

import json
import signal
import subprocess
import sys
import time

import pytest

SHOW = (
    "import json, os; task = json.loads(os.environ['TF_CONFIG']); "
    "print(json.dumps(task)); import sys; print(sys.argv[1:])"
)
# Worker 0 ends badly at once, the other would go on for an hour.
ONE_FAILS = (
    "import json, os, sys, time; "
    "index = json.loads(os.environ['TF_CONFIG'])['task']['index']; "
    "sys.exit(3) if index == 0 else time.sleep(3600)"
)


@pytest.fixture
def launch(repository):
    def launch(*arguments):
        program = repository / "bin" / "launch_local_workers.py"
        return subprocess.Popen(
            [sys.executable, program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return launch


def test_each_worker_knows_the_others_and_its_own_number(launch):
    process = launch("--num_workers=3", "--", sys.executable, "-c", SHOW, "--steps=5")
    lines = process.communicate()[0].splitlines()
    assert process.returncode == 0
    configs = {}
    for line in lines:
        number, text = line[1], line[4:]
        if text.startswith("{"):
            configs[int(number)] = json.loads(text)
        else:
            assert text == "['--steps=5', '--distribution=multi_worker']"
    addresses = configs[0]["cluster"]["worker"]
    assert len(set(addresses)) == 3
    for number in range(3):
        assert configs[number]["cluster"]["worker"] == addresses
        assert configs[number]["task"] == {"type": "worker", "index": number}


def test_when_one_fails_the_others_are_stopped(launch):
    process = launch("--grace_seconds=0", "--", sys.executable, "-c", ONE_FAILS)
    lines = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 3
    assert lines[-1] == "the workers ended with 3, -9"


def test_a_signal_reaches_all_workers(launch):
    wait = "import time; print('up', flush=True); time.sleep(3600)"
    process = launch("--", sys.executable, "-c", wait)
    for _ in range(2):
        process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    lines = process.communicate(timeout=60)[0].splitlines()
    assert lines[-1] == "the workers ended with -15, -15"
    assert process.returncode == 143


def test_a_missing_command_is_named(launch):
    process = launch("--num_workers=2")
    error = process.communicate()[1]
    assert process.returncode == 1
    assert "the command of the workers is missing. Give it after" in error
