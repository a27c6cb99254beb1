"""Tests of what a program takes in time and memory."""

import sys

import pytest

from benchmarks.lib import timed_process

HOLD = "held = b'x' * 150_000_000; import time; time.sleep(1)"


def test_the_memory_of_children_counts():
    parent = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    )
    took = timed_process.run([sys.executable, "-c", parent, HOLD])
    assert took.peak_bytes > 150_000_000
    assert took.seconds > 1


def test_a_program_that_fails_is_told():
    with pytest.raises(RuntimeError, match="failed: no such model"):
        timed_process.run([sys.executable, "-c", "raise SystemExit('no such model')"])
