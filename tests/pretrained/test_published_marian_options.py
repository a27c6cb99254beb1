"""Options of Marian as published models have them: imported, or refused by name."""

import numpy as np
import pytest
import yaml

from keras_transformer.config import DecodingConfig
from keras_transformer.pretrained import importing
from tests.pretrained import small_published

# What Marian writes beside the options of `small_published`.
WRITTEN = {
    "bert-train-type-embeddings": True,
    "bert-type-vocab-size": 2,
    "dec-cell": "gru",
    "dec-cell-base-depth": 2,
    "dec-cell-high-depth": 1,
    "dim-rnn": 1024,
    "enc-cell": "gru",
    "enc-cell-depth": 1,
    "enc-type": "bidirectional",
    "factors-combine": "sum",
    "factors-dim-emb": 0,
    "input-types": [],
    "layer-normalization": False,
    "lemma-dependency": "",
    "lemma-dim-emb": 0,
    "output-omit-bias": False,
    "right-left": False,
    "skip": False,
    "tied-embeddings-src": False,
    "transformer-aan-activation": "swish",
    "transformer-aan-depth": 2,
    "transformer-aan-nogate": False,
    "transformer-decoder-dim-ffn": 11,
    "transformer-decoder-ffn-depth": 0,
    "transformer-depth-scaling": False,
    "transformer-dim-aan": 2048,
    "transformer-pool": False,
    "transformer-postprocess-top": "",
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
    "ulr": False,
    "ulr-dim-emb": 0,
    "ulr-trainable-transformation": False,
    "version": "v1.10.0 6f6d4846 2021-02-06 15:35:16 -0800",
}
OPUS = {
    "relative-paths": True,
    "beam-size": 6,
    "normalize": 1,
    "word-penalty": 0,
    "mini-batch": 1,
    "maxi-batch": 1,
    "maxi-batch-sort": "src",
}
STUDENT = {
    "shortlist": ["lex.50.50.s2t.bin", False],
    "beam-size": 1,
    "normalize": 1.0,
    "word-penalty": 0,
    "max-length-break": 128,
    "mini-batch-words": 1024,
    "workspace": 128,
    "max-length-factor": 2.0,
    "skip-cost": True,
    "cpu-threads": 0,
    "quiet": True,
    "quiet-translation": True,
    "gemm-precision": "int8shiftAlphaAll",
    "alignment": "soft",
}


