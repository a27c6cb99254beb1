"""Every model of the paper by name, against the figures the paper prints."""

import dataclasses
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import presets
from keras_transformer.inference.translator import Translator
from keras_transformer.model.cost import num_parameters
from keras_transformer.model.transformer import Transformer
from keras_transformer.training.losses import LabelSmoothedCrossEntropy

ROWS = [name for name in presets.names() if name.startswith("table3_")]
PUBLISHED = [
    name
    for name in presets.names()
    if presets.get(name).paper and presets.get(name).paper.parameters
]


def at_37000_words(name):
    return dataclasses.replace(presets.get(name).model, vocab_size=37_000)


def reduced(name):
    """The preset's shape at a sixteenth of its width and a sixth of its depth."""
    model = presets.get(name).model

    def narrow(width):
        return None if width is None else max(1, width // 16)

    def shallow(depth):
        return None if depth is None else max(1, depth // 6)

    return dataclasses.replace(
        model,
        vocab_size=30,
        num_layers=max(1, model.num_layers // 6),
        num_encoder_layers=shallow(model.num_encoder_layers),
        num_decoder_layers=shallow(model.num_decoder_layers),
        d_model=narrow(model.d_model),
        d_ff=narrow(model.d_ff),
        key_dim=narrow(model.head_key_dim),
        value_dim=narrow(model.head_value_dim),
        num_positions=20,
    )


def test_the_table_lists_every_preset_with_its_values():
    """Printed by `bin/train.py --preset=help`; the site's page is made from it."""
    assert [row.split()[1] for row in presets.table().splitlines()[2:]] == (
        presets.names()
    )
    [base] = [row for row in presets.table().splitlines() if row.startswith("| base ")]
    values = [value.strip() for value in base.split("|")[2:-2]]
    assert values == (
        ["6", "512", "2048", "8", "0.1", "37,000", "63.0 M", "100,000", "4,000"]
        + ["25,000", "4"]
    )


@pytest.mark.parametrize("program", ["bin/train.py", "bin/training_cost.py"])
def test_programs_list_the_presets(program_of, program, capsys):
    assert program_of(program)(preset="help") == {"presets": presets.names()}
    assert capsys.readouterr().out == presets.table() + "\n"


def test_help_has_the_values_of_base(repository):
    """The default preset."""
    program = repository / "bin" / "train.py"
    said = subprocess.run(
        [sys.executable, program, "--help"], capture_output=True, text=True
    )
    text = " ".join(said.stdout.split())
    assert "sub-layer's output. Default: the preset's; in base: 512. " in text
    assert "d_model / num_heads. Default: the preset's; in base: none. " in text
    assert "rate rises (§5.3). Default: the preset's; in base: 4000. " in text


def test_every_row_of_table_3_has_a_preset():
    """19 rows, of which base and big are presets of their own."""
    assert len(ROWS) == 18
    for name in [*ROWS, "base", "big"]:
        paper = presets.get(name).paper
        assert paper.perplexity and paper.bleu and paper.parameters


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_within_seven_percent_of_the_papers(name):
    paper = presets.get(name).paper.parameters * 1e6
    assert num_parameters(at_37000_words(name)) == pytest.approx(paper, rel=0.07)


@pytest.mark.parametrize("row", ["b1", "b2", "c1", "c2", "c3", "c6", "c7"])
def test_a_change_of_layers_alone_costs_what_the_paper_says(row):
    """Within 1.5 million of the difference of the paper's rounded figures."""
    name = f"table3_{row}"
    ours = num_parameters(at_37000_words(name)) - num_parameters(at_37000_words("base"))
    papers = presets.get(name).paper.parameters - presets.get("base").paper.parameters
    assert ours / 1e6 == pytest.approx(papers, abs=1.5)


@pytest.mark.parametrize("name", ["tiny", "base"])
def test_fast_presets_have_a_deep_encoder_and_one_decoder_layer(name):
    """All else is as in the preset whose name they have."""
    own, fast = presets.get(name), presets.get(f"{name}_fast")
    depths = {"num_encoder_layers": 12, "num_decoder_layers": 1}
    assert fast.model == dataclasses.replace(own.model, **depths)
    assert (fast.training, fast.decoding) == (own.training, own.decoding)
    assert fast.paper is None
    [row] = [row for row in presets.table().splitlines() if f" {fast.name} " in row]
    assert row.split("|")[2].strip() == "12+1"


def test_parsers_are_the_papers():
    """§6.3, Table 4: width 1024, 4 layers, beam 21, alpha 0.3, 300 more tokens."""
    for name, words, f1 in (("wsj", 16_000, 91.3), ("semi", 32_000, 92.7)):
        preset = presets.get(f"parsing_{name}")
        assert (preset.model.vocab_size, preset.paper.f1) == (words, f1)
        assert (preset.model.num_layers, preset.model.d_model) == (4, 1024)
        assert (preset.model.d_ff, preset.model.num_heads) == (2048, 8)
        decoding = preset.decoding
        assert (decoding.beam_size, decoding.length_penalty_alpha) == (21, 0.3)
        assert decoding.extra_decode_length == 300


@pytest.mark.parametrize("name", ["parsing_wsj", "parsing_semi", "parsing_tiny"])
def test_parsers_have_a_vocabulary_of_their_own_for_symbols(name):
    model = presets.get(name).model
    assert not model.share_embeddings
    own = dataclasses.replace(model, target_vocab_size=57)
    assert num_parameters(own) == pytest.approx(
        num_parameters(model) - 2 * (model.vocab_size - 57) * model.d_model
    )


@pytest.fixture
def eager():
    """Run functions op by op: at these sizes tracing takes longer than computing."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def distinct():
    """Presets by what differs at reduced width: the others train as one of these."""
    seen = {}
    for name in presets.names():
        seen.setdefault(
            (reduced(name), presets.get(name).training.label_smoothing), name
        )
    return list(seen.values())


@pytest.mark.long(first=4)
@pytest.mark.parametrize("name", distinct())
def test_every_preset_trains_on_two_replicas_saves_and_loads(
    name, two_replicas, eager, tmp_path
):
    with two_replicas.scope():
        model = Transformer(reduced(name))
        smoothing = presets.get(name).training.label_smoothing
        model.compile("adam", LabelSmoothedCrossEntropy(smoothing))
    assert model.count_params() == num_parameters(reduced(name))
    tokens = np.array([[5, 6, 7, 3], [8, 9, 3, 0]] * 2, "int32")
    before = [weight.numpy() for weight in model.trainable_weights]
    two_replicas.run(model.train_step, args=((tokens, tokens),))
    for old, new in zip(before, model.trainable_weights, strict=True):
        assert (old != new.numpy()).any(), new.path
    vocabulary = types.SimpleNamespace(
        tokenize=None,
        vocab_size=30,
        pad_id=0,
        bos_id=2,
        eos_id=3,
        source_prefix_id=None,
        target_prefix_id=None,
        target_unk_id=None,
        languages={},
        placeholders={},
    )
    translator = Translator(model, vocabulary, beam_size=2, extra_decode_length=2)
    assert np.isfinite(translator.search(tf.constant(tokens)).scores[:, 0]).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = model(tokens, model.shift_right(tokens))
    np.testing.assert_allclose(
        loaded(tokens, loaded.shift_right(tokens)), expected, atol=1e-5
    )
