"""Every door that takes text gives the same answer: doors by inputs.

A door is a program or a route. Each answers all inputs at once. To test another input,
add it to `INPUTS`; for another model, to `MODELS`.
"""

import dataclasses
import functools
import html
import re

import pytest
from starlette import testclient

from keras_transformer.opening import open_model
from keras_transformer.server import model_loading, server
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.serving import saved_model
from tests.server.running import running
from tests.small_models import make_translator

SENTENCE = "A dog runs!"
SPACES = {
    "a tab": "\t",
    "a no-break space": "\u00a0",
    "a wide space": "\u3000",
    "a next line": "\x85",
    "a line separator": "\u2028",
    "a zero-width space": "\u200b",
    "a byte order mark": "\ufeff",
    "a control character": "\x1f",
    "a line end": "\n",
    "a carriage return": "\r\n",
}


@dataclasses.dataclass(frozen=True)
class Input:
    """A text, and what of it a model reads."""

    text: str
    # What is translated; "": nothing.
    sentence: str
    # A name in `MODELS`.
    model: str = "small"
    # What documents replace by the translation; None: the sentence.
    replaced: str | None = None

    def in_document(self, translation):
        """The text with the translation in its place, as documents keep it."""
        if not self.sentence:
            return self.text
        return self.text.replace(self.replaced or self.sentence, translation)


INPUTS = {
    "a sentence": Input(SENTENCE, SENTENCE),
    "letters beyond ASCII": Input("Ein Hund läuft.", "Ein Hund läuft."),
    "invisible characters in words": Input(
        "A\ufeff d\u00ado\u200bg \u200eruns!",
        SENTENCE,
        replaced="A\ufeff d\u00ado\u200bg \u200eruns!",
    ),
    "nothing": Input("", ""),
    "several kinds of space": Input("\u00a0 \t\u200b \u3000", ""),
    "a combining mark": Input(" \u0301", ""),
    **{f"{name} alone": Input(space, "") for name, space in SPACES.items()},
    **{
        f"{name} before": Input(space + SENTENCE, SENTENCE)
        for name, space in SPACES.items()
    },
    **{
        f"{name} after": Input(SENTENCE + space, SENTENCE)
        for name, space in SPACES.items()
    },
    **{
        f"{name} around": Input(f"{space} {SENTENCE} {space}", SENTENCE)
        for name, space in SPACES.items()
    },
}
# Texts that tell a model of several languages which it has to write.
INPUTS |= {
    f"{name} in {code}": Input(
        before.format(f">>{code}<<") + SENTENCE,
        f">>{code}<< {SENTENCE}",
        "told",
        before.strip("\u3000").format(f">>{code}<<") + SENTENCE,
    )
    for code in ("de", "fr")
    for name, before in {
        "a language": "{} ",
        "a language without a space": "{}",
        "a language after spaces": "\u3000{} ",
    }.items()
}


@dataclasses.dataclass
class Place:
    """An export, and what the doors need beside it."""

    saved_model: str
    program_of: object
    folder: object

    @functools.cached_property
    def served(self):
        return model_loading.served(open_model(self.saved_model, "serve"))

    def app(self):
        return server.make_app(self.served, ServerConfig(model_name="small"))

    def post(self, path, **request):
        with testclient.TestClient(self.app()) as client:
            answer = client.post(path, **request)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def run(self, program, texts, line_end="\n", **flags):
        """Run a program on a file of texts; return its output."""
        given, written = self.folder / "given", self.folder / "written"
        given.write_bytes("".join(text + line_end for text in texts).encode())
        self.program_of(program)(input=given, output=written, **flags)
        return written.read_bytes().decode()

    def run_lines(self, program, texts, **flags):
        *lines, end = self.run(program, texts, **flags).split("\n")
        assert end == ""
        return lines


def lines(place, texts):
    return place.run_lines("bin/translate.py", texts, saved_model=place.saved_model)


def back_translated(place, texts):
    return place.run_lines(
        "bin/back_translate.py",
        texts,
        saved_model=place.saved_model,
        method="beam",
    )


def on_beam(place, texts):
    from keras_transformer.serving import bulk_translation

    given = place.folder / "given"
    given.write_bytes("".join(text + "\n" for text in texts).encode())
    config = bulk_translation.BeamTranslationConfig(
        str(place.saved_model), str(given), str(place.folder / "shard")
    )
    bulk_translation.translate(config, bulk_translation.parse_options([]))
    (shard,) = place.folder.glob("shard-0*")
    return shard.read_text().removesuffix("\n").split("\n")


def of_client(place, texts, signature="serving_default", line_end="\n"):
    with running(place.app()) as address:
        flags = {"server": address, "model_name": "small", "protocol": "rest"}
        return place.run(
            "export/client.py", texts, line_end, signature=signature, **flags
        ).split("\n")[:-1]


