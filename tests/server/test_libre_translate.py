"""LibreTranslate's API as our server speaks it, and a client made for it."""

import contextlib
import dataclasses
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from libretranslatepy import LibreTranslateAPI
from starlette import testclient

from keras_transformer.config import PairEncoding
from keras_transformer.documents.protection import Protection, Term
from keras_transformer.opening import open_model
from keras_transformer.server import model_loading, server
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.server.page_model import make_page_model
from tests.server.running import running

ASK = {"source": "en", "target": "de"}
CONFIG = ServerConfig(max_texts=5, max_characters=13)


@pytest.fixture(scope="module")
def client():
    with testclient.TestClient(server.make_app(FakeModel().served(), CONFIG)) as client:
        yield client


def translate(client, **fields):
    return client.post("/translate", json={**ASK, **fields}).json()


def test_a_text_and_a_list_of_texts(client):
    assert translate(client, q="abc") == {"translatedText": "cba"}
    assert translate(client, q=["abc", "de"]) == {"translatedText": ["cba", "ed"]}
    assert translate(client, q="abc", format="text", api_key="") == {
        "translatedText": "cba"
    }


def test_javascript_of_the_guide_translates(repository):
    if shutil.which("node") is None:
        pytest.skip("no node on the PATH")
    page = repository / "docs" / "how_to" / "local_server.md"
    (code,) = re.findall(r"```js\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    with running(server.make_app(FakeModel().served(), CONFIG)) as address:
        assert "127.0.0.1:8501" in code
        code = code.replace("127.0.0.1:8501", address)
        result = subprocess.run(
            ["node", "--input-type=module", "--eval", code],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.stdout == ".snur god A\n", result.stderr


@pytest.mark.parametrize("kind", ["data", "files", "params"])
def test_forms_are_read_as_json_is(client, kind):
    """Urlencoded, multipart, and in the address."""
    fields = {**ASK, "q": "äb", "alternatives": "1"}
    if kind == "files":
        fields = {name: (None, value) for name, value in fields.items()}
    answer = client.post("/translate", **{kind: fields}).json()
    # The fake model changes ASCII letters only.
    assert answer == {"translatedText": "bä", "alternatives": ["Bä"]}


def test_sentences_are_translated_one_by_one(client):
    """Also those of one line; what is between them stays."""
    answer = translate(client, q="  It ran.  We sat!\n- ok\t7\n", alternatives=1)
    assert answer == {
        "translatedText": "  .nar tI  !tas eW\n- ko\t7\n",
        "alternatives": ["  .NAR TI  !TAS EW\n- KO\t7\n"],
    }


def test_the_text_of_a_page_is_translated(client):
    page = "<p class='a'>It ran. <b>Ok</b>&nbsp;\n<code>It</code><!-- It --><p>A &lt; Z"
    answer = translate(client, q=[page], format="html", alternatives=1)
    best = "<p class='a'>.nar tI <b>kO</b>&nbsp;\n<code>It</code><!-- It --><p>Z &lt; A"
    assert answer["translatedText"] == [best]
    assert answer["alternatives"][0][0].startswith("<p class='a'>.NAR TI <b>KO</b>&")


@pytest.mark.parametrize(("alternatives", "known"), [(0, None), (0, 8), (3, 8)])
def test_nothing_is_cut(alternatives, known):
    """The model reads 8 letters; `nbest`, which does not say so, gets fewer."""
    model = FakeModel(limit=8)
    config = ServerConfig()
    app = server.make_app(model.served(max_input_length=known), config)
    given = f"{', '.join(['abc def'] * 30)}. Abcdefghijk!\nab"
    with testclient.TestClient(app) as client:
        answer = translate(client, q=given, alternatives=alternatives)
    for sign in ",.!":
        given = given.replace(sign, "")
        answer["translatedText"] = answer["translatedText"].replace(sign, "")
    *_, last, short = given.split()
    found = answer["translatedText"].split()
    assert sorted(found[:60]) == ["cba"] * 30 + ["fed"] * 30
    assert found[60:] == ["fedcbAkjihg", "ba"]
    assert len(answer.get("alternatives", "a")) == 1


def test_half_of_a_surrogate_pair_is_no_text(client):
    body = b'{"q": "a\\ud83d", "source": "en", "target": "de"}'
    headers = {"Content-Type": "application/json"}
    response = client.post("/translate", content=body, headers=headers)
    assert response.json()["translatedText"].endswith("a")


def test_lines_are_translated_one_by_one(client):
    """Lines without words stay as they are."""
    answer = translate(client, q="ab\r\n\n  \ncd", alternatives=3)
    assert answer == {
        "translatedText": "ba\r\n\n  \ndc",
        "alternatives": ["BA\r\n\n  \nDC"],
    }
    assert translate(client, q=" ") == {"translatedText": " "}


def test_alternatives_are_bounded_and_differ(client):
    assert translate(client, q=["ab", "1"], alternatives=9) == {
        "translatedText": ["ba", "1"],
        "alternatives": [["BA"], []],
    }
    assert "alternatives" not in translate(client, q="ab", alternatives=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": "a", "source": ""}, "Invalid request: missing source parameter"),
        ({"q": "a", "target": None}, "Invalid request: missing target parameter"),
        ({"q": 7}, "Invalid request: q must be a string or a list of strings"),
        ({"q": ["a", ["b"]]}, "q must be a string or a list of strings"),
        ({"q": "a", "alternatives": "x"}, "alternatives parameter is not a number"),
        ({"q": "a", "alternatives": [1]}, "alternatives parameter is not a number"),
        (
            {"q": "a", "format": "pdf"},
            "pdf format is not supported, only text and html",
        ),
        ({"q": "a", "format": ["html"]}, "format is not supported, only text and"),
        ({"q": "a", "source": "auto"}, "auto is not supported; see /languages"),
        ({"q": "a", "target": ["de"]}, "['de'] is not supported; see /languages"),
        (
            {"q": "a", "source": "de", "target": "en"},
            "en is not available as a target language from de",
        ),
    ],
)
def test_a_wrong_request_is_refused(client, fields, message):
    response = client.post("/translate", json={**ASK, **fields})
    assert response.status_code == 400
    assert message in response.json()["error"]


@pytest.mark.parametrize(
    "header", [{}, {"Content-Type": "application/x-www-form-urlencoded"}]
)
def test_json_without_its_header_is_named(client, header):
    """As `curl -d` and JavaScript's `fetch` send it unless told otherwise."""
    content = json.dumps({"q": "ab", **ASK})
    response = client.post("/translate", content=content, headers=header)
    assert response.status_code == 400
    assert response.json() == {
        "error": "Invalid request: JSON needs the header Content-Type: application/json"
    }


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("1e400", "JSON Parse error: 1e400 is beyond the range of float64"),
        ("NaN", "alternatives parameter is not a number"),
        ("Infinity", "alternatives parameter is not a number"),
    ],
)
def test_a_number_without_a_value_is_refused(client, number, message):
    body = json.dumps({**ASK, "q": "a", "alternatives": 0}).replace("0", number)
    headers = {"Content-Type": "application/json"}
    response = client.post("/translate", content=body, headers=headers)
    assert response.status_code == 400
    assert message in response.json()["error"]


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (["a"] * 6, "A request may have 5 texts. Received: 6"),
        ([""] * 6, "A request may have 5 texts. Received: 6"),
        ("a\n" * 6, "A request may have 5 texts. Received: 6"),
        ("a" * 14, "A text may have 13 characters. Received: 14"),
    ],
)
def test_requests_beyond_the_limits_are_refused(client, q, message):
    response = client.post("/translate", json={**ASK, "q": q})
    assert response.status_code == 413
    assert message in response.json()["error"]


