"""The client with a test server that speaks TF Serving's protocols."""

import concurrent.futures
import contextlib
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.serving import client
from tests.export.small_server import MODEL_NAME, BatchingModel, Door, serve
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
    """The answer to each text in a request of its own."""
    signature = model.signatures["serving_default"]
    return [signature(text=tf.constant([text])) for text in texts]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_200_concurrent_requests_each_get_their_own_answer(
    servers, model, protocol, texts, answers_alone
):
    """Texts of mixed length, which the server batches: none is lost or swapped."""
    model.batch_sizes.clear()
    config = config_of(servers, protocol, batch_size=1, concurrency=50)
    answers = list(client.ask(config, {"text": texts}))
    assert max(model.batch_sizes) > 5
    assert sum(model.batch_sizes) == 200
    for answer, alone in zip(answers, answers_alone, strict=True):
        assert answer["score"] == pytest.approx(float(alone["score"][0]), abs=1e-4)
        assert answer["truncated"] == bool(alone["truncated"][0])
        assert answer["translation"] == alone["translation"].numpy()[0].decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "name", ["nbest", "prefix", "sample", "align", "score", "document"]
)
def test_every_signature_can_be_asked(servers, model, protocol, name):
    texts = ["one two", "A dog runs!", ""]
    inputs = inputs_of(name, texts)
    config = config_of(servers, protocol, signature=name)
    lists = {key: as_list(value) for key, value in inputs.items()}
    check_answers(client.ask(config, lists), model.signatures[name](**inputs))


def check_answers(answers, wanted):
    """Compare the client's answers with the outputs of the signature."""
    answers = list(answers)
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
def test_no_texts_give_no_answers(servers, protocol):
    assert list(client.ask(config_of(servers, protocol), {"text": []})) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_texts_come_in_any_form(servers, protocol):
    """One is one text, not its letters."""
    config = config_of(servers, protocol)
    (expected,) = client.ask(config, {"text": ["A dog"]})
    for form in ("A dog", b"A dog", np.array(["A dog"]), tf.constant(["A dog"])):
        assert [*client.ask(config, {"text": form})] == [expected]


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"text": None}, TypeError, "`text` must be strings. Received: None."),
        ({"text": ["a", 5]}, TypeError, r"must be strings. Received: text\[1\]=5."),
        ({"text": [["a"]]}, TypeError, r"Received: text\[0\]=\['a'\]."),
        (
            {"text": ["a", "b"], "prefix": ["a"]},
            ValueError,
            "the same number of items, one for each text. Received: text=2, prefix=1.",
        ),
    ],
)
def test_what_is_no_text_is_named_before_it_is_sent(inputs, error, message):
    config = client.ClientConfig("nowhere:1", MODEL_NAME)
    with pytest.raises(error, match=message):
        next(client.ask(config, inputs))


