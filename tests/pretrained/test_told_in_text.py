"""An imported model whose sources begin with their target language."""

import functools

import pytest
import tensorflow as tf
from starlette import testclient

from keras_transformer.opening import open_model
from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.server import model_loading, server
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.serving.signatures import ServingModule
from tests.searchers import load_searcher

TEXTS = ["A man rides a bicycle.", "Hello!", "Two dogs run."]


@pytest.fixture(scope="module")
def model_dir(shared_data, tmp_path_factory):
    folder = shared_data / "pretrained" / "opus_mt_tc_big"
    if not folder.is_dir():
        pytest.skip("no published model: opus_mt_tc_big is absent")
    path = tmp_path_factory.mktemp("tc_big") / "model"
    importing.import_model(folder, path)
    return ModelDir(path)


@pytest.fixture(scope="module")
def translator(model_dir):
    """One for all tests: it traces its search once."""
    return load_searcher(model_dir.path)


@pytest.fixture(scope="module")
def expected(translator):
    """The translations of sources that begin with each language."""
    return {
        code: [
            each.text
            for each in translator.translate([f">>{code}<< {text}" for text in TEXTS])
        ]
        for code in ("deu", "nld")
    }


@pytest.mark.long(first=1)
@pytest.mark.parametrize("code", ["deu", "nld"])
def test_the_language_may_be_an_argument(model_dir, expected, code):
    assert model_dir.load_tokenizer().languages == {"deu": 2, "nld": 3}
    chosen = load_searcher(model_dir.path, languages=("eng", code))
    assert [each.text for each in chosen.translate(TEXTS)] == expected[code]
    assert expected["deu"] != expected["nld"]


def test_an_unknown_language_is_refused_with_those_there_are(model_dir):
    with pytest.raises(ValueError, match=r"must be one of .*\(deu, nld\).*'fra'"):
        load_searcher(model_dir.path, languages=(None, "fra"))


@pytest.mark.long(first=1)
@pytest.mark.parametrize("default", [None, "nld"])
def test_the_signature_takes_the_language_of_each_text(model_dir, expected, default):
    """A language in the text comes first; of an unknown one nothing is translated."""
    module = ServingModule(load_searcher(model_dir.path, languages=(None, default)))
    rows = [
        (TEXTS[0], "deu", expected["deu"][0]),
        (TEXTS[0], "nld", expected["nld"][0]),
        (f">>nld<< {TEXTS[0]}", "deu", expected["nld"][0]),
        (TEXTS[0], "fra", ""),
        (f">>fra<< {TEXTS[0]}", "deu", ""),
        (">>deu<< ", "nld", ""),
    ]
    texts, codes, wanted = zip(*rows, strict=True)
    found = module.signatures()["multilingual"](
        tf.constant(texts), tf.constant(["any"] * len(rows)), tf.constant(codes)
    )
    assert [text.decode() for text in found["translation"].numpy()] == [*wanted]
    assert (found["score"].numpy() == -1e7).tolist() == [
        code == "fra" for code in codes
    ]


FORMS = [
    ("lines", "{token} One two.\n{token} Four dogs.\n{token} Hello!\n"),
    ("text", "{token} One two. Four dogs.\n\nHello!\n"),
    pytest.param(
        *("text", "{token}\n> One two.\n\n>> Four dogs.\n- {token} Hello!"),
        marks=pytest.mark.release,
    ),
    ("html", "<p>{token} One two.</p><ul><li>Four dogs.<li><b>Hello!</b></ul>"),
]


def translated(translator, given, code):
    """The text with the translations of its sentences, and without the language."""
    expected = given.replace("{token} ", "").replace("{token}", "")
    sentences = ["One two.", "Four dogs.", "Hello!"]
    told = [f">>{code}<< {sentence}" for sentence in sentences]
    for sentence, found in zip(sentences, translator.translate(told), strict=True):
        assert found.text
        expected = expected.replace(sentence, found.text)
    return expected


