"""A served model that is told its target language by the beginning of a text."""

import dataclasses

import pytest
from starlette import testclient

from keras_transformer.server import server
from keras_transformer.server.server_config import ServerConfig
from tests.server.page_model import make_page_model

LANGUAGES = {"languages": ("de", "tlh"), "language_tokens": (">>de<<", ">>tlh<<")}


def served(*leave_out, **options):
    """A model that writes capitals, from the last word to the first, a token."""
    model = make_page_model(*leave_out, **options)
    return dataclasses.replace(model, **LANGUAGES)


@pytest.fixture(scope="module")
def client():
    app = server.make_app(served(), ServerConfig())
    with testclient.TestClient(app) as client:
        yield client


def translate(client, kind="json", **fields):
    fields = {"source": "en", "target": "de", **fields}
    if kind == "files":
        fields = {name: (None, value) for name, value in fields.items()}
    return client.post("/translate", **{kind: fields}).json()


@pytest.mark.parametrize("kind", ["json", "data", "files"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"q": "a dog"}, "DOG A >>DE<<"),
        ({"q": "a dog", "target": "tlh"}, "DOG A >>TLH<<"),
        ({"q": ">>tlh<< a dog"}, "DOG A >>TLH<<"),
        ({"q": "a dog", "source": "any"}, "DOG A >>DE<<"),
        (
            {"q": ">>tlh<< A dog. A cat.\n- a cow"},
            "DOG. A >>TLH<< CAT. A >>TLH<<\n- COW A >>TLH<<",
        ),
        ({"q": "> a dog\n>>tlh<< > a cat"}, "> DOG A >>DE<<\n> CAT A >>TLH<<"),
        ({"q": ">>tlh<<"}, ""),
        (
            {"q": "<p>a dog<p>&gt;&gt;tlh&lt;&lt; a cat", "format": "html"},
            "<p>DOG A &gt;&gt;DE&lt;&lt;<p>CAT A &gt;&gt;TLH&lt;&lt;",
        ),
    ],
)
def test_every_sentence_has_the_token_of_its_language(client, kind, given, expected):
    """The one of the text comes before the one of the request."""
    assert translate(client, kind, **given) == {"translatedText": expected}


def test_words_are_aligned_in_all_languages(client):
    answer = translate(client, q="a dog", target="tlh", glossary="dog\tKöter\nde\tXX")
    assert answer == {"translatedText": "Köter A >>TLH<<"}


def test_there_are_alternatives_in_all_languages(client):
    answer = translate(client, q="a dog", target="tlh", alternatives=1)
    assert answer["translatedText"] == "DOG A >>TLH<<"
    assert len(answer["alternatives"]) == 1


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"q": "One.\n>>zz<< a"}, ">>zz<< is not a language of the model; see /langu"),
        ({"q": "a", "target": "zz"}, "zz is not supported; see /languages"),
        ({"q": "a", "target": "en"}, "en is not available as a target language from"),
        ({"q": "a", "source": "auto"}, "auto is not supported; see /languages"),
    ],
)
def test_languages_that_the_model_does_not_write_are_refused(client, given, error):
    assert translate(client, **given)["error"].startswith(error)


def test_the_languages_are_listed(client):
    assert client.get("/languages").json() == [
        {"code": "de", "name": "de", "targets": ["tlh"]},
        {"code": "en", "name": "en", "targets": ["de", "tlh"]},
        {"code": "tlh", "name": "tlh", "targets": ["de"]},
    ]


def test_the_page_asks_for_a_language(client):
    assert client.get("/page/settings").json()["targets"] == ["de", "tlh"]

    def ask(path, **given):
        return client.post(f"/page/{path}", json=given).json()

    for target, text in (("tlh", "a dog"), ("de", ">>tlh<< a dog")):
        (sentence,) = ask("translate", text=text, target=target)["sentences"]
        assert sentence["words"] == ["DOG", "A", ">>TLH<<"]
        assert (sentence["text"], sentence["target"]) == ("a dog", "tlh")
        assert sentence["sourceWords"] == ["a", "dog"]
        assert sentence["weights"][0] == pytest.approx([0.25, 0.75], abs=0.3)
    other = ask("continuation", text="a dog", target="tlh", prefix="")
    assert other["translation"].split() == [">>TLH<<", "A", "DOG"]
    found = ask("alternatives", text="a dog", target="tlh")["translations"]
    assert found[0] == "DOG A >>TLH<<"
    error = "target must be one of de, tlh. Received: 'zz'"
    assert ask("translate", text="a", target="zz") == {"error": error}
    error = ">>zz<< is not a language of the model: de, tlh"
    assert ask("translate", text=">>zz<< a", target="de") == {"error": error}


UNTOLD = "The model writes several languages (de, tlh), and text 2 does not begin with"


@pytest.mark.parametrize("signature", ["serving_default", "nbest", "align", "prefix"])
@pytest.mark.parametrize("form", ["inputs", "instances"])
def test_a_prediction_is_told_its_language_or_refused(client, signature, form):
    def predict(*texts):
        columns = {"text": list(texts)}
        if signature == "prefix":
            columns["prefix"] = [""] * len(texts)
        given = columns
        if form == "instances":
            rows = zip(*columns.values(), strict=True)
            given = [dict(zip(columns, row, strict=True)) for row in rows]
        body = {"signature_name": signature, form: given}
        return client.post("/v1/models/translation:predict", json=body)

    answer = predict(">>de<< a dog", "a dog")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(UNTOLD)
    for told in (">>tlh<< a dog", "\u3000>>de<<a dog", ">>zz<< a dog", " \u200b", ""):
        assert predict(told).status_code == 200


def test_a_prediction_takes_the_language_of_the_server():
    model = dataclasses.replace(served(), default_language="de")
    with testclient.TestClient(server.make_app(model, ServerConfig())) as client:
        body = {"inputs": ["a dog"]}
        answer = client.post("/v1/models/translation:predict", json=body)
    assert answer.status_code == 200


def test_a_model_of_one_pair_reads_tokens_as_text():
    app = server.make_app(make_page_model(), ServerConfig())
    with testclient.TestClient(app) as client:
        assert translate(client, q="A >>de<< dog")["translatedText"] == "DOG >>DE<< A"
        assert client.get("/page/settings").json()["targets"] == []
