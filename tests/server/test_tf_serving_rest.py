"""TF Serving's REST API as our server speaks it, in this process."""

import json
import math

import pytest
import tensorflow as tf
from starlette import testclient

from keras_transformer.opening import of_run, open_model
from keras_transformer.server import model_loading, server, tf_serving_rest
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.small_models import inputs_of, make_translator

MODEL = "/v1/models/translation"


@pytest.fixture(scope="module")
def client():
    """A client of a server of a fake model with small limits."""
    config = ServerConfig(max_texts=5, max_characters=13, max_body_bytes=700)
    with testclient.TestClient(server.make_app(FakeModel().served(), config)) as client:
        yield client


def predict(client, body, address=f"{MODEL}:predict"):
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    return client.post(address, content=content)


def error_of(response, status):
    """Return the message of an answer that must be an error on one line."""
    assert response.status_code == status, response.text
    assert response.json().keys() == {"error"}
    assert "\n" not in response.json()["error"]
    return response.json()["error"]


def test_the_state_of_the_model(client):
    expected = {
        "model_version_status": [
            {
                "version": "7",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }
    assert client.get(MODEL).json() == expected
    assert client.get(f"{MODEL}/versions/7").json() == expected


def test_the_metadata_have_each_input_and_output(client):
    answer = client.get(f"{MODEL}/metadata").json()
    assert answer["model_spec"] == {
        "name": "translation",
        "signature_name": "",
        "version": "7",
    }
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert signatures.keys() == FakeModel().served().signatures.keys()
    align = signatures["align"]
    assert align["inputs"]["text"]["dtype"] == "DT_STRING"
    assert align["outputs"]["attention"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}] * 3,
            "unknown_rank": False,
        },
        "name": "attention:0",
    }
    assert signatures["sample"]["inputs"]["seed"]["dtype"] == "DT_INT32"


@pytest.mark.parametrize("address", [f"{MODEL}:predict", f"{MODEL}/versions/7:predict"])
@pytest.mark.parametrize(
    "inputs", [["ab", "ü"], {"text": ["ab", "ü"]}, {"text": [{"b64": "YWI="}, "ü"]}]
)
def test_columns_are_answered_with_columns(client, address, inputs):
    answer = predict(client, {"inputs": inputs}, address)
    assert answer.json() == {
        "outputs": {"translation": ["ba", "ü"], "score": [0.5, 0.5]}
    }
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "instances", [["ab", "ü"], [{"text": "ab"}, "ü"], [{"b64": "YWI="}, {"text": "ü"}]]
)
def test_rows_are_answered_with_rows(client, instances):
    answer = predict(client, {"instances": instances})
    rows = [{"translation": "ba", "score": 0.5}, {"translation": "ü", "score": 0.5}]
    assert answer.json() == {"predictions": rows}


def test_a_single_output_has_no_name(client):
    """As in TF Serving."""
    body = {"signature_name": "nbest", "inputs": ["ab"]}
    assert predict(client, body).json() == {"outputs": [["ba", "BA", ""]]}
    body = {"signature_name": "nbest", "instances": ["ab"]}
    assert predict(client, body).json() == {"predictions": [["ba", "BA", ""]]}


def test_columns_have_one_shape_and_rows_that_of_their_batch():
    app = server.make_app(FakeModel().served(), ServerConfig(max_batch_size=1))
    body = {"signature_name": "align"}
    with testclient.TestClient(app) as client:
        columns = predict(client, {**body, "inputs": ["ab", "\u4e2d\0"]}).json()
        rows = predict(client, {**body, "instances": ["ab", "c"]}).json()
    assert columns["outputs"] == {
        "pieces": [["b", "a", "", ""], ["\0", "\ufffd", "\ufffd", "\ufffd"]],
        "attention": [[1.0, 1.0, 0.0, 0.0], [1.0] * 4],
    }
    assert rows["predictions"] == [
        {"pieces": ["b", "a"], "attention": [1.0, 1.0]},
        {"pieces": ["c"], "attention": [1.0]},
    ]


def test_numbers_reach_the_signature(client):
    """NaN too, which TF Serving takes for a float and JavaScript's JSON does not."""
    row = {"text": "ab", "temperature": math.nan, "seed": -7}
    body = {"signature_name": "sample", "instances": [row]}
    answer = predict(client, body).json()
    assert answer == {"predictions": [{"translation": "ba", "seed": -7}]}
    assert '"score": [NaN]' in predict(client, {"inputs": ["nan"]}).text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"inputs": []}, {"outputs": {"translation": [], "score": []}}),
        ({"inputs": {"text": []}}, {"outputs": {"translation": [], "score": []}}),
        ({"instances": []}, {"predictions": []}),
    ],
)
def test_no_texts_give_no_answers(client, body, expected):
    assert predict(client, body).json() == expected


