"""Tests of the rates and percentiles of a server's answers."""

from benchmarks.lib import latencies


def test_half_of_the_answers_are_faster_than_the_median():
    found = latencies.percentiles([0.1] * 50 + [0.3] * 49 + [7.0] * 2)
    assert found == {"p50_s": 0.3, "p99_s": 7.0}


def test_refused_and_wrong_answers_are_apart():
    def group(name, count, failures, times):
        return {
            "name": name,
            "num_requests": count,
            "num_failures": failures,
            "start_time": 1000.0,
            "last_request_timestamp": 1010.0,
            "response_times": times,
        }

    statistics = [
        group("/predict", 50, 3, {"100": 30, "500": 20}),
        group("refused", 7, 0, {"1": 7}),
        group("wrong", 2, 2, {"1": 2}),
    ]
    assert latencies.of_locust(statistics) == {
        "right": 47,
        "refused": 7,
        "wrong": 2,
        "failed": 3,
        "texts_per_s": 4.7,
        "p50_s": 0.1,
        "p99_s": 0.5,
    }
    assert latencies.of_locust(statistics[1:2])["right"] == 0