@pytest.mark.long(first=1)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_parser_can_be_asked(small_parser_export, program_of, tmp_path, protocol):
    """The program writes one tree per line; the library also returns scores."""
    texts = ["one two", "A dog runs!", "", "zwei eins one two three"]
    (tmp_path / "texts").write_text("\n".join(texts) + "\n")
    parser = BatchingModel(small_parser_export)
    wanted = parser.signatures["parse"](text=tf.constant(texts))
    with serve(parser) as addresses:
        config = config_of(addresses, protocol, signature="parse")
        check_answers(client.ask(config, {"text": texts}), wanted)
        program_of("export/client.py")(
            server=addresses[protocol],
            protocol=protocol,
            model_name=MODEL_NAME,
            signature="parse",
            input=tmp_path / "texts",
            output=tmp_path / "trees",
        )
    trees = [tree.decode() for tree in wanted["tree"].numpy()]
    assert (tmp_path / "trees").read_text().split("\n")[:-1] == trees


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_the_server_does_not_have_is_named(servers, protocol):
    config = config_of(servers, protocol, model_name="other")
    with pytest.raises(ValueError, match="has no model 'other' ready. Check --model"):
        list(client.ask(config, {"text": ["a"]}))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_signature_the_model_does_not_have_is_named(servers, protocol):
    config = config_of(servers, protocol, signature="parse")
    with pytest.raises(ValueError, match="rejected the request for signature 'parse'"):
        list(client.ask(config, {"text": ["a"]}))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_absent_server_is_named_at_the_deadline(protocol):
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = config_of({protocol: address}, protocol, deadline_seconds=0.3)
        with pytest.raises(ConnectionError, match=r"within 0.3 seconds. Check --serve"):
            list(client.ask(config, {"text": ["a"]}))


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances only while the client waits."""

    class Clock(threading.Event):
        now = 100.0

        def wait(self, seconds):
            self.now += seconds

    clock = Clock()
    monkeypatch.setattr(client.time, "monotonic", lambda: clock.now)
    return clock


def test_a_request_is_retried_until_the_deadline(clock):
    """Waits double from 0.1 to 2 seconds; jitter shortens each by at most half."""
    lefts = []

    def attempt(left):
        lefts.append(left)
        raise client.NoAnswerError("connection refused")

    config = client.ClientConfig("localhost:1", "m", deadline_seconds=600)
    with pytest.raises(ConnectionError, match="600 seconds.* error: connection refus"):
        client.retry(config, attempt, clock)
    assert clock.now == pytest.approx(700)
    waits = -np.diff(lefts)
    longest = np.minimum(0.1 * 2.0 ** np.arange(len(waits)), 2.0)
    assert (longest / 2 <= waits).all()
    assert (waits <= longest).all()
    assert len(set(np.round(waits[10:], 6))) > 10  # clients do not synchronize


@pytest.mark.parametrize(
    ("seconds", "message"), [(1, "within 1 second. "), (1.5, "within 1.5 seconds. ")]
)
def test_messages_use_the_singular_for_one_second(clock, seconds, message):
    def attempt(left):
        raise client.NoAnswerError("busy")

    config = client.ClientConfig("localhost:1", "m", deadline_seconds=seconds)
    with pytest.raises(ConnectionError, match=re.escape(message)):
        client.retry(config, attempt, clock)


def test_nothing_is_retried_once_it_is_over(clock):
    def attempt(left):
        clock.set()
        raise client.NoAnswerError("busy")

    with pytest.raises(ConnectionError, match="Last error: busy"):
        client.retry(client.ClientConfig("localhost:1", "m"), attempt, clock)
    assert clock.now < 101


def test_batches_have_nearby_rows_of_similar_length():
    lengths = [draw % 37 for draw in range(0, 7 * 500, 7)]
    batches = client.in_batches(lengths, 11)
    assert sorted(row for batch in batches for row in batch) == list(range(500))
    assert {len(batch) for batch in batches[:-1]} == {11}
    assert max(max(batch) - min(batch) for batch in batches) < 11 * 16
    spreads = [
        max(lengths[row] for row in batch) - min(lengths[row] for row in batch)
        for batch in batches
    ]
    assert np.mean(spreads) < 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_slow_server_exceeds_the_deadline(servers, model, monkeypatch, protocol):
    monkeypatch.setattr(model, "delay_seconds", 1.0)
    config = config_of(servers, protocol, deadline_seconds=0.3)
    with pytest.raises(TimeoutError, match=r"within 0.3 seconds. Raise --deadline"):
        list(client.ask(config, {"text": ["a"]}))


@pytest.mark.long(first=2)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("absent_seconds", "busy_seconds"), [(1.0, 1.0), (5.0, 4.0)])
def test_every_line_is_answered_whatever_the_server_does(
    program_of, door, model, answers_alone, protocol, absent_seconds, busy_seconds
):
    """The server is absent, then busy, dies while it answers and comes back."""
    seen = []

    def play():
        time.sleep(absent_seconds)
        model.is_busy = True
        door.open()
        time.sleep(busy_seconds)
        wait_for(lambda: model.num_refused > 4)
        model.is_busy = False
        wait_for(door.partial.exists)
        wait_for(door.partial.read_text)
        door.shut()
        seen.extend(door.partial.read_text().split("\n")[:-1])
        time.sleep(absent_seconds)
        door.open()

    model.num_refused = 0
    with played(play):
        assert ask_program(program_of, door, protocol) == {"lines": 200}
    assert 0 < len(seen) < 200
    translations = [texts_of(answer)[0] for answer in answers_alone]
    assert translations[: len(seen)] == seen
    assert door.output.read_text().split("\n")[:-1] == translations
    assert not door.partial.exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_answers_so_far_are_kept_if_the_server_does_not_come_back(
    program_of, door, answers_alone, protocol
):
    def play():
        wait_for(door.partial.exists)
        wait_for(door.partial.read_text)
        door.shut()

    door.open()
    with (
        played(play),
        pytest.raises(ConnectionError, match=r"within 1 second\.") as caught,
    ):
        ask_program(program_of, door, protocol, deadline_seconds=1.0)
    kept = door.partial.read_text().split("\n")[:-1]
    assert 0 < len(kept) < 200
    assert caught.value.__notes__ == [
        f"{door.partial} keeps the first {len(kept)} lines."
    ]
    assert kept == [texts_of(answer)[0] for answer in answers_alone[: len(kept)]]
    assert not door.output.exists()


@pytest.fixture
def door(servers, model, protocol, texts, tmp_path, monkeypatch):
    """A proxy to the server that can be shut, with files for the program."""
    monkeypatch.setattr(model, "delay_seconds", 0.05)
    monkeypatch.setattr(model, "is_busy", False)
    with contextlib.closing(Door(servers[protocol])) as door:
        door.input = tmp_path / "texts"
        door.input.write_text("\n".join(texts) + "\n")
        door.output, door.partial = tmp_path / "out", tmp_path / "out.partial"
        yield door


@contextlib.contextmanager
def played(story):
    """Run `story` in another thread."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        told = pool.submit(story)
        yield
        told.result()


