"""The whole model against the equations, and what masks and caches promise."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_transformer import presets
from keras_transformer.config import ModelConfig
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model.transformer import Transformer
from tests.model_variants import FEW_QUICK, SOURCE, TARGET, VARIANTS, make
from tests.reference import transformer as reference


@pytest.fixture(scope="module", params=list(VARIANTS.values()), ids=list(VARIANTS))
def model(request):
    return make(**request.param)


def full_pass(model, source=SOURCE, target=TARGET):
    return np.asarray(model(source, model.shift_right(target)))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_logits_equal_the_equations(placement):
    """§3 in NumPy, float64, with the same weights."""
    model = make(norm_placement=placement)
    weights = {
        weight.path.split("/", 1)[1]: weight.numpy().astype("float64")
        for weight in model.weights
    }
    expected = reference.Transformer(
        weights, num_layers=2, num_heads=2, pre_norm=placement == "pre"
    )
    source, target = SOURCE[0], np.array([2, 5, 4, 6, 11, 10, 7])
    np.testing.assert_allclose(
        full_pass(model)[0], expected(source, target), rtol=1e-4, atol=1e-4
    )


def test_causal_mask_hides_future_positions(model):
    """Logits up to position 3 do not depend on later tokens (§3.2.3)."""
    inputs = np.array(model.shift_right(TARGET))
    changed = inputs.copy()
    changed[:, 4:] = 12
    before, after = (np.asarray(model(SOURCE, x)) for x in (inputs, changed))
    np.testing.assert_allclose(before[:, :4], after[:, :4], atol=1e-5)
    assert not np.allclose(before[:, 4:], after[:, 4:])


def test_padding_changes_nothing(model):
    """More padding on either side leaves the logits of real tokens as they are."""
    longer = full_pass(
        model, np.pad(SOURCE, ((0, 0), (0, 4))), np.pad(TARGET, ((0, 0), (0, 3)))
    )
    np.testing.assert_allclose(longer[:, :7], full_pass(model), atol=1e-5)


def test_attention_weights_are_distributions_over_real_tokens(model):
    """Each real query's weights sum to one, and are exactly zero on padding."""
    inputs = np.asarray(model.shift_right(TARGET))
    _, weights = model(SOURCE, inputs, return_attention=True)
    depths = model.config.encoder_depth, *[model.config.decoder_depth] * 2
    assert (
        tuple(len(weights[kind]) for kind in ("encoder", "decoder", "cross")) == depths
    )
    assert weights["encoder"][0].shape == (3, 2, 5, 5)
    assert weights["cross"][-1].shape == (3, 2, 7, 5)
    queries = {"encoder": SOURCE, "decoder": inputs, "cross": inputs}
    for kind, tokens in queries.items():
        for layer in weights[kind]:
            # [real query, head, key]; a sentence's first input is never padding
            rows = np.moveaxis(np.asarray(layer), 1, 2)[tokens != 0]
            np.testing.assert_allclose(np.sum(rows, -1), 1.0, atol=1e-5)
            if kind == "decoder":
                assert (np.triu(np.asarray(layer), 1) == 0.0).all()
                continue
            sentence = np.nonzero(tokens)[0]
            hidden = np.broadcast_to((SOURCE == 0)[sentence][:, None], rows.shape)
            assert hidden.any() and (rows[hidden] == 0.0).all()


def test_nothing_is_drawn_where_weights_are_to_be_read():
    config = ModelConfig(
        vocab_size=13,
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        position_encoding="learned",
        num_positions=9,
    )
    with skip_weight_init():
        kernels = [w for w in Transformer(config).weights if len(w.shape) == 2]
    assert len(kernels) == 19 and not any(np.any(kernel) for kernel in kernels)
    kernels = [w for w in Transformer(config).weights if len(w.shape) == 2]
    assert len(kernels) == 19 and all(np.any(kernel) for kernel in kernels)


@pytest.mark.parametrize("model", FEW_QUICK, indirect=True)
def test_the_saved_model_gives_the_same_logits(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.config == model.config
    np.testing.assert_allclose(full_pass(loaded), full_pass(model), atol=1e-6)


def test_the_configuration_round_trips(model):
    again = Transformer.from_config(model.get_config())
    assert again.config == model.config
    assert again.count_params() == model.count_params()


def test_parameter_counts_of_the_paper():
    """Table 3: 65 M and 213 M, within 7 %; exactly, counted by hand at 37,000 words.

    base: 37,000 x 512 embedding; an encoder layer has 4 x 512^2 attention, 2 x 512 x
    2048 + 2048 + 512 feed-forward, 2 norms of 2 x 512; a decoder layer one attention
    and one norm more.
    """
    for name, d, ff, paper in (("base", 512, 2048, 65e6), ("big", 1024, 4096, 213e6)):
        attention, norm = 4 * d * d, 2 * d
        ffn = 2 * d * ff + ff + d
        by_hand = 37_000 * d + 6 * (3 * attention + 2 * ffn + 5 * norm)
        with skip_weight_init():
            count = Transformer(presets.get(name).model).count_params()
        assert count == by_hand
        assert abs(count / paper - 1) < 0.07


def test_an_unknown_preset_suggests_the_nearest():
    assert {"tiny", "small", "base", "big"} <= set(presets.names())
    with pytest.raises(ValueError, match="'bse'. Did you mean 'base'"):
        presets.get("bse")


def test_inputs_longer_than_the_learned_table_are_refused():
    model = make(**VARIANTS["learned positions"])
    with pytest.raises(ValueError, match="19 learned positions.*length=20"):
        model(np.full((1, 20), 5, "int32"), np.full((1, 3), 5, "int32"))


@pytest.mark.parametrize("name", ["tiny", "base"])
def test_a_fresh_encoder_tells_positions_apart(name):
    """Attention that averages everything must not drown the tokens, layer by layer."""
    sizes = {"vocab_size": 200, "d_model": 64, "d_ff": 128, "num_heads": 4}
    config = dataclasses.replace(presets.get(name).model, **sizes)
    tokens = np.random.default_rng(0).integers(4, 200, (20, 20))
    encoded = np.asarray(Transformer(config).encode(tokens))
    assert encoded.std(axis=1).mean() > 0.5 * encoded.std()