@pytest.mark.long(first=1)
@pytest.mark.parametrize(("form", "given"), FORMS)
def test_programs_take_the_language_from_the_text_or_the_flag(
    model_dir, translator, program_of, tmp_path, capfd, form, given
):
    """The output has the layout of the text, and no language."""
    outputs = []
    for code in ("deu", "nld"):
        flag = {"target_language": code}
        for token, language in ((f">>{code}<<", {}), ("", flag)):
            (tmp_path / "given").write_text(given.format(token=token))
            program_of("bin/translate.py")(
                model_dir=model_dir.path,
                format=form,
                input=tmp_path / "given",
                output=tmp_path / "found",
                **language,
            )
            outputs.append(tmp_path.joinpath("found").read_text())
        expected = translated(translator, given, code)
        assert outputs[-2] == expected
        assert "".join(outputs[-1].split()) == "".join(expected.split())
    assert outputs[0] != outputs[2]
    assert "language" not in capfd.readouterr().err


@pytest.mark.long
def test_nothing_is_invented(translator):
    texts = [">>deu<<", ">>deu<< ", "\t>>nld<<\u00a0", ">>fra<< A"]
    for found in translator.translate(texts):
        assert (found.text, found.score) == ("", 0.0)


@pytest.fixture(scope="module")
def client(model_dir):
    served = model_loading.served(open_model(model_dir.path, "serve"))
    with testclient.TestClient(server.make_app(served, ServerConfig())) as client:
        yield client


@pytest.mark.release
@pytest.mark.parametrize(("form", "given"), FORMS[1:])
def test_the_server_translates_into_each_language(client, translator, form, given):
    for code, other in (("deu", "nld"), ("nld", "deu")):
        expected = translated(translator, given, code)
        for token, target in ((f">>{code}<<", other), ("", code)):
            fields = {"source": "en", "target": target, "format": form}
            answer = client.post(
                "/translate", json={"q": given.format(token=token), **fields}
            )
            found = answer.json()["translatedText"]
            assert "".join(found.split()) == "".join(expected.split())
    listed = [each["code"] for each in client.get("/languages").json()]
    assert listed == ["deu", "en", "nld"]


@pytest.mark.long
def test_an_export_is_told_languages(model_dir, translator, program_of, tmp_path):
    """By texts, one after the other and as a document, and by its own language."""
    export = program_of("export/export_saved_model.py")
    for name, options in (
        ("any", {"signatures": "serving_default"}),
        ("nld", {"signatures": "serving_default,document", "target_language": "nld"}),
    ):
        summary = export(
            model_dir=model_dir.path,
            export_dir=tmp_path / name,
            device="none",
            warmup=False,
            **options,
        )
        assert summary["language_tokens"] == [">>deu<<", ">>nld<<"]
        assert summary["default_language"] == options.get("target_language")
    (tmp_path / "given").write_text(">>deu<< Hello!\nHello!\n")
    for name, code, is_told in (("any", "deu", False), ("nld", "nld", True)):
        translate = functools.partial(
            program_of("bin/translate.py"),
            saved_model=tmp_path / name / "1",
            input=tmp_path / "given",
            output=tmp_path / "found",
        )
        if is_told:
            translate()
            found = (tmp_path / "found").read_text().split("\n")
            assert found[0] == translated(translator, "Hello!", "deu")
            assert found[1] == translated(translator, "Hello!", code)
        else:
            problem = "line 2 does not begin with one, such as '>>deu<<': export it"
            with pytest.raises(ValueError, match=problem):
                translate()
    loaded = open_model(tmp_path / "nld" / "1", "serve")
    given = FORMS[1][1]
    texts = tf.constant([given.format(token=">>deu<<"), given.format(token="")])
    document = loaded.signatures["document"](text=texts)["translation"].numpy()
    for found, code in zip(document, ("deu", "nld"), strict=True):
        assert found.decode().split() == translated(translator, given, code).split()


def test_the_language_of_the_import_is_that_of_texts_without(shared_data, tmp_path):
    folder = shared_data / "pretrained" / "opus_mt_tc_big"
    importing.import_model(folder, tmp_path / "nld", target_language="nld")
    told = load_searcher(tmp_path / "nld")
    chosen = told.tokenizer.with_languages(None, "nld")
    assert told.tokenizer.encode(TEXTS[:1])[0].tolist()[0] == 3
    assert chosen.default_language == told.tokenizer.default_language == "nld"
    with pytest.raises(ValueError, match=r"must be one of .*\(deu, nld\).*'fra'"):
        importing.import_model(folder, tmp_path / "fra", target_language="fra")
    assert not (tmp_path / "fra").exists()
