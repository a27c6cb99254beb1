"""A test set through a model."""

import types

from keras_transformer.config import DecodingConfig
from keras_transformer.evaluation import translations
from keras_transformer.translation.pipeline import Translation


def test_cut_sources_are_counted_on_standard_error(monkeypatch, capsys):
    """Their translations are scored as they are."""
    cut = {"a": False, "b": True}
    translator = types.SimpleNamespace(
        translate=lambda texts, _: [Translation(t, 0.0, cut[t], ()) for t in texts],
        decoding=DecodingConfig(max_input_length=1009),
    )
    model = types.SimpleNamespace(searcher=translator)
    monkeypatch.setattr(translations, "open_model", lambda path, **options: model)
    monkeypatch.setattr(translations, "reference_perplexity", lambda *_: 7.0)
    found = translations.translate_and_measure("runs/any", ["a", "b"], ["c", "d"])
    assert found == (["a", "b"], 7.0)
    assert capsys.readouterr().err == (
        "1 of 2 sources were cut to the model's limit of 1,009 tokens. "
        "Divide long lines.\n"
    )