def write(folder, options=None, decoder=None, name="decoder.yml"):
    """Write a small model of Marian with other options; return the model in it."""
    model = small_published.write_marian(folder)
    content = dict(np.load(folder / "model.npz"))
    own = yaml.safe_load(bytes(content["special:model.yml"]).rstrip(b"\0"))
    text = yaml.safe_dump({**own, **(options or {})}).encode() + b"\0"
    content["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(folder / "model.npz", **content)
    search = yaml.safe_load((folder / "decoder.yml").read_text())
    (folder / "decoder.yml").unlink()
    (folder / name).write_text(yaml.safe_dump({**search, **(decoder or {})}))
    return model


@pytest.mark.parametrize(
    ("options", "decoder", "expected"),
    [
        (WRITTEN, OPUS, {"beam_size": 6, "length_penalty_alpha": 1.0}),
        (
            {**WRITTEN, "transformer-postprocess": "an"},
            {"beam-size": 12, "normalize": 0, "allow-unk": False, "n-best": False},
            {"beam_size": 12, "length_penalty_alpha": 0.0},
        ),
        (
            {
                "transformer-postprocess-emb": "n",
                "transformer-guided-alignment-layer": 1,
            },
            {"weights": [1.0], "word-scores": False, "shortlist": []},
            {"length_penalty_alpha": 0.6},
        ),
        (
            {"an-option-of-tomorrow": 3},
            {**STUDENT, "shortlist": [], "another": 3},
            {"beam_size": 1, "length_penalty_alpha": 1.0},
        ),
    ],
    ids=["OPUS-MT", "no dropout", "normalized embeddings", "student"],
)
def test_options_of_published_models_are_read(tmp_path, options, decoder, expected):
    original = write(tmp_path / "published", options, decoder)
    read = importing.read(tmp_path / "published")
    plain = {"length_penalty": "power", "max_input_length": 512}
    assert read.decoding == DecodingConfig(**plain, **expected)
    assert importing.build(read).count_params() == original.count_params()


@pytest.mark.parametrize(
    ("options", "decoder", "message"),
    [
        (
            {"transformer-decoder-autoreg": "rnn"},
            STUDENT,
            "decoder.yml: shortlist is .*, which is not supported; .* Remove it from",
        ),
        (
            {"transformer-decoder-autoreg": "rnn"},
            {},
            "model.npz: transformer-decoder-autoreg is 'rnn', which is not",
        ),
        (
            {"transformer-ffn-activation": "gelu"},
            {},
            "model.npz: transformer-ffn-activation is 'gelu', which is not",
        ),
        ({"type": "s2s"}, {}, "model.npz: type is 's2s', which is not supported"),
        ({"transformer-pool": True}, {}, "transformer-pool is True"),
        ({"transformer-postprocess": "dnan"}, {}, "transformer-postprocess is 'nan'"),
        ({"transformer-preprocess": "nd"}, {}, "transformer-postprocess is 'an'"),
        ({"transformer-tied-layers": [1, 1]}, {}, "transformer-tied-layers is"),
        ({"factors-dim-emb": 8}, {}, "factors-dim-emb is 8"),
        ({"lemma-dim-emb": 8}, {}, "lemma-dim-emb is 8"),
        ({"right-left": True}, {}, "right-left is True"),
        ({}, {"word-penalty": 0.2}, "decoder.yml: word-penalty is 0.2"),
        ({}, {"allow-unk": "all"}, "decoder.yml: allow-unk is 'all'"),
        ({}, {"output-sampling": ["full"]}, "output-sampling is"),
        ({}, {"ignore-model-config": True}, "ignore-model-config is True"),
    ],
)
def test_an_option_that_changes_outputs_is_refused(tmp_path, options, decoder, message):
    write(tmp_path / "published", options, decoder)
    with pytest.raises(ValueError, match=message) as found:
        importing.read(tmp_path / "published")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("options", [{}, {"allow-unk": False}, {"allow-unk": True}])
def test_whether_a_model_may_write_unknown_tokens_is_read(tmp_path, options):
    write(tmp_path / "published", {}, options)
    read = importing.read(tmp_path / "published")
    assert read.decoding.allow_unk is options.get("allow-unk", False)


def test_an_output_without_bias_is_read(tmp_path):
    folder = tmp_path / "published"
    original = write(folder, {"output-omit-bias": True})
    content = dict(np.load(folder / "model.npz"))
    del content["decoder_ff_logit_out_b"]
    np.savez(folder / "model.npz", **content)
    model = importing.build(importing.read(folder))
    assert model.count_params() == original.count_params() - original.config.vocab_size


@pytest.mark.parametrize("models", ["/home/me/exp/model.npz", "../exp/model.npz"])
def test_a_folder_is_read_as_marian_left_it(tmp_path, models):
    """The settings are called after the weights, and paths are those of a training."""
    decoder = {"models": [models], "vocabs": ["/home/me/vocab.yml"] * 2}
    name = "model.npz.best-bleu-detok.npz.decoder.yml"
    write(tmp_path / "published", WRITTEN, {**decoder, "relative-paths": False}, name)
    read = importing.read(tmp_path / "published")
    assert name in {path.name for path in read.files}
    second = tmp_path / "published" / "model.npz.best-perplexity.npz.decoder.yml"
    second.write_text("models: []\n")
    with pytest.raises(ValueError, match="has 2 files such as .*bleu.* Rename the one"):
        importing.read(tmp_path / "published")
