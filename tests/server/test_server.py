"""The server as a whole: errors, metrics, clients over HTTP, and its end."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import requests
from starlette import testclient

import keras_transformer.server
from keras_transformer import opening
from keras_transformer.documents.protection import Protection
from keras_transformer.server import model_loading, server
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.serving import client
from tests.server.fake_model import FakeModel
from tests.server.page_model import make_page_model
from tests.server.running import running

PREDICT = "/v1/models/translation:predict"


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture
def ask(model):
    """Return what posts texts to the server of the model."""
    config = ServerConfig(
        batch_timeout_ms=0, num_batch_threads=1, max_queued_texts=3, max_texts=3
    )
    with testclient.TestClient(server.make_app(model.served(), config)) as opened:

        def post(*texts):
            return opened.post(PREDICT, json={"inputs": texts})

        post.client = opened
        yield post


def test_a_model_that_fails_answers_with_one_line(ask, caplog):
    response = ask("bad")
    assert response.status_code == 500
    assert response.json() == {"error": "The model failed: a weight is missing"}
    assert caplog.messages == ["The model failed on a batch: a weight is missing"]
    assert ask("good").json()["outputs"]["translation"] == ["doog"]


def test_a_defect_of_the_server_answers_with_one_line(ask, monkeypatch, caplog):
    def fail(array):
        raise KeyError("a\nb")

    monkeypatch.setattr("keras_transformer.server.tf_serving_rest._unnamed", fail)
    response = ask("a")
    assert response.status_code == 500
    assert response.json() == {"error": "Internal error: KeyError"}
    assert caplog.messages == [f"POST {PREDICT}: KeyError('a\\nb')"]
    assert not caplog.records[0].exc_info


def test_a_full_queue_says_when_to_come_again(model, ask):
    model.gate.clear()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(ask, "a")
        wait_for(lambda: "keras_transformer_batch_size_count" in metrics(ask))
        second = pool.submit(ask, "b", "c")
        wait_for(lambda: "keras_transformer_queued_texts 2.0" in metrics(ask))
        refused = ask("d", "e")
        model.gate.set()
        assert {first.result().status_code, second.result().status_code} == {200}
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert "The queue of the server is full" in refused.json()["error"]


def metrics(ask):
    return ask.client.get("/metrics").text


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_unknown_addresses_and_methods_are_named(ask):
    response = ask.client.get("/../../etc/passwd")
    assert response.status_code == 404
    assert response.json() == {"error": "Not Found: GET /etc/passwd"}
    response = ask.client.get("/" + "x" * 5000)
    assert response.status_code == 404
    assert len(response.json()["error"]) == 303
    response = ask.client.put("/languages")
    assert response.status_code == 405
    assert response.json() == {"error": "Method Not Allowed: PUT /languages"}


def test_metrics_count_requests_by_route_and_batches_by_size(ask):
    ask("a", "b", "c")
    ask("a")
    ask(7)
    for address in ("/nothing", "/v1/models/other"):
        ask.client.get(address)
    text = ask.client.get("/monitoring/prometheus/metrics").text
    requests_total = "keras_transformer_requests_total"
    route = 'route="/v1/models/{name}:predict"'
    for line in (
        f'{requests_total}{{{route},status="200"}} 2.0',
        f'{requests_total}{{{route},status="400"}} 1.0',
        f'{requests_total}{{route="/v1/models/{{name}}",status="404"}} 1.0',
        f'{requests_total}{{route="other",status="404"}} 1.0',
        f"keras_transformer_request_seconds_count{{{route}}} 3.0",
        'keras_transformer_batch_size_sum{signature="serving_default"} 4.0',
        'keras_transformer_batch_size_bucket{le="2.0",signature="serving_default"} 1.0',
        "keras_transformer_queued_texts 0.0",
        "keras_transformer_search_programs 0.0",
    ):
        assert line in text.splitlines(), line
    assert "keras_transformer_requests_total" in metrics(ask)


def test_a_client_that_leaves_is_dropped(model):
    """Its text is not translated; those of others are."""
    config = ServerConfig(batch_timeout_ms=0, num_batch_threads=1)
    with running(server.make_app(model.served(), config)) as address:
        model.gate.clear()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            url = f"http://{address}{PREDICT}"
            asked = [pool.submit(requests.post, url, json={"inputs": ["first"]})]
            metrics_url = f"http://{address}/metrics"

            def shows(text):
                return lambda: text in requests.get(metrics_url).text

            wait_for(shows("keras_transformer_batch_size_count"))
            with socket.create_connection(address.split(":")) as leaving:
                body = json.dumps({"inputs": ["gone"]}).encode()
                length = f"Content-Length: {len(body)}".encode()
                leaving.sendall(
                    b"POST %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n%s"
                    % (PREDICT.encode(), length, body)
                )
                wait_for(shows("keras_transformer_queued_texts 1.0"))
            wait_for(shows("keras_transformer_queued_texts 0.0"))
            asked.append(pool.submit(requests.post, url, json={"inputs": ["stays"]}))
            wait_for(shows("keras_transformer_queued_texts 1.0"))
            model.gate.set()
            assert [each.result().status_code for each in asked] == [200, 200]
            assert 'status="499"} 1.0' in requests.get(metrics_url).text
    assert model.batches == [["first"], ["stays"]]


def test_a_client_that_leaves_in_its_request_is_no_error(model, caplog):
    with running(server.make_app(model.served(), ServerConfig())) as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = "HTTP/1.1\r\nHost: x\r\nContent-Length: 9"
            connection.sendall(f"POST {PREDICT} {head}\r\n\r\n{{".encode())
        count = 'keras_transformer_requests_total{{route="{}",status="499"}} 1.0'
        wanted = count.format("/v1/models/{name}:predict")
        metrics_url = f"http://{address}/metrics"
        wait_for(lambda: wanted in requests.get(metrics_url).text)
    assert caplog.messages == []


def test_our_client_of_tf_serving_works_unchanged(model):
    """Texts of many requests at once; each gets its own answer."""
    texts = [f"text {number * 7919 % 100_003}" for number in range(200)]
    with running(server.make_app(model.served(), ServerConfig())) as address:
        config = client.ClientConfig(
            address, "translation", "rest", batch_size=1, concurrency=23
        )
        answers = [*client.ask(config, {"text": texts})]
    assert [answer["translation"] for answer in answers] == [
        text[::-1] for text in texts
    ]
    assert max(map(len, model.batches)) > 1


def test_a_server_that_ends_finishes_what_it_accepted(model):
    async def story():
        app = server.make_app(
            model.served(), ServerConfig(batch_timeout_ms=0, num_batch_threads=1)
        )
        async with app.router.lifespan_context(app):
            sent = []

            async def send(message):
                sent.append(message)

            async def receive():
                if sent or receive.is_read:
                    await asyncio.sleep(60)
                receive.is_read = True
                return {"type": "http.request", "body": b'{"inputs": ["a"]}'}

            receive.is_read = False
            model.gate.clear()
            scope = {
                "type": "http",
                "method": "POST",
                "path": PREDICT,
                "headers": [],
                "query_string": b"",
            }
            task = asyncio.create_task(app(scope, receive, send))
            await asyncio.sleep(0.05)
            task.cancel()
            await task
            model.gate.set()
            return sent

    started, body = asyncio.run(story())
    assert started["status"] == 503
    assert json.loads(body["body"]) == {"error": "The server stops"}


def test_short_answers_are_not_delayed():
    """Asyncio tells the system so for sockets that it knows to be TCP."""
    with server.bind("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.proto == socket.IPPROTO_TCP


def test_an_occupied_port_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = f"Cannot listen on port {port} of 127.0.0.1: Address already in use"
        with pytest.raises(OSError, match=message):
            server.bind("127.0.0.1", port)


def test_an_unknown_host_is_named():
    with pytest.raises(OSError, match=r"Cannot listen on port 1 of no host: .*--host"):
        server.bind("no host", 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_batch_size": 0}, "`max_batch_size` must be at least 1"),
        ({"batch_timeout_ms": -1.0}, "`batch_timeout_ms` must be at least 0 and less"),
        ({"batch_timeout_ms": float("nan")}, "`batch_timeout_ms` must be at least 0"),
        ({"drain_seconds": 0.0}, "`drain_seconds` must be a finite number above 0"),
        ({"max_texts": 1001}, "`max_texts` must be at most `max_queued_texts`"),
    ],
)
def test_settings_outside_their_range_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        ServerConfig(**values)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Give one of --model_dir and --saved_model"),
        ({"model_dir": "a", "saved_model": "b"}, "Give one of --model_dir and --saved"),
        (
            {"saved_model": "b", "beam_size": 2},
            "--beam_size is fixed when a model is exported",
        ),
        ({"model_dir": "a", "max_texts": 2000}, "`max_texts` must be at most"),
    ],
)
def test_the_program_refuses_wrong_flags(program_of, given, message):
    with pytest.raises(ValueError, match=message):
        program_of("export/serve.py")(**given)


def test_the_program_prints_and_returns_its_address(program_of, monkeypatch, capsys):
    served = FakeModel().served()
    monkeypatch.setattr(opening, "open_model", lambda *_, **__: None)
    monkeypatch.setattr(model_loading, "served", lambda model, size: served)
    monkeypatch.setattr(server, "serve", lambda app, listener, config: None)
    summary = program_of("export/serve.py")(saved_model="b", port=0, model_name="mine")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", summary["address"])
    captured = capsys.readouterr()
    assert captured.out == f"serving mine at {summary['address']}\n"
    assert captured.err == ""


def test_the_program_protects_what_its_flags_say(
    program_of, monkeypatch, tmp_path, capsys
):
    (tmp_path / "terms").write_text("dog\tKöter\n")
    served = make_page_model()
    monkeypatch.setattr(opening, "open_model", lambda *_, **__: None)
    monkeypatch.setattr(model_loading, "served", lambda model, size: served)
    answers = []

    def serve(app, listener, config):
        with testclient.TestClient(app) as client:
            fields = {"q": "a dog", "source": "en", "target": "de"}
            answers.append(client.post("/translate", json=fields).json())

    monkeypatch.setattr(server, "serve", serve)
    run = program_of("export/serve.py")
    run(saved_model="b", port=0, protect="urls", glossary=tmp_path / "terms")
    assert answers == [{"translatedText": "Köter A"}]
    assert "The model has no placeholders" in capsys.readouterr().err
    with pytest.raises(ValueError, match="`protect` must be one of"):
        run(saved_model="b", port=0, protect="ulrs")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("align", "need a model with placeholders or the signature align"),
        ("serving_default", "need a model with the signature serving_default"),
    ],
)
def test_a_model_that_cannot_protect_is_refused(missing, message):
    model = make_page_model(missing)
    server.make_app(model, ServerConfig(), Protection())
    with pytest.raises(ValueError, match=f"--protect and --glossary {message}"):
        server.make_app(model, ServerConfig(), Protection(["urls"]))


def test_the_program_names_the_extra_that_is_missing(program_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "keras_transformer.server.server")
    monkeypatch.delattr(keras_transformer.server, "server")
    message = r"The server needs fastapi: install keras_transformer\[server\]."
    with pytest.raises(ValueError, match=message):
        program_of("export/serve.py")(saved_model="b")


# Serves a model whose batches run once a line comes on standard input.
PROGRAM = """
import sys, threading
from keras_transformer.server import server
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.server.page_model import make_page_model