@pytest.mark.parametrize("text_format", ["text", "html"])
@pytest.mark.parametrize("q", ["ab " * 633_333, ["a\n" * 40_000] * 2, "<b>" * 40_000])
def test_the_length_is_checked_before_any_work(client, monkeypatch, q, text_format):
    monkeypatch.setattr("keras_transformer.translation.pipeline.segment", None)
    response = client.post("/translate", json={**ASK, "q": q, "format": text_format})
    assert response.status_code == 413
    assert "All texts together may have 100,000 char" in response.json()["error"]


def test_json_that_is_no_object_is_refused(client):
    response = client.post("/translate", json=["a"])
    assert (response.status_code, response.json()) == (
        400,
        {"error": "The body must be a JSON object"},
    )


TERMS = [{"source": "dog", "target": "Köter"}, {"source": "New York", "case": "exact"}]
PLACEHOLDERS = PairEncoding(placeholders=8).symbols


@contextlib.contextmanager
def protecting(*leave_out, default=None, **options):
    """A client of a model that writes words in capitals, from last to first."""
    model = make_page_model(*leave_out, **options)
    app = server.make_app(model, ServerConfig(max_terms=3), default)
    with testclient.TestClient(app) as client:
        yield client


@pytest.mark.parametrize("placeholders", [(), PLACEHOLDERS])
def test_what_a_request_protects_comes_back(placeholders):
    """As placeholders, and where the alignment of words says without."""
    with protecting(placeholders=placeholders) as client:
        given = {"protect": ["urls", "numbers"], "glossary": TERMS}
        assert translate(client, q="- see 5 at www.a.de.  A dog!", **given) == {
            "translatedText": "- www.a.de. AT 5 SEE  Köter! A"
        }
        page = "<p>a dog <b>at http://b.de/?c&amp;d</b>"
        assert translate(client, q=[page], format="html", **given) == {
            "translatedText": ["<p>Köter A <b>http://b.de/?c&amp;d AT</b>"]
        }
        assert translate(client, q="a dog")["translatedText"] == "DOG A"