def test_invalid_utf8_reaches_the_model_as_bytes(client):
    """A lone surrogate is three bytes that are not valid UTF-8."""
    answer = predict(client, '{"inputs": ["a\\ud800"]}').json()
    assert answer["outputs"]["translation"] == ["\ufffd\ufffd\ufffda"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "JSON Parse error: Expecting property name"),
        ("", "JSON Parse error: Expecting value"),
        (b'{"inputs": "\xff"}', "The body is not valid UTF-8 at byte 13"),
        ("[" * 600, "JSON Parse error: "),
        ('{"inputs": [' + "7" * 500 + "]}", "must be of type string. Received: 777"),
        ([], "The body must be a JSON object"),
        ({}, 'Give one of "inputs" and "instances"'),
        ({"inputs": [], "instances": []}, 'Give one of "inputs" and "instances"'),
        ({"inputs": "a"}, "The inputs must be text. Received: 'a'"),
        ({"inputs": None}, "The inputs must be text. Received: None"),
        ({"inputs": {"txt": ["a"]}}, "The inputs must be text. Received: ['txt']"),
        ({"inputs": {"text": "a"}}, "Input text must be a list with one item per text"),
        ({"inputs": [1]}, "input text must be of type string. Received: 1"),
        ({"inputs": [math.nan]}, "must be of type string. Received: nan"),
        ('{"inputs": [-1e400]}', "JSON Parse error: -1e400 is beyond the range of"),
        (
            '{"signature_name": "sample", "instances": '
            '[{"text": "a", "temperature": 1e400, "seed": 1}]}',
            "JSON Parse error: 1e400 is beyond the range of float64",
        ),
        ({"inputs": [["a"]]}, "must be of type string. Received: ['a']"),
        ({"inputs": [{"b64": "?"}]}, "of type string. Received: {'b64': '?'}"),
        ({"inputs": [{"b64": 7}]}, "of type string. Received: {'b64': 7}"),
        ({"instances": "a"}, '"instances" must be a list'),
        ({"instances": [{}]}, "must be an object with text. Received: {}"),
        (
            {"instances": [{"text": "a"}], "signature_name": "sample"},
            "an object with text, temperature, seed. Received: {'text': 'a'}",
        ),
        (
            {"inputs": ["a"], "signature_name": "no\nsuch"},
            "Serving signature 'no\\nsuch' not found; there are serving_default, nbest",
        ),
        ({"inputs": ["a"], "signature_name": ["a"]}, "signature ['a'] not found"),
    ],
)
def test_a_wrong_body_is_refused(client, body, message):
    assert message in error_of(predict(client, body), 400)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 2**31),
        ("seed", 1.0),
        ("seed", True),
        ("seed", math.nan),
        ("temperature", 1e39),
        ("temperature", 10**400),
        ("seed", -(10**400)),
        ("temperature", "1"),
        ("temperature", None),
    ],
)
def test_a_wrong_number_is_refused(client, name, value):
    inputs = {"text": ["a"], "temperature": [1], "seed": [1], name: [value]}
    answer = predict(client, {"signature_name": "sample", "inputs": inputs})
    dtype = "int32" if name == "seed" else "float32"
    message = f"Each item of input {name} must be of type {dtype}. Received: "
    assert message in error_of(answer, 400)


def test_columns_of_different_lengths_are_refused(client):
    inputs = {"text": ["a", "b"], "temperature": [1], "seed": [1, 2]}
    answer = predict(client, {"signature_name": "sample", "inputs": inputs})
    assert error_of(answer, 400) == (
        "The inputs must have the same number of items, one for each text. Received: "
        "text=2, temperature=1, seed=2."
    )


def test_deep_json_is_refused():
    """Deeper than Python's parser goes."""
    app = server.make_app(FakeModel().served(), ServerConfig())
    with testclient.TestClient(app) as client:
        for text in ("[" * 100_000, '{"a":' * 100_000):
            message = error_of(predict(client, text), 400)
            assert message == "JSON Parse error: it is nested too deeply"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": ["a"] * 6}, "A request may have 5 texts. Received: 6. Send severa"),
        ({"instances": ["a"] * 6}, "A request may have 5 texts. Received: 6"),
        ({"inputs": ["a" * 14]}, "A text may have 13 characters. Received: 14. Split"),
        ({"inputs": ["a" * 700]}, "The body may have 700 bytes"),
    ],
)
def test_requests_beyond_the_limits_are_refused(client, body, message):
    assert message in error_of(predict(client, body), 413)


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("/v1/models/other:predict", "Latest(other)"),
        ("/v1/models/other/versions/7:predict", "Specific(other, 7)"),
        (f"{MODEL}/versions/8:predict", "Specific(translation, 8)"),
        (f"{MODEL}/versions/x:predict", "Specific(translation, x)"),
    ],
)
def test_another_model_or_version_is_not_found(client, address, asked):
    """With the words of TF Serving."""
    message = error_of(predict(client, {"inputs": ["a"]}, address), 404)
    assert message == f"Servable not found for request: {asked}"
    status = address.removesuffix(":predict")
    assert asked in error_of(client.get(status), 404)
    assert asked in error_of(client.get(f"{status}/metadata"), 404)


