"""Medians, spread and rates."""

import json
import time

import pytest

from benchmarks.lib import measure


def test_the_first_call_is_not_timed():
    waits = [0.3, 0.0, 0.0, 0.0]
    seconds = measure.median_seconds(lambda: time.sleep(waits.pop(0)), repeats=3)
    assert not waits
    assert seconds < 0.15


def test_each_call_is_timed_by_itself():
    waits = [0.0, 0.2]
    first, second = measure.seconds_of_calls(lambda: time.sleep(waits.pop(0)), 2)
    assert first < 0.2 <= second


def test_spread_has_five_digits():
    assert measure.spread("step_s", [0.5, 7.0, 2.0 / 3]) == {
        "median_step_s": 0.66667,
        "min_step_s": 0.5,
        "max_step_s": 7.0,
    }


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_matmul_rate_is_operations_over_seconds(monkeypatch, dtype):
    """The fastest product takes 5e-8 s for 2 * 5^3 = 250 operations: 5 GFLOP/s."""
    monkeypatch.setattr(
        measure, "seconds_of_calls", lambda run, repeats: [run() * 0 + 1e-7, 5e-8]
    )
    assert measure.matmul_gflops(dtype, size=5) == pytest.approx(5.0)


def test_the_environment_describes_the_machine(monkeypatch):
    monkeypatch.setattr(measure, "matmul_gflops", lambda dtype: 123.456789)
    found = measure.environment("float32")
    assert found["matmul_gflops"] == 123.46
    assert found["matmul_dtype"] == "float32"
    assert found["load_average"] >= 0
    assert {"cpu", "cores", "tensorflow", "date"} <= set(found["machine"])


def test_a_result_is_one_line(capsys):
    measure.write_line(name="Wörter", seconds=0.5)
    out = capsys.readouterr().out
    assert out == '{"name": "Wörter", "seconds": 0.5}\n'
    assert json.loads(out)["seconds"] == 0.5
