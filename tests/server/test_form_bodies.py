"""Encodings of what clients send: UTF-8, or one line that says what is not."""

import json
import urllib.parse

import pytest
from starlette import testclient

from keras_transformer.config import PairEncoding
from keras_transformer.server import server
from keras_transformer.server.server_config import ServerConfig
from tests.server.fake_model import FakeModel
from tests.server.page_model import make_page_model

ASK = {"source": "en", "target": "de"}
FORM = "application/x-www-form-urlencoded"
PREDICT = "/v1/models/translation:predict"


@pytest.fixture(scope="module")
def client():
    config = ServerConfig(max_texts=5)
    with testclient.TestClient(server.make_app(FakeModel().served(), config)) as opened:
        yield opened


def post(client, content, kind, path="/translate"):
    return client.post(path, content=content, headers={"Content-Type": kind})


def as_json(client, fields):
    return post(client, json.dumps(fields, ensure_ascii=False), "application/json")


def as_json_with_a_byte_order_mark(client, fields):
    content = json.dumps(fields, ensure_ascii=False).encode("utf-8-sig")
    return post(client, content, "application/json; charset=UTF-8")


def as_escaped_json(client, fields):
    return post(client, json.dumps(fields), "application/problem+json")


def as_a_form(client, fields):
    return client.post("/translate", data=fields)


def as_a_form_of_raw_bytes(client, fields):
    """As curl -d sends it."""
    pairs = []
    for name, value in fields.items():
        for sign in "%&+":
            value = value.replace(sign, urllib.parse.quote(sign))
        pairs.append(f"{name}={value}")
    return post(client, "&".join(pairs).encode(), f'{FORM}; charset="utf8"')


def as_parts(client, fields):
    files = {name: (None, value) for name, value in fields.items()}
    return client.post("/translate", files=files)


def as_uploaded_files(client, fields):
    kind = "text/plain; charset=utf-8"
    files = {name: ("a.txt", value.encode(), kind) for name, value in fields.items()}
    return client.post("/translate", files=files)


def as_an_address(client, fields):
    return client.post("/translate", params=fields)


WAYS = [
    as_json,
    as_json_with_a_byte_order_mark,
    as_escaped_json,
    as_a_form,
    as_a_form_of_raw_bytes,
    as_parts,
    as_uploaded_files,
    as_an_address,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "text",
    [
        *("Z\u00fcrich", "\u017b\u00f3\u0142w", "\u0441\u043e\u0431\u0430\u043a\u0430"),
        *("\u72d7\u5f88\u8001", "\u0643\u0644\u0628", "\u05db\u05dc\u05d1", "\ud55c"),
        *("\u0915\u092e\u0940", "e\u0301", "a\U0001f415\U0001f3fdb"),
        *("a\u2068b\u2069c", "\u72d7\u200da"),
        *("a b", "a+b", "a%2Bb", "a%b", "a&b=c", "a;b", "\u00c3\u00bc", "a\x7fb"),
    ],
)
def test_a_text_is_the_same_however_it_is_sent(client, way, text):
    answer = way(client, {**ASK, "q": text})
    assert answer.json() == {"translatedText": text[::-1]}


@pytest.mark.parametrize("way", WAYS)
def test_a_byte_order_mark_in_a_word_is_not_translated(client, way):
    answer = way(client, {**ASK, "q": "a\ufeffb"})
    assert answer.json() == {"translatedText": "ba"}


@pytest.mark.parametrize("way", WAYS[3:])
def test_a_glossary_in_a_form_is_utf_8(way):
    placeholders = PairEncoding(placeholders=8).symbols
    app = server.make_app(make_page_model(placeholders=placeholders), ServerConfig())
    terms = "\ufeffm\u00fcller\tM\u00fchlenbauer \u72d7\r\n\u043a\u043e\u0442\tKater"
    fields = {**ASK, "q": "a M\u00fcller \u043a\u043e\u0442", "glossary": terms}
    with testclient.TestClient(app) as client:
        answer = way(client, fields).json()
    assert answer == {"translatedText": "Kater M\u00fchlenbauer \u72d7 A"}