@pytest.fixture(scope="module")
def exported(small_export):
    """The signatures of a small model, the model as served, and a client of it."""
    loaded = tf.saved_model.load(str(small_export))
    model = model_loading.served(open_model(small_export, "serve"))
    app = server.make_app(model, ServerConfig(batch_timeout_ms=0))
    with testclient.TestClient(app) as client:
        yield loaded.signatures, model, client


@pytest.mark.long
def test_an_export_is_served_with_all_its_signatures(exported):
    signatures, model, _ = exported
    assert model.signatures.keys() == signatures.keys()
    assert model.version == 1
    sample = model.signatures["sample"].inputs
    assert {name: info.dtype for name, info in sample.items()} == {
        "text": "string",
        "temperature": "float32",
        "top_k": "int32",
        "top_p": "float32",
        "seed": "int32",
    }
    assert all(info.shape == (None,) for info in sample.values())
    assert model.signatures["nbest"].outputs["scores"].shape[1] in (3, None)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["serving_default", "nbest", "prefix", "sample", "align", "score", "document"],
)
def test_every_signature_answers_as_the_export_does(exported, name):
    signatures, _, client = exported
    inputs = inputs_of(name, ["one two", "A dog runs!", ""])
    expected = signatures[name](**inputs)
    columns = {
        key: [
            item.decode() if isinstance(item, bytes) else item
            for item in value.numpy().tolist()
        ]
        for key, value in inputs.items()
    }
    body = {"signature_name": name, "inputs": columns}
    outputs = predict(client, body).json()["outputs"]
    assert outputs.keys() == expected.keys()
    for key, value in expected.items():
        if value.dtype == tf.string:
            own = tf.constant(outputs[key], tf.string)
            assert own.numpy().tolist() == value.numpy().tolist()
        else:
            assert outputs[key] == pytest.approx(value.numpy(), abs=1e-4)


@pytest.mark.long
def test_a_trained_model_is_served_as_its_export_is(
    exported, translator_dir, monkeypatch
):
    """With the same signatures, inputs, outputs and answers."""
    translator = make_translator()
    monkeypatch.setattr(of_run, "_load_translator", lambda *_, **__: translator)
    model = model_loading.served(open_model(translator_dir, "serve"))
    assert model.target_language == "trees"
    _, expected, client = exported
    assert model.signatures.keys() == expected.signatures.keys()
    for name, signature in model.signatures.items():
        assert signature.inputs == expected.signatures[name].inputs
        assert signature.outputs.keys() == expected.signatures[name].outputs.keys()
    texts = ["one two", "A dog runs!"]
    found = model.run("serving_default", {"text": texts})["translation"]
    outputs = predict(client, {"inputs": texts}).json()["outputs"]
    assert [text.decode() for text in found] == outputs["translation"]


@pytest.mark.long
def test_a_parser_has_no_languages(parser_dir):
    with pytest.raises(ValueError, match="are for translation models, but .* a parser"):
        open_model(parser_dir, "serve", languages=(None, "de"))


@pytest.mark.long
def test_a_parser_is_served(parser_dir, small_parser_export):
    """From its training folder and as an export, without LibreTranslate's API."""
    for model in (
        model_loading.served(open_model(parser_dir, "serve")),
        model_loading.served(open_model(small_parser_export, "serve")),
    ):
        with testclient.TestClient(server.make_app(model, ServerConfig())) as client:
            body = {"signature_name": "parse", "instances": ["one two"]}
            (row,) = predict(client, body).json()["predictions"]
            assert row.keys() == {"tree", "score", "truncated", "valid"}
            message = error_of(predict(client, {"inputs": ["a"]}), 400)
            assert "'serving_default' not found; there are parse" in message
            assert "POST /translate" in error_of(client.post("/translate"), 404)


@pytest.mark.parametrize(
    ("count", "length", "limit", "status"),
    [(128, 280, None, 200), (128, 1000, None, 413), (1, 9000, None, 413)]
    + [(3, 1000, 512, 200), (128, 1000, 512, 413)],
)
def test_the_size_of_alignments_is_bounded(count, length, limit, status):
    """Texts, times the length of the longest in both languages."""
    app = server.make_app(FakeModel().served(max_input_length=limit), ServerConfig())
    texts = ["a" * length] + ["a"] * (count - 1)
    with testclient.TestClient(app) as client:
        for name, expected in (("align", status), ("serving_default", 200)):
            body = {"inputs": {"text": texts}, "signature_name": name}
            path = "/v1/models/translation:predict"
            assert client.post(path, json=body).status_code == expected


@pytest.mark.parametrize(("longest", "status"), [("ab", 200), ("abc", 413)])
def test_an_answer_with_too_many_values_is_refused(monkeypatch, longest, status):
    """All rows may be padded to the largest: pieces and weights of two texts."""
    monkeypatch.setattr(tf_serving_rest, "_MOST_VALUES", 8)
    with testclient.TestClient(
        server.make_app(FakeModel().served(), ServerConfig())
    ) as client:
        body = {"inputs": [longest, "a"], "signature_name": "align"}
        answer = predict(client, body)
    assert answer.status_code == status
    if status == 413:
        assert "align to 2 texts is too large. Send fewer" in answer.json()["error"]