def test_tags_within_a_sentence_stay_with_their_words():
    page = "<p>a <a href='http://b.de'>big</a> dog</p>"
    with protecting(placeholders=PLACEHOLDERS) as client:
        asked = {"q": page, "format": "html", "protect": ["tags"]}
        assert translate(client, **asked) == {
            "translatedText": "<p>DOG <a href='http://b.de'>BIG</a> A</p>"
        }


def test_alternatives_have_what_is_protected_if_there_are_placeholders():
    given = {"q": "a dog", "alternatives": 2, "glossary": TERMS}
    with protecting(placeholders=PLACEHOLDERS) as client:
        assert translate(client, **given) == {
            "translatedText": "Köter A",
            "alternatives": ["or Köter A"],
        }
        # A name of two words is one placeholder, so its words stay together.
        assert translate(client, **{**given, "q": "New York dogs"}) == {
            "translatedText": "DOGS New York",
            "alternatives": ["or DOGS New York"],
        }
    with protecting() as client:
        assert translate(client, **given) == {
            "translatedText": "Köter A",
            "alternatives": [],
        }


def test_forms_have_kinds_in_a_string_and_the_text_of_a_glossary():
    fields = {
        **ASK,
        "q": "dog new york 5",
        "protect": "numbers, urls",
        "glossary": "dog\tKöter\r\n\nNew York\t\texact\n",
    }
    with protecting(placeholders=PLACEHOLDERS) as client:
        answer = client.post("/translate", data=fields).json()
    assert answer == {"translatedText": "5 YORK NEW Köter"}


def test_forms_have_lists_as_fields_that_come_several_times():
    fields = {**ASK, "q": ["1 www.a.de", "<b>"]}
    with protecting(placeholders=PLACEHOLDERS) as client:
        for kinds, expected in (
            ("urls", ["www.a.de 1", "<B>"]),
            (["urls", "tags"], ["www.a.de 1", "<b>"]),
            (["", "numbers,tags", "urls"], ["www.a.de 1", "<b>"]),
        ):
            answer = client.post("/translate", data={**fields, "protect": kinds})
            assert answer.json() == {"translatedText": expected}
        # A file is its content.
        files = [("protect", (None, "urls")), ("protect", ("a.txt", b"tags"))]
        answer = client.post("/translate", params=fields, files=files)
        assert answer.json() == {"translatedText": ["www.a.de 1", "<b>"]}


