"""Tests of the steady rate and start of programs that translate files."""

import pytest

from benchmarks.lib import file_rates
from benchmarks.lib.timed_process import TimedProcess

# 100 lines and 1,000: a start of 3 seconds, then 100 lines a second; in the second
# round a start of 5 seconds, then 50.
FEW = [TimedProcess(4.0, 4.5, 10_000_000), TimedProcess(7.0, 6.0, 10_000_000)]
EVERY = [TimedProcess(13.0, 22.5, 30_000_000), TimedProcess(25.0, 24.0, 20_000_000)]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def test_the_start_is_not_part_of_the_steady_rate():
    assert file_rates.steady_rates(FEW, EVERY, 900) == [100, 50]
    numbers = file_rates.described(FEW, EVERY, 100, 1000)
    assert numbers["start_s"] == 4
    assert (numbers["min_lines_per_s"], numbers["max_lines_per_s"]) == (50, 100)
    assert (numbers["median_file_s"], numbers["peak_megabytes"]) == (19, 30)


def test_busy_cores_are_cpu_seconds_by_seconds_and_cores():
    assert file_rates.described(FEW[:1], EVERY[:1], 100, 1000)["cores_busy"] == 1
    assert file_rates.described(FEW[1:], EVERY[1:], 100, 1000)["cores_busy"] == 0.5


def test_a_long_file_that_took_no_longer_has_a_rate():
    (rate,) = file_rates.steady_rates(FEW[:1], FEW[:1], 900)
    assert rate > 0


def test_the_faster_setting_of_the_peer_is_compared():
    rates = {
        "saved_model": [90.0, 100.0, 120.0],
        "model_dir": [1.0],
        "ctranslate2_float32_1": [50.0],
        "ctranslate2_float32_2": [80.0],
        "ctranslate2_int8_1": [400.0],
    }
    assert file_rates.ratios(rates, ("float32", "int8")) == {
        "times_ctranslate2_float32": 1.25,
        "times_ctranslate2_int8": 0.25,
    }
    del rates["saved_model"]
    assert file_rates.ratios(rates, ("float32", "int8")) == {}
