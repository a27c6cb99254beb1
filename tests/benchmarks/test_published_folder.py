"""Folders of random weights that benchmarks import."""

import pytest

from benchmarks.lib import published_folder
from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir

SMALL = {
    "vocab_size": 131,
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 7,
    "decoder_ffn_dim": 7,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}


@pytest.mark.parametrize(
    ("size", "languages"),
    [
        ("opus_mt", {}),
        ("m2m100_418m", {"source_language": "en", "target_language": "de"}),
    ],
)
def test_a_folder_can_be_imported(tmp_path, monkeypatch, size, languages):
    small = {**published_folder.SIZES[size], **SMALL}
    monkeypatch.setitem(published_folder.SIZES, size, small)
    num_bytes = published_folder.write(tmp_path / "published", size)
    summary = importing.import_model(
        tmp_path / "published", tmp_path / "model", **languages
    )
    assert num_bytes == 4 * summary["parameters"]
    model_dir = ModelDir(tmp_path / "model")
    assert model_dir.load_tokenizer().decode([[15 + 42]]) == ["42"]