@pytest.mark.parametrize("text_format", ["text", "html"])
def test_no_sentence_ends_within_a_term(text_format):
    """And no word is read in parts."""
    term = "Jeopardy! Productions"
    given = {"glossary": term, "format": text_format}
    text = f"We saw {term} there. A Don\u00adau runs."
    with protecting(placeholders=PLACEHOLDERS) as client:
        answer = translate(client, q=text, **given)
    assert answer == {"translatedText": f"THERE. {term} SAW WE RUNS. DONAU A"}


def test_a_byte_order_mark_is_no_part_of_a_term():
    with protecting(placeholders=PLACEHOLDERS) as client:
        answer = translate(client, q="a dog", glossary="\ufeffdog\tKöter\r\n")
    assert answer == {"translatedText": "Köter A"}


def test_terms_of_a_request_win_over_exact_ones_of_the_server():
    default = Protection((), [Term("dog", "Hund", is_exact=True)])
    with protecting(placeholders=PLACEHOLDERS, default=default) as client:
        assert translate(client, q="dog") == {"translatedText": "Hund"}
        answer = translate(client, q="dog", glossary=TERMS)
    assert answer == {"translatedText": "Köter"}


@pytest.mark.parametrize("placeholders", [(), PLACEHOLDERS])
@pytest.mark.parametrize("text_format", ["text", "html"])
def test_half_of_a_surrogate_pair_is_protected_as_u_fffd(placeholders, text_format):
    """Also in a glossary, and as a character reference."""
    fields = {
        **ASK,
        "q": "a \ud800 dog www.a.de &#xd800;",
        "protect": "urls",
        "glossary": [{"source": "dog", "target": "Köter\udfff"}],
        "format": text_format,
    }
    headers = {"Content-Type": "application/json"}
    with protecting(placeholders=placeholders) as client:
        body = json.dumps(fields)
        answer = client.post("/translate", content=body, headers=headers).json()
    assert answer["translatedText"].endswith(" www.a.de Köter\ufffd \ufffd A")


def test_a_term_in_json_may_have_an_equals_sign():
    with protecting(placeholders=PLACEHOLDERS) as client:
        answer = translate(client, q="see a = dog", glossary=[{"source": "a = dog"}])
    assert answer == {"translatedText": "a = dog SEE"}


def test_a_term_in_json_may_be_as_long_as_a_line():
    with protecting(placeholders=PLACEHOLDERS) as client:
        glossary = [{"source": "a" * 200}, {"source": "b" * 100, "target": "c" * 99}]
        assert translate(client, q="d", glossary=glossary) == {"translatedText": "D"}
        glossary[1]["target"] += "c"
        assert translate(client, q="d", glossary=glossary) == {
            "error": "glossary line 2 may have 200 characters. Received: 201."
        }


def test_a_request_replaces_kinds_and_adds_terms_to_those_of_the_server():
    default = Protection(["numbers"], [Term("dog", "Hund"), Term("cat", "Katze")])
    text = "5 www.a.de dog cat"
    with protecting(placeholders=PLACEHOLDERS, default=default) as client:
        for given, expected in (
            ({}, "Katze Hund WWW.A.DE 5"),
            ({"protect": [], "glossary": ""}, "Katze Hund WWW.A.DE 5"),
            ({"protect": ["urls"]}, "Katze Hund www.a.de 5"),
            ({"glossary": TERMS}, "Katze Köter WWW.A.DE 5"),
        ):
            assert translate(client, q=text, **given)["translatedText"] == expected