model = FakeModel()
model.gate.clear()
threading.Thread(target=lambda: sys.stdin.readline() and model.gate.set()).start()
with server.bind("127.0.0.1", 0) as listener:
    config = ServerConfig(drain_seconds=float(sys.argv[1]))
    app = server.make_app(model.served(), config)
    listener.listen()
    print("at http://127.0.0.1:%s" % listener.getsockname()[1], flush=True)
    server.serve(app, listener, config)
"""


@contextlib.contextmanager
def started(command, repository):
    """Run a program that serves a model; yields it and its address."""
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=repository,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            yield program, program.stdout.readline().split()[-1]
        finally:
            program.kill()


def check_end(program, address, number, texts):
    """Send a signal while the texts are translated, which then ends well."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(requests.post, address + PREDICT, json={"inputs": texts})
        count = 'batch_size_count{signature="serving_default"}'
        wait_for(lambda: count in requests.get(f"{address}/metrics").text)
        program.send_signal(number)
        with contextlib.suppress(BrokenPipeError):
            program.stdin.write("\n")
            program.stdin.flush()
        outputs = asked.result().json()["outputs"]
    assert len(outputs["translation"]) == len(texts)
    assert program.wait(timeout=60) == 0
    assert program.stderr.read() == ""
    with pytest.raises(requests.ConnectionError):
        requests.get(address)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_accepted_is_finished_after_a_signal(repository, number):
    with started(["-c", PROGRAM, "60"], repository) as (program, address):
        check_end(program, address, number, ["one", "two"])


@pytest.mark.long
def test_the_program_ends_well_at_sigterm(repository, small_export):
    command = ["export/serve.py", f"--saved_model={small_export}", "--port=0"]
    with started(command, repository) as (program, address):
        texts = [f"A dog runs {count}!" for count in range(128)]
        check_end(program, address, signal.SIGTERM, texts)
