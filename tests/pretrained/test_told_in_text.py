"""An imported model whose sources begin with their target language."""

import pytest
import tensorflow as tf

from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving.signatures import ServingModule

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
def expected(model_dir):
    """The translations of sources that begin with each language."""
    translator = model_dir.load_translator()
    return {
        code: [
            each.text
            for each in translator.translate([f">>{code}<< {text}" for text in TEXTS])
        ]
        for code in ("deu", "nld")
    }


@pytest.mark.parametrize("code", ["deu", "nld"])
def test_the_language_may_be_an_argument(model_dir, expected, code):
    assert model_dir.load_tokenizer().languages == {"deu": 2, "nld": 3}
    chosen = model_dir.load_translator(languages=("eng", code))
    assert [each.text for each in chosen.translate(TEXTS)] == expected[code]
    assert expected["deu"] != expected["nld"]


def test_an_unknown_language_is_refused_with_those_there_are(model_dir):
    with pytest.raises(ValueError, match=r"must be one of .*\(deu, nld\).*'fra'"):
        model_dir.load_translator(languages=(None, "fra"))


@pytest.mark.parametrize("default", [None, "nld"])
def test_the_signature_takes_the_language_of_each_text(model_dir, expected, default):
    """A language in the text comes first; of an unknown one nothing is translated."""
    module = ServingModule(model_dir.load_translator(languages=(None, default)))
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


@pytest.mark.parametrize(
    "text", [">>deu<<", ">>deu<< ", "\t>>nld<<\u00a0", ">>fra<< A"]
)
def test_nothing_is_invented(model_dir, text):
    (found,) = model_dir.load_translator().translate([text])
    assert (found.text, found.score) == ("", 0.0)