def test_parts_of_a_long_sentence_are_protected():
    """The model reads 13 letters, of which a placeholder takes 5."""
    model = make_page_model(placeholders=("<ph1>",))
    run = model.signatures["serving_default"].run

    def cutting(inputs):
        outputs = run({"text": [text[:13] for text in inputs["text"]]})
        is_cut = [len(text) > 13 for text in inputs["text"]]
        return {**outputs, "truncated": np.array(is_cut)}

    served = model.signatures["serving_default"]._replace(run=cutting)
    model = dataclasses.replace(model, signatures={"serving_default": served})
    with testclient.TestClient(server.make_app(model, ServerConfig())) as client:
        answer = translate(
            client, q="a www.a.de/long1, b www.a.de/long2", protect="urls"
        )
    assert answer == {"translatedText": "www.a.de/long1, A www.a.de/long2 B"}


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        (
            {"protect": "ulrs"},
            400,
            "protect must be a list of tags, urls, numbers. Received: ['ulrs']",
        ),
        ({"protect": 7}, 400, "protect must be a list of tags, urls, numbers. Rec"),
        ({"protect": [["urls"]]}, 400, "protect must be a list of"),
        ({"glossary": 7}, 400, "glossary must be a list of objects or the text of"),
        (
            {"glossary": "a\tb\n\nA\tc"},
            400,
            "glossary line 3 has the term 'A' for the second time. Each term must",
        ),
        (
            {"glossary": [{"source": "a"}, {"source": "b", "case": "no"}]},
            400,
            "glossary line 2 must have a source term",
        ),
        (
            {"glossary": [{"source": "a"}, "b"]},
            400,
            "glossary line 2 must be an object with source, and perhaps target and "
            "case, as strings. Received: 'b'",
        ),
        ({"glossary": [{"source": ""}]}, 400, "glossary line 1 must be an object"),
        ({"glossary": [{"source": "a", "target": 1}]}, 400, "line 1 must be an object"),
        (
            {"glossary": "a\nb\n\nc\nd"},
            413,
            "The glossary of a request may have 3 terms. Received: 4.",
        ),
        (
            {"glossary": f"a\n{'b' * 201}"},
            413,
            "glossary line 2 may have 200 characters. Received: 201.",
        ),
    ],
)
def test_wrong_protection_is_refused(fields, status, message):
    with protecting(placeholders=PLACEHOLDERS) as client:
        response = client.post("/translate", json={**ASK, "q": "a", **fields})
    assert response.status_code == status
    assert message in response.json()["error"]


def test_a_model_without_placeholders_and_alignment_cannot_protect():
    with protecting("align") as client:
        assert translate(client, q="a") == {"translatedText": "A"}
        response = client.post("/translate", json={**ASK, "q": "a", "protect": "urls"})
    assert response.status_code == 400
    assert response.json()["error"].startswith(
        "protect and glossary need a model with placeholders or the signature align"
    )


def test_words_are_aligned_between_the_languages_of_align_alone():
    model, other = make_page_model(), FakeModel().served()
    signatures = {
        **model.signatures,
        "multilingual": other.signatures["multilingual"],
    }
    languages = ("de", "en", "tlh")
    model = dataclasses.replace(model, signatures=signatures, languages=languages)
    with testclient.TestClient(server.make_app(model, CONFIG)) as client:
        answer = translate(client, q="a dog", glossary="dog\tKöter")
        assert answer == {"translatedText": "Köter A"}
        refused = translate(client, q="a dog", target="tlh", protect="urls")
        assert refused["error"] == (
            "protect and glossary from en to tlh need a model with placeholders"
        )


def test_a_model_with_placeholders_protects_in_all_its_languages():
    model = FakeModel().served(languages=("de", "en"), placeholders=("<ph1>",))
    multilingual = model.signatures["multilingual"]

    def keeping(inputs):
        return {"translation": np.array(inputs["text"], object)}

    signatures = {
        **model.signatures,
        "multilingual": multilingual._replace(run=keeping),
    }
    model = dataclasses.replace(model, signatures=signatures)
    with testclient.TestClient(server.make_app(model, CONFIG)) as client:
        answer = translate(client, q="a dog", glossary="dog\tKöter")
    assert answer == {"translatedText": "a Köter"}


