"""A server under siege: robustness/besieged_server.py, shortened, on a fake model."""

import pytest

from keras_transformer.server import server
from keras_transformer.server.server_config import ServerConfig
from robustness import besieged_server
from tests.server.fake_model import FakeModel
from tests.server.running import running


def test_a_siege_is_measured():
    app = server.make_app(FakeModel().served(), ServerConfig())
    with running(app) as address:
        host, port = address.split(":")
        result = besieged_server.besiege((host, int(port)), 1, 0.2, half_sent=20)
    assert result.keys() == {"slowdown", "refusal_s", "health_s", "more_megabytes"}
    assert min(result["slowdown"], result["refusal_s"], result["health_s"]) > 0


@pytest.mark.parametrize(
    ("allowed", "wrong"), [("https://a.example", 0), ("https://b.example", 1), ("*", 4)]
)
def test_wrong_origins_are_counted(allowed, wrong):
    """The named origin and three others are tried."""
    config = ServerConfig(allowed_origins=(allowed,))
    with running(server.make_app(FakeModel().served(), config)) as address:
        host, port = address.split(":")
        found = besieged_server.count_wrong_origins(
            (host, int(port)), "https://a.example"
        )
    assert found == wrong
