"""The client against a server of TF Serving's protocols over a real SavedModel."""

import json
import random
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import client
from tests.export.small_server import MODEL_NAME, BatchingModel, serve
from tests.small_models import LINES, inputs_of

PROTOCOLS = ["grpc", "rest"]


@pytest.fixture(scope="module")
def model(small_export):
    return BatchingModel(small_export)


@pytest.fixture(scope="module")
def servers(model):
    with serve(model) as addresses:
        yield addresses


def config_of(servers, protocol, **options):
    values = {"server": servers[protocol], "model_name": MODEL_NAME, **options}
    return client.ClientConfig(protocol=protocol, **values)


@pytest.fixture(scope="module")
def texts():
    draw = random.Random(11)
    words = " ".join(LINES).split()
    return [" ".join(draw.choices(words, k=draw.randint(0, 12))) for _ in range(200)]


@pytest.fixture(scope="module")
def answers_alone(model, texts):
    """What each text gets in a request of its own, with nobody else there."""
    signature = model.signatures["serving_default"]
    return [signature(text=tf.constant([text])) for text in texts]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_200_requests_at_once_each_get_their_own_answer(
    servers, model, protocol, texts, answers_alone
):
    """Of mixed length, joined into batches by the server: none lost, none swapped."""
    model.batch_sizes.clear()
    config = config_of(servers, protocol, batch_size=1, concurrency=50)
    answers = client.ask(config, {"text": texts})
    assert max(model.batch_sizes) > 5
    assert sum(model.batch_sizes) == 200
    for answer, alone in zip(answers, answers_alone, strict=True):
        assert answer["score"] == pytest.approx(float(alone["score"][0]), abs=1e-4)
        assert answer["truncated"] == bool(alone["truncated"][0])
        assert answer["translation"] == alone["translation"].numpy()[0].decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["nbest", "prefix", "sample", "align", "score"])
def test_every_signature_can_be_asked(servers, model, protocol, name):
    texts = ["one two", "A dog runs!", ""]
    inputs = inputs_of(name, texts)
    answers = client.ask(
        config_of(servers, protocol, signature=name),
        {key: as_list(value) for key, value in inputs.items()},
    )
    wanted = model.signatures[name](**inputs)
    for key, value in wanted.items():
        for row, answer in enumerate(answers):
            own = value[row].numpy()
            if value.dtype != tf.string:
                np.testing.assert_allclose(answer[key], own, atol=1e-4)
            elif np.ndim(answer[key]):
                assert answer[key] == [text.decode() for text in own]
            else:
                assert answer[key] == own.decode()


def as_list(value):
    items = value.numpy().tolist()
    return [item.decode() if isinstance(item, bytes) else item for item in items]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_text_needs_no_answer(servers, protocol):
    assert client.ask(config_of(servers, protocol), {"text": []}) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_the_server_does_not_have_is_named(servers, protocol):
    config = config_of(servers, protocol, model_name="other")
    with pytest.raises(ValueError, match="has no model 'other' ready. Check --model"):
        client.ask(config, {"text": ["a"]})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_signature_the_model_does_not_have_is_named(servers, protocol):
    config = config_of(servers, protocol, signature="parse")
    with pytest.raises(ValueError, match="refused the request for signature 'parse'"):
        client.ask(config, {"text": ["a"]})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_absent_server_is_named_after_the_attempts(protocol):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = config_of({protocol: address}, protocol, attempts=2)
        with pytest.raises(ConnectionError, match=r"in 2 attempts. Check --server"):
            client.ask(config, {"text": ["a"]})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_server_runs_into_the_deadline(small_export, protocol):
    with serve(BatchingModel(small_export, delay_seconds=2.0)) as addresses:
        config = config_of(addresses, protocol, deadline_seconds=0.3)
        with pytest.raises(TimeoutError, match=r"within 0.3 seconds. Raise --deadline"):
            client.ask(config, {"text": ["a"]})


def test_a_busy_rest_server_is_asked_again(servers, monkeypatch):
    """Two refusals, then the answer."""
    connection = client.connect(config_of(servers, "rest"))
    post, statuses = connection._session.post, iter([503, 429])

    def busy(*arguments, **options):
        response = post(*arguments, **options)
        response.status_code = next(statuses, response.status_code)
        return response

    monkeypatch.setattr(connection._session, "post", busy)
    outputs = connection.predict({"text": ["one two"]})
    assert len(outputs["translation"]) == 1
    assert next(statuses, None) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"server": "localhost"}, "must be HOST:PORT"),
        ({"deadline_seconds": 0.0}, "`deadline_seconds` must be"),
        ({"attempts": 0}, "`attempts` must be at least 1"),
        ({"protocol": "http"}, "`protocol` must be one of"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    values = {"server": "localhost:1", "model_name": "m", **changes}
    with pytest.raises(ValueError, match=message):
        client.ClientConfig(**values)


def run_program(repository, *arguments, text=None):
    return subprocess.run(
        [sys.executable, repository / "export" / "client.py", *arguments],
        input=text,
        capture_output=True,
        text=True,
    )


def test_the_program_writes_translations_in_the_order_of_lines(
    repository, servers, model
):
    lines = ["A dog runs!", "", "one", "zwei eins one two three"]
    result = run_program(
        repository,
        f"--server={servers['rest']}",
        "--protocol=rest",
        f"--model_name={MODEL_NAME}",
        "--batch_size=2",
        text="\n".join(lines) + "\n",
    )
    assert result.returncode == 0, result.stderr
    wanted = model.signatures["serving_default"](text=tf.constant(lines))
    texts = [text.decode() for text in wanted["translation"].numpy()]
    assert result.stdout.split("\n")[:-1] == texts


def test_the_program_scores_line_by_line_as_json(repository, servers, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\nzwei\n")
    command = (
        f"--server={servers['grpc']}",
        f"--model_name={MODEL_NAME}",
        "--signature=score",
        f"--input={tmp_path}/a",
    )
    result = run_program(repository, *command, f"--second_input={tmp_path}/b")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [set(row) for row in rows] == [{"log_probability", "num_tokens"}] * 2
    (tmp_path / "b").write_text("eins\n")
    result = run_program(repository, *command, f"--second_input={tmp_path}/b")
    assert result.returncode == 1
    assert "has 1 lines and the input 2" in result.stderr
