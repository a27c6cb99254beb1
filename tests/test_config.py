"""The configurations are the paper's, and refuse what cannot be built."""

import dataclasses
import json
import re

import pytest

from keras_transformer import config


def refuses(message):
    """Expect a ValueError whose whole message is `message`."""
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def test_default_model_is_the_base_model_of_table_3():
    base = config.ModelConfig()
    assert (base.num_layers, base.d_model, base.d_ff) == (6, 512, 2048)
    assert (base.num_heads, base.head_key_dim, base.head_value_dim) == (8, 64, 64)
    assert (base.dropout_rate, base.vocab_size) == (0.1, 37_000)
    assert (base.attention_dropout_rate, base.ffn_dropout_rate) == (0.0, 0.0)
    assert (base.norm_placement, base.position_encoding) == ("post", "sinusoidal")
    assert (base.position_layout, base.first_position) == ("interleaved", 0)
    assert base.share_embeddings
    assert not base.attention_bias
    assert not base.output_bias


def test_default_training_is_that_of_section_5():
    training = config.TrainingConfig()
    assert (training.train_steps, training.warmup_steps) == (100_000, 4000)
    assert training.tokens_per_batch == 25_000
    assert (training.adam_beta_1, training.adam_beta_2) == (0.9, 0.98)
    assert (training.adam_epsilon, training.label_smoothing) == (1e-9, 0.1)
    assert training.average_last == 5


def test_default_decoding_is_that_of_section_6():
    decoding = config.DecodingConfig()
    assert (decoding.beam_size, decoding.length_penalty_alpha) == (4, 0.6)
    assert decoding.extra_decode_length == 50
    assert not decoding.force_eos


def test_special_ids_are_the_first_four():
    ids = (config.PAD_ID, config.UNK_ID, config.BOS_ID, config.EOS_ID)
    assert ids == (0, 1, 2, 3)


def test_configs_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.ModelConfig().d_model = 256


def test_head_widths_follow_from_the_model_width_unless_given():
    """Row B1 of Table 3 gives d_k; 13 heads of 5 and 7 need not divide 64."""
    assert config.ModelConfig(key_dim=16).head_key_dim == 16
    assert config.ModelConfig(key_dim=16).head_value_dim == 64
    odd = config.ModelConfig(d_model=64, num_heads=13, key_dim=5, value_dim=7)
    assert (odd.head_key_dim, odd.head_value_dim) == (5, 7)


def test_decoder_chooses_from_the_target_vocabulary():
    assert config.ModelConfig(vocab_size=11).output_vocab_size == 11
    separate = config.ModelConfig(
        vocab_size=11, target_vocab_size=13, share_embeddings=False
    )
    assert separate.output_vocab_size == 13


@pytest.mark.parametrize(
    ("config_class", "name"),
    [
        (config.ModelConfig, "vocab_size"),
        (config.ModelConfig, "target_vocab_size"),
        (config.ModelConfig, "num_layers"),
        (config.ModelConfig, "d_model"),
        (config.ModelConfig, "d_ff"),
        (config.ModelConfig, "num_heads"),
        (config.ModelConfig, "key_dim"),
        (config.ModelConfig, "value_dim"),
        (config.ModelConfig, "num_positions"),
        (config.TrainingConfig, "train_steps"),
        (config.TrainingConfig, "tokens_per_batch"),
        (config.TrainingConfig, "accumulate_steps"),
        (config.TrainingConfig, "max_length"),
        (config.TrainingConfig, "warmup_steps"),
        (config.TrainingConfig, "average_last"),
        (config.DecodingConfig, "beam_size"),
        (config.DecodingConfig, "max_input_length"),
    ],
)
def test_sizes_below_one_are_refused(config_class, name):
    with refuses(f"`{name}` must be at least 1. Received: {name}=0."):
        config_class(**{name: 0})


def test_no_extra_output_tokens_are_allowed_but_no_fewer():
    assert config.DecodingConfig(extra_decode_length=0).extra_decode_length == 0
    with refuses(
        "`extra_decode_length` must be at least 0. Received: extra_decode_length=-1."
    ):
        config.DecodingConfig(extra_decode_length=-1)


def test_a_head_that_aligns_is_one_of_the_decoder():
    model = config.ModelConfig(num_layers=3, num_heads=2, alignment_head=[2, 1])
    assert model.alignment_head == (2, 1)
    for wrong in ((3, 0), (0, 2), (0, -1), (0,)):
        with refuses(
            "`alignment_head` must be one of 3 layers and one of 2 heads, counted from "
            f"0. Received: alignment_head={wrong}."
        ):
            config.ModelConfig(num_layers=3, num_heads=2, alignment_head=wrong)


def test_only_a_limit_that_may_be_absent_may_be_none():
    assert config.DecodingConfig(max_output_length=None).max_output_length is None
    message = "`beam_size` must be an integer. Received: beam_size=None."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        config.DecodingConfig(beam_size=None)


@pytest.mark.parametrize("value", [6.0, "6", True])
def test_sizes_that_are_no_integers_are_refused(value):
    message = f"`num_layers` must be an integer. Received: num_layers={value!r}."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        config.ModelConfig(num_layers=value)


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize(
    ("config_class", "name"),
    [
        (config.ModelConfig, "dropout_rate"),
        (config.ModelConfig, "attention_dropout_rate"),
        (config.ModelConfig, "ffn_dropout_rate"),
        (config.TrainingConfig, "label_smoothing"),
        (config.TrainingConfig, "adam_beta_1"),
        (config.TrainingConfig, "adam_beta_2"),
    ],
)
def test_rates_outside_zero_to_one_are_refused(config_class, name, value):
    with refuses(f"`{name}` must be in [0, 1). Received: {name}={value}."):
        config_class(**{name: value})