def multipart(*parts):
    """Return parts, each its name (and more headers) and content, as a body."""
    head = b"--x\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n"
    return b"".join(head % part for part in parts) + b"--x--\r\n"


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"q=Z\xfcrich", FORM, "q is not valid UTF-8 at byte 2"),
        (b"q=Z%FCrich", FORM, "q is not valid UTF-8 at byte 2"),
        (b"q=a&q=%C3", FORM, "q is not valid UTF-8 at byte 1"),
        (b"q=%ED%A0%80", FORM, "q is not valid UTF-8 at byte 1"),
        (b"q=a&glossary=Z%FC", FORM, "glossary is not valid UTF-8 at byte 2"),
        (b"q=a&%FC=1", FORM, "The name of a field is not valid UTF-8 at byte 1"),
        (multipart((b"q", b"\xff")), "multipart/form-data; boundary=x", "q is not"),
        (
            multipart((b"glossary; filename=a", b"Z\xfc")),
            "multipart/form-data; boundary=x",
            "glossary is not valid UTF-8 at byte 2",
        ),
        (multipart((b"q", b"a"))[:-6], "multipart/form-data; boundary=x", "its end is"),
        (multipart((b"q", b"a")), "multipart/form-data", "The form is damaged: No bo"),
        (b"\r\n", "multipart/form-data; boundary=x", "The form is damaged"),
        (b'{"q": "Z\xfc"}', "application/json", "The body is not valid UTF-8 at byte"),
        (b'{"q": "\xed\xa0\x80"}', "application/json", "The body is not valid UTF-8"),
        ('{"q": "a"}'.encode("utf-16"), "application/json", "The body is not valid U"),
    ],
)
def test_what_is_not_utf_8_is_named(client, content, kind, message):
    response = post(client, content, kind)
    assert response.status_code == 400
    assert message in response.json()["error"]


@pytest.mark.parametrize("raw", ["q=Z%FCrich", "q=a&source=%80"])
def test_an_address_that_is_not_utf_8_is_refused(client, raw):
    response = client.post(f"/translate?{raw}", data=ASK)
    assert response.status_code == 400
    assert "is not valid UTF-8 at byte" in response.json()["error"]


@pytest.mark.parametrize("charset", ["ISO-8859-1", "utf-16", "rot13", "", "\u00e4"])
@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("/translate", b"q=a", FORM),
        ("/translate", b'{"q": "a"}', "application/json"),
        ("/translate", multipart((b"q", b"a")), "multipart/form-data; boundary=x"),
        (PREDICT, b'{"inputs": ["a"]}', "application/json"),
        (PREDICT, b'{"inputs": ["a"]}', FORM),
        ("/page/translate", b'{"text": "a"}', "application/json"),
    ],
)
def test_another_charset_is_refused(client, path, content, kind, charset):
    response = post(client, content, f"{kind}; charset={charset}".encode(), path)
    assert response.status_code == 415
    assert "must be in UTF-8. Received: charset=" in response.json()["error"]


@pytest.mark.parametrize(
    "parts",
    [
        [(b"q\r\nContent-Type: text/plain;charset=latin1", b"a")],
        [(b"_charset_", b"windows-1252"), (b"q", b"a")],
    ],
)
def test_another_charset_of_a_part_is_refused(client, parts):
    response = post(client, multipart(*parts), "multipart/form-data; boundary=x")
    assert response.status_code == 415
    assert "must be in UTF-8" in response.json()["error"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"&a=" * 106, FORM),
        (multipart(*[(b"a", b"")] * 106), "multipart/form-data; boundary=x"),
    ],
)
def test_a_form_of_too_many_fields_is_refused(client, content, kind):
    response = post(client, content, kind)
    assert response.status_code == 413
    assert response.json() == {"error": "A form may have 105 fields."}
