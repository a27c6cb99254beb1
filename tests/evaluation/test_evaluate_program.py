"""What bin/evaluate.py checks before it translates."""

import pytest

from keras_transformer.evaluation import translations
from keras_transformer.runs.model_dir import ModelDir
from tests import small_models


@pytest.mark.parametrize("place", ["model", "data", "flag"])
def test_a_missing_tokenizer_is_named_before_any_translation(
    place, tmp_path, program_of, without_mecab, monkeypatch
):
    language = "ja_XX"
    languages = dict.fromkeys(("model", "data"), "de") | {place: language}
    small_models.write_run(tmp_path, languages["data"])
    translator = small_models.make_translator()
    small_models.write_model(
        translator, tmp_path / "told", target_language=languages["model"]
    )
    given = {"data_dir": tmp_path / "data", "split": "valid"}
    if place == "model":
        given = {"source": tmp_path / "text", "reference": tmp_path / "text"}
    if place == "flag":
        given["target_language"] = language
    without_mecab("ja")
    monkeypatch.setattr(
        translations, "translate_and_measure", lambda *_, **__: pytest.fail("too late")
    )
    with pytest.raises(ValueError, match=r'pip install "sacrebleu\[ja\]"'):
        program_of("bin/evaluate.py")(model_dir=tmp_path / "told", **given)


@pytest.mark.long
def test_a_language_may_be_bleus_alone_and_tokenizers_are_loaded_once(
    tmp_path, program_of, monkeypatch
):
    """The model has one pair of languages, so it is not told the language."""
    folders = [tmp_path / "model", tmp_path / "other"]
    for folder in folders:
        small_models.write_model(small_models.make_translator(), folder)
    (tmp_path / "text").write_text("a b\nb a\n")
    load, loaded = ModelDir.load_tokenizer, []
    monkeypatch.setattr(
        ModelDir, "load_tokenizer", lambda self: loaded.append(self.path) or load(self)
    )
    summary = program_of("bin/evaluate.py")(
        model_dir=tmp_path / "model",
        source=tmp_path / "text",
        reference=tmp_path / "text",
        target_language="fr",
        ensemble=folders[1],
        bootstrap_samples=0,
    )
    assert "moses-fr" in summary["tokenized_signature"]
    assert loaded == folders