def wait_for(condition):
    """Wait until a condition holds; time out after 60 s."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def texts_of(answer):
    return [text.decode() for text in answer["translation"].numpy()]


def ask_program(program_of, door, protocol, **options):
    return program_of("export/client.py")(
        server=door.address,
        protocol=protocol,
        model_name=MODEL_NAME,
        batch_size=2,
        input=door.input,
        output=door.output,
        **options,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"server": "localhost"}, "must be HOST:PORT"),
        ({"deadline_seconds": 0.0}, "`deadline_seconds` must be"),
        ({"concurrency": 0}, "`concurrency` must be at least 1"),
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
    lines = ["A dog runs!", "", "one", "zwei eins one two three", "2, 3, 5 " * 20]
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
    assert "1 of 5 sources were cut to the model's limit. Divide" in result.stderr


def test_the_program_translates_paragraphs_and_keeps_their_layout(
    repository, servers, model
):
    text = "\tA dog runs! One two.\n\n- zwei eins " + "2, 3, 5 " * 20
    result = run_program(
        repository,
        f"--server={servers['rest']}",
        "--protocol=rest",
        f"--model_name={MODEL_NAME}",
        "--signature=document",
        text=text,
    )
    assert result.returncode == 0, result.stderr
    wanted = model.signatures["document"](text=tf.constant([text]))
    assert result.stdout == wanted["translation"].numpy()[0].decode()
    assert result.stdout.startswith("\t") and "\n\n- " in result.stdout
    assert "were cut" not in result.stderr


@pytest.mark.long
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
    assert "has 1 line and the input 2 lines: line n of both" in result.stderr