def documents_of_client(place, texts):
    return of_client(place, texts, signature="document")


def predicted(place, texts):
    path = "/v1/models/small:predict"
    outputs = place.post(path, json={"inputs": {"text": texts}})["outputs"]
    return outputs["translation"]


def documents(place, texts):
    # A line without letters stays as it is.
    text, flags = "\n====\n".join(texts), {"saved_model": place.saved_model}
    written = place.run("bin/translate.py", [text], "", format="text", **flags)
    return written.split("\n====\n")


def pages(place, texts):
    page = "".join(f"<p>{html.escape(text)}</p>" for text in texts)
    flags = {"format": "html", "saved_model": place.saved_model}
    written = place.run("bin/translate.py", [page], line_end="", **flags)
    return [html.unescape(each) for each in re.findall("(?s)<p>(.*?)</p>", written)]


def json_of_libre_translate(place, texts):
    return place.post("/translate", json={"q": texts, "source": "en", "target": "de"})[
        "translatedText"
    ]


def form_of_libre_translate(place, texts, kind="data"):
    found = []
    for text in texts:
        fields = {"q": text, "source": "en", "target": "de"}
        if kind == "files":
            fields = {name: (None, value) for name, value in fields.items()}
        found.append(place.post("/translate", **{kind: fields})["translatedText"])
    return found


def multipart_of_libre_translate(place, texts):
    return form_of_libre_translate(place, texts, kind="files")


def page_of_server(place, texts):
    found = []
    for text in texts:
        answer = place.post("/page/translate", json={"text": text})
        words = [" ".join(each["words"]) for each in answer["sentences"]]
        spaces = [answer["around"][0], *(each["after"] for each in answer["sentences"])]
        pairs = zip(spaces, [*words, ""], strict=True)
        found.append("".join(part for pair in pairs for part in pair))
    return found


# Lines become lines, blank or translated.
LINE_DOORS = (lines, back_translated, of_client)
EVERY_TEXT = (predicted,)
# Documents keep what is around their sentences.
DOCUMENT_DOORS = (
    documents,
    documents_of_client,
    pages,
    json_of_libre_translate,
    form_of_libre_translate,
    multipart_of_libre_translate,
    page_of_server,
)


def takes(door, given):
    """Whether a text can be given to a door."""
    if door is predicted:  # signatures read a text as it is
        return "\u00ad" not in given.text
    if door in (*LINE_DOORS, on_beam, documents_of_client):
        return "\n" not in given.text
    if "libre_translate" in door.__name__:
        return given.text != ""
    # Pages have no control characters, and one kind of line end.
    return door is not pages or not re.search("[\x00-\x08\x0b-\x1f]", given.text)


TOKENS = (">>de<<", ">>fr<<")
MODELS = {
    "small": make_translator,
    "told": functools.partial(make_translator, placeholders=TOKENS),
}
EXPORT = {"source_language": "en", "target_language": "de"}
TOLD = {"languages": ["de", "fr"], "language_tokens": TOKENS, "default_language": None}


@pytest.fixture(scope="module")
def places(program_of, tmp_path_factory):
    """Return what makes the place of a model, once."""

    @functools.cache
    def place_of(model):
        version = saved_model.export(
            MODELS[model](),
            tmp_path_factory.mktemp("export"),
            signatures=["serving_default", "document"],
            description=EXPORT | (TOLD if model == "told" else {}),
        )
        return Place(version, program_of, tmp_path_factory.mktemp("files"))

    return place_of


@pytest.fixture(scope="module")
def answers(places):
    """Return what gives the answers of a door by input, and the translations."""

    @functools.cache
    def answers_of(door, model):
        names = [
            name
            for name, given in INPUTS.items()
            if given.model == model and takes(door, given)
        ]
        found = door(places(model), [INPUTS[name].text for name in names])
        return dict(zip(names, found, strict=True))

    return answers_of


@pytest.fixture(scope="module")
def expected(places):
    @functools.cache
    def translation_of(sentence, model):
        (found,) = open_model(places(model).saved_model).translate([sentence])
        return found.text

    return translation_of


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * (given.model != "small"))
        for name, given in INPUTS.items()
    ],
)
@pytest.mark.parametrize(
    "door",
    [
        *LINE_DOORS,
        *EVERY_TEXT,
        *DOCUMENT_DOORS,
        pytest.param(on_beam, marks=pytest.mark.long),
    ],
)
def test_a_door_translates_what_a_text_says_and_nothing_else(
    door, name, answers, expected
):
    given = INPUTS[name]
    if not takes(door, given):
        pytest.skip("no text of this door")
    wanted = expected(given.sentence, given.model) if given.sentence else ""
    if door in DOCUMENT_DOORS:
        wanted = given.in_document(wanted)
    assert answers(door, given.model)[name] == wanted