@pytest.mark.parametrize("value", [0.0, -0.5, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("config_class", "name"),
    [
        (config.ModelConfig, "layer_norm_epsilon"),
        (config.TrainingConfig, "learning_rate_scale"),
        (config.TrainingConfig, "adam_epsilon"),
    ],
)
def test_numbers_that_must_be_positive_are_refused_otherwise(config_class, name, value):
    with refuses(
        f"`{name}` must be a finite number above 0. Received: {name}={value}."
    ):
        config_class(**{name: value})


@pytest.mark.parametrize("value", [-0.6, float("nan"), float("inf")])
def test_a_length_penalty_that_is_no_number_of_at_least_zero_is_refused(value):
    with refuses(
        "`length_penalty_alpha` must be a number of at least 0. "
        f"Received: length_penalty_alpha={value}."
    ):
        config.DecodingConfig(length_penalty_alpha=value)


def test_special_ids_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="`eos_id` must be an integer"):
        config.ModelConfig(eos_id=3.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "norm_placement",
            "prae",
            "`norm_placement` must be one of 'post', 'pre'. "
            "Received: 'prae'. Did you mean 'pre'?",
        ),
        (
            "position_encoding",
            "sinusoids",
            "`position_encoding` must be one of 'sinusoidal', 'learned'. "
            "Received: 'sinusoids'. Did you mean 'sinusoidal'?",
        ),
        (
            "position_layout",
            "xyz",
            "`position_layout` must be one of 'interleaved', 'halves', 'concatenated'. "
            "Received: 'xyz'.",
        ),
    ],
)
def test_unknown_choices_are_refused_with_the_nearest_one(name, value, message):
    with refuses(message):
        config.ModelConfig(**{name: value})


@pytest.mark.parametrize("given", [{}, {"key_dim": 5}, {"value_dim": 5}])
def test_heads_must_divide_the_model_width_unless_both_widths_are_given(given):
    with refuses(
        "`num_heads` must divide `d_model` (or set both `key_dim` and `value_dim`). "
        "Received: num_heads=7, d_model=512."
    ):
        config.ModelConfig(num_heads=7, **given)


def test_sinusoids_need_an_even_width_and_learned_positions_do_not():
    with refuses(
        "`d_model` must be even: sinusoidal positions come in pairs of sine and "
        "cosine (§3.5). Received: d_model=33."
    ):
        config.ModelConfig(d_model=33, num_heads=3)
    learned = config.ModelConfig(d_model=33, num_heads=3, position_encoding="learned")
    assert learned.d_model == 33


def test_shared_embeddings_need_one_vocabulary():
    with refuses(
        "`share_embeddings` needs one vocabulary for source and target. Received: "
        "vocab_size=11, target_vocab_size=13. Set share_embeddings=False."
    ):
        config.ModelConfig(vocab_size=11, target_vocab_size=13)
    same = config.ModelConfig(vocab_size=11, target_vocab_size=11)
    assert same.share_embeddings


@pytest.mark.parametrize("name", ["pad_id", "bos_id", "eos_id"])
@pytest.mark.parametrize("value", [-1, 11])
def test_special_ids_must_lie_in_the_target_vocabulary(name, value):
    with refuses(
        f"`{name}` must be an id of the target vocabulary, in [0, 11). "
        f"Received: {name}={value}."
    ):
        config.ModelConfig(
            vocab_size=13,
            target_vocab_size=11,
            share_embeddings=False,
            **{name: value},
        )


def test_padding_must_differ_from_the_end_of_a_sentence():
    with refuses(
        "`pad_id` and `eos_id` must differ, or the end of a sentence is masked. "
        "Received: pad_id=3, eos_id=3."
    ):
        config.ModelConfig(pad_id=3)


def test_the_longest_pair_must_fit_a_batch():
    with refuses(
        "`tokens_per_batch` must be at least `max_length`, or the longest pair fits no "
        "batch. Received: tokens_per_batch=101, max_length=103."
    ):
        config.TrainingConfig(tokens_per_batch=101, max_length=103)
    assert config.TrainingConfig(tokens_per_batch=103, max_length=103)


@pytest.mark.parametrize(
    "original",
    [
        config.ModelConfig(num_layers=2, key_dim=16, norm_placement="pre"),
        config.TrainingConfig(train_steps=7, adam_epsilon=1e-8),
        config.DecodingConfig(beam_size=1, force_eos=True),
    ],
)
def test_configs_survive_json(original):
    values = json.loads(json.dumps(dataclasses.asdict(original)))
    assert config.from_dict(type(original), values) == original


def test_missing_keys_take_the_default():
    assert config.from_dict(config.ModelConfig, {}) == config.ModelConfig()


def test_unknown_keys_are_refused_with_the_nearest_one():
    listed = "'beam_size', 'length_penalty_alpha', 'length_penalty', "
    listed += "'extra_decode_length', 'max_output_length', 'max_input_length', "
    listed += "'force_eos', 'certain_eos', 'no_repeat_ngram_size', "
    listed += "'max_repetitions', 'early_stopping', 'renormalize', 'allow_unk'"
    with refuses(
        f"`DecodingConfig field` must be one of {listed}. "
        "Received: 'beamsize'. Did you mean 'beam_size'?"
    ):
        config.from_dict(config.DecodingConfig, {"beamsize": 5})
