"""Connections that send slowly or not at all, pages of other origins, and the end."""

import contextlib
import json
import resource
import signal
import socket
import time

import pytest
import requests
from starlette import testclient

from keras_transformer.server import connections, server
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.server.running import running
from tests.server.test_server import PREDICT, PROGRAM, started, wait_for

PAGE = {"Origin": "https://a.example"}
ASK = {"q": "ab", "source": "en", "target": "de"}


@contextlib.contextmanager
def impatient(seconds=0.5):
    config = ServerConfig(receive_seconds=seconds, drain_seconds=2)
    app = server.make_app(FakeModel().served(), config)
    with running(app, config=config) as address:
        yield address


def opened(address, content=b""):
    connection = socket.create_connection(address.split(":"), timeout=20)
    connection.sendall(content)
    return connection


def answer_of(connection):
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(4096):
            content += part
    return content


HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"P", b"POST /translate HTTP/1.1\r\n", HEAD),
        HEAD + b"Content-Length: 9\r\n\r\n",
        HEAD + b'Content-Length: 9\r\n\r\n{"q"',
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n",
    ],
)
def test_a_request_that_does_not_arrive_is_answered_with_408(content):
    with impatient() as address, opened(address, content) as connection:
        answer = answer_of(connection)
    assert b" 408 " in answer
    error = answer[answer.rindex(b"\r\n\r\n") :]
    assert json.loads(error)["error"].startswith("The request did not arrive within")


def test_bytes_that_come_slowly_do_not_extend_the_time():
    with impatient() as address, opened(address) as connection:
        end = time.monotonic() + 20
        with contextlib.suppress(ConnectionError):
            for byte in HEAD * 100:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
                assert time.monotonic() < end
        assert time.monotonic() < end


@pytest.mark.parametrize("half", [b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\n{"])
def test_half_of_a_request_does_not_keep_others_out(monkeypatch, half):
    """New connections take the place of those that wait longest."""
    monkeypatch.setattr(connections, "_MOST_CONNECTIONS", 7)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(impatient(seconds=60))
        halves = [stack.enter_context(opened(address, half)) for _ in range(23)]
        answer = requests.post(f"http://{address}/translate", json=ASK, timeout=20)
        assert answer.json() == {"translatedText": "ba"}
        assert answer_of(halves[0]) == b""


def test_an_idle_connection_makes_room_first(monkeypatch):
    monkeypatch.setattr(connections, "_MOST_CONNECTIONS", 3)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(impatient(seconds=60))
        half = stack.enter_context(opened(address, HEAD))
        idle = opened(address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200 OK" in stack.enter_context(idle).recv(4096)
        for _ in range(2):
            stack.enter_context(opened(address, HEAD))
        answer_of(idle)  # to its end
        half.settimeout(0.1)
        with pytest.raises(TimeoutError):
            half.recv(1)


def test_the_number_of_connections_leaves_descriptors(monkeypatch):
    for limit, most in (
        *((1024, 768), (256, 128), (1, 1), (10**6, 4000)),
        (resource.RLIM_INFINITY, 4000),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, n=limit: (n, n))
        assert connections.protocol_of(1.0).max_connections == most


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("POST", "/translate"), ("POST", PREDICT), ("GET", "/languages")),
        ("GET", "/health"),
    ],
)
def test_a_page_of_an_allowed_origin_may_use_the_server(method, path):
    config = ServerConfig(allowed_origins=("https://b.example:8", "https://a.example"))
    asked = {
        **PAGE,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "content-type",
    }
    app = server.make_app(FakeModel().served(), config)
    with testclient.TestClient(app) as client:
        allowed = client.options(path, headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE["Origin"]
        assert method in allowed.headers["access-control-allow-methods"]
        assert "content-type" in allowed.headers["access-control-allow-headers"]
        answer = client.request(method, path, headers=PAGE)
        assert answer.headers["access-control-allow-origin"] == PAGE["Origin"]
        other = client.options(path, headers=asked | {"Origin": "https://c.example"})
        assert other.status_code == 400
        for origin in ("https://c.example", "null", "http://a.example"):
            answer = client.request(method, path, headers={"Origin": origin})
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        *(("/translate", b"{", 400), ("/nothing", b"", 404), (PREDICT, b"{}", 400)),
        ("/translate", b"x" * 2_000_001, 413),
        (PREDICT, b'{"inputs": ["bad"]}', 500),
    ],
)
def test_a_page_of_any_origin_can_read_errors(path, content, status):
    config = ServerConfig(allowed_origins=("*",))
    app = server.make_app(FakeModel().served(), config)
    headers = {**PAGE, "Content-Type": "application/json"}
    with testclient.TestClient(app) as client:
        answer = client.post(path, content=content, headers=headers)
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == "*"


def test_no_other_origin_may_use_the_server_unless_told():
    app = server.make_app(FakeModel().served(), ServerConfig())
    with testclient.TestClient(app) as client:
        asked = {**PAGE, "Access-Control-Request-Method": "POST"}
        refused = client.options("/translate", headers=asked)
        answer = client.post("/translate", json=ASK, headers=PAGE)
    assert refused.status_code == 405
    for each in (refused, answer):
        assert not any(name.startswith("access-control") for name in each.headers)


@pytest.mark.parametrize(
    "origin", ["", "a.example", "https://a.example/", "https://A.example", "null", "**"]
)
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(ValueError, match="`allowed_origin` must be"):
        ServerConfig(allowed_origins=(origin,))


def test_a_batch_that_does_not_end_does_not_hold_up_the_end(repository):
    """The client is told, and the process ends a second later."""
    with started(["-c", PROGRAM, "1"], repository) as (program, address):
        host = address.removeprefix("http://")
        body = json.dumps(ASK).encode()
        request = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        with opened(host, request) as asking, opened(host, HEAD):
            count = "keras_transformer_batch_size_count"
            wait_for(lambda: count in requests.get(f"{address}/metrics").text)
            began = time.monotonic()
            program.send_signal(signal.SIGTERM)
            assert b"The server stops" in answer_of(asking)
            assert program.wait(timeout=60) == 0
            assert time.monotonic() - began < 10
