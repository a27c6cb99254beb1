"""Requests that no client should send: robustness/hostile_requests.py, shortened."""

import json
import subprocess
import sys

import pytest

from benchmarks.lib import served_program
from keras_transformer.server import server
from keras_transformer.server.server_config import ServerConfig
from robustness import http_attack
from tests.server.fake_model import FakeModel
from tests.server.running import running


def test_the_same_seed_gives_the_same_requests():
    requests = http_attack.hostile_requests(50, seed=3)
    assert requests == http_attack.hostile_requests(50, seed=3)
    assert requests != http_attack.hostile_requests(50, seed=4)


def test_a_failure_and_a_closed_connection_are_told():
    """A model that fails answers with 500; a wrong method is no valid request."""
    good = json.dumps({"inputs": ["a"]}).encode()
    bad = json.dumps({"inputs": ["bad"]}).encode()
    requests = [
        http_attack.Request("POST", served_program.PREDICT, "application/json", body)
        for body in (good, bad)
    ]
    late = requests[0]._replace(extra_length=9)
    app = server.make_app(FakeModel().served(), ServerConfig())
    with running(app) as address:
        host, port = address.split(":")
        outcome = http_attack.send(host, int(port), [*requests, late], seconds=60)
        assert outcome.statuses == {200: 1, 500: 1, None: 1}
        assert outcome.failures == [requests[1]]
        assert served_program.translated(host, int(port), ["ab"], 60) == ["ba"]


@pytest.mark.release
def test_the_server_survives(small_export, repository):
    ended = subprocess.run(
        [
            *(sys.executable, repository / "robustness" / "hostile_requests.py"),
            *(f"--saved_model={small_export}", "--count=120"),
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    result = json.loads(ended.stdout.splitlines()[-1])
    assert sum(result["statuses"].values()) == result["requests"] == 120
    assert {"400", "413", "404"} <= result["statuses"].keys()