@pytest.mark.long
def test_a_real_model_with_placeholders_has_what_is_protected(kept_export):
    model = model_loading.served(open_model(kept_export, "serve"))
    assert model.placeholders == PLACEHOLDERS
    text = "one dog\nA dog at http://a.b/c runs <b>two</b> 5!"
    given = {"protect": ["urls", "tags"], "glossary": TERMS, "alternatives": 3}
    with testclient.TestClient(server.make_app(model, ServerConfig())) as client:
        answer = translate(client, q=text, **given)
    assert len(answer["alternatives"]) == 3
    for found in (answer["translatedText"], *answer["alternatives"]):
        first, second = found.split("\n")
        assert first.count("Köter") == 1
        assert second.count("http://a.b/c") == second.count("Köter") == 1
        assert second.index("<b>") < second.index("</b>")


def test_languages_are_not_detected(client):
    response = client.post("/detect", data={"q": "a"})
    assert response.status_code == 501
    assert response.json() == {"error": "This server does not detect languages"}


def test_what_pages_ask(client):
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 13
    assert settings["language"]["target"] == {"code": "de", "name": "de"}
    assert settings["keyRequired"] is False
    spec = client.get("/spec").json()
    assert "requestBody" in spec["paths"]["/translate"]["post"]
    assert "/v1/models/{name}:predict" in spec["paths"]


def test_the_description_has_the_forms_of_protect_and_glossary(client):
    spec = client.get("/spec").json()
    content = spec["paths"]["/translate"]["post"]["requestBody"]["content"]
    in_json, in_form = (
        content[kind]["schema"]["properties"]
        for kind in ("application/json", "application/x-www-form-urlencoded")
    )
    for described in (in_json["protect"], in_json["glossary"], in_form["protect"]):
        assert [each["type"] for each in described["oneOf"]] == ["array", "string"]
    assert in_form["glossary"]["type"] == "string"


def test_a_multilingual_model_translates_between_all_its_languages():
    model = FakeModel().served(languages=("de", "en", "tlh"))
    with testclient.TestClient(server.make_app(model, CONFIG)) as client:
        assert client.get("/languages").json()[0] == {
            "code": "de",
            "name": "de",
            "targets": ["en", "tlh"],
        }
        assert translate(client, q="ab", source="tlh") == {
            "translatedText": "tlh>de ba"
        }
        # The signature gives no alternatives.
        assert translate(client, q="ab", alternatives=2) == {
            "translatedText": "en>de ba",
            "alternatives": [],
        }


def test_a_source_language_that_a_model_is_not_told_is_known():
    """It translates English into two languages."""
    model = FakeModel().served(languages=("de", "tlh"))
    with testclient.TestClient(server.make_app(model, CONFIG)) as client:
        assert client.get("/languages").json() == [
            {"code": "de", "name": "de", "targets": ["tlh"]},
            {"code": "en", "name": "en", "targets": ["de", "tlh"]},
            {"code": "tlh", "name": "tlh", "targets": ["de"]},
        ]
        answer = translate(client, q="ab", target="tlh")
        assert answer == {"translatedText": "en>tlh ba"}
        refused = translate(client, q="ab", source="de", target="en")
        assert refused["error"].startswith("en is not available as a target language")


def test_the_client_of_libretranslate_works_unchanged():
    with running(server.make_app(FakeModel().served(), CONFIG)) as address:
        api = LibreTranslateAPI(f"http://{address}")
        assert api.translate("A & ü?", "en", "de") == "?ü & A"
        assert api.languages() == [
            {"code": "de", "name": "de", "targets": []},
            {"code": "en", "name": "en", "targets": ["de"]},
        ]


def test_pages_that_a_parser_makes_much_larger_are_refused_at_once():
    page = "".join(f"<b a={number}><p>x" for number in range(3000))
    app = server.make_app(FakeModel().served(), ServerConfig())
    with testclient.TestClient(app) as client:
        asked = {**ASK, "q": [page], "format": "html"}
        answer = client.post("/translate", json=asked)
    assert answer.status_code == 413
    assert answer.json()["error"].startswith("Too many tags such as <b> have no end")
    assert answer.elapsed.total_seconds() < 5
