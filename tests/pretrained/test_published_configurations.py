"""Configurations as published models have them: imported, or refused by name.

Fields and values are those of published files; sizes and ids are those of small models.
"""

import dataclasses
import json

import pytest

from keras_transformer.config import DecodingConfig
from keras_transformer.pretrained import importing
from tests.pretrained import small_published
from tests.searchers import load_searcher

LABELS = {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
# What conversions of OPUS-MT have had from BART's configuration.
OPUS = {
    "_num_labels": 3,
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"],
    "bos_token_id": 0,
    "classif_dropout": 0.0,
    "classifier_dropout": 0.0,
    "decoder_layerdrop": 0.0,
    "encoder_layerdrop": 0.0,
    "id2label": LABELS,
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {label: int(number) for number, label in LABELS.items()},
    "max_position_embeddings": 512,
    "normalize_before": False,
    "normalize_embedding": False,
    "num_hidden_layers": 6,
    "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True,
    "use_cache": True,
}
OPUS_SEARCH = {
    "bad_words_ids": [["PAD"]],
    "forced_eos_token_id": "EOS",
    "max_length": 512,
    "num_beams": 4,
}
TC_BIG = {
    "architectures": ["MarianMTModel"],
    "classifier_dropout": 0.0,
    "max_position_embeddings": 1024,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "torch_dtype": "float16",
}
M2M = {
    "architectures": ["M2M100ForConditionalGeneration"],
    "bos_token_id": 0,
    "decoder_layerdrop": 0.05,
    "encoder_layerdrop": 0.05,
    "gradient_checkpointing": False,
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "max_position_embeddings": 1024,
    "num_hidden_layers": 12,
    "use_cache": True,
}
M2M_SEARCH = {"early_stopping": True, "max_length": 200, "num_beams": 5}
NLLB = {**M2M, "tokenizer_class": "NllbTokenizer", "torch_dtype": "float32"}
NLLB_SEARCH = {"_from_model_config": True, "bos_token_id": 0, "max_length": 200}
# Fields of the search that all published generation_config.json repeat.
IDS = {"decoder_start_token_id": "BOS", "eos_token_id": "EOS", "pad_token_id": "PAD"}


def case(family, config, search=None, names=None, refused=None, **decoding):
    """Describe a configuration.

    Args:
        family: Of `small_published.write_huggingface`.
        config: Fields of config.json.
        search: Content of generation_config.json; None: there is none.
        names: Fields of tokenizer_config.json.
        refused: What the message has; None: the model is imported.
        **decoding: The settings that an imported model has.
    """
    return family, config, search, names, refused, decoding


OPUS_DECODING = {"force_eos": True, "certain_eos": True, "max_output_length": 511}
M2M_DECODING = {"beam_size": 5, "early_stopping": True, "max_output_length": 199}
CONFIGURATIONS = {
    "opus-mt, first conversions": case(
        "marian",
        {**OPUS, "extra_pos_embeddings": "VOCAB", "num_beams": 6, "max_length": 512},
        beam_size=6,
        max_output_length=511,
    ),
    "opus-mt, search in config.json": case(
        "marian",
        {**OPUS, **OPUS_SEARCH, "transformers_version": "4.22.0.dev0"},
        **OPUS_DECODING,
    ),
    "opus-mt, current": case(
        "marian",
        {**OPUS, **OPUS_SEARCH, "decoder_vocab_size": "VOCAB"},
        {**IDS, **OPUS_SEARCH, "bos_token_id": 0, "renormalize_logits": True},
        {"source_lang": "en", "target_lang": "de"},
        renormalize=True,
        **OPUS_DECODING,
    ),
    "opus-mt-en-fr, fine-tuned": case(
        "marian",
        {**OPUS, "max_length": None, "num_beams": None, "forced_eos_token_id": "EOS"},
        {**IDS, **OPUS_SEARCH, "renormalize_logits": True},
        {
            "clean_up_tokenization_spaces": True,
            "sp_model_kwargs": {},
            "tokenizer_class": "MarianTokenizer",
        },
        renormalize=True,
        **OPUS_DECODING,
    ),
    "opus-mt, saved by Transformers 5": case(
        "marian",
        {
            **OPUS,
            "dtype": "float32",
            "extra_pos_embeddings": "VOCAB",
            "is_decoder": False,
            "tie_word_embeddings": True,
        },
        {**IDS, "_from_model_config": True, "output_attentions": False},
    ),
    "opus-mt-tc-big, half precision": case(
        "marian", {**TC_BIG, **OPUS_SEARCH}, **OPUS_DECODING
    ),
    "opus-mt-tc-big, fine-tuned": case(
        "marian",
        {**TC_BIG, **OPUS_SEARCH},
        {**IDS, **OPUS_SEARCH, "renormalize_logits": True},
        {"model_max_length": 512, "separate_vocabs": False, "unk_token": "<unk>"},
        renormalize=True,
        **OPUS_DECODING,
    ),
    "opus-mt of source code": case(
        "marian",
        {**OPUS, **OPUS_SEARCH, "gradient_checkpointing": False, "unk_token_id": 0},
        {**IDS, "num_beams": 4, "num_return_sequences": 4, "temperature": 0.7},
    ),
    "opus-mt for a task": case(
        "marian",
        {
            **OPUS,
            "author": "someone",
            "task_specific_params": {"translation": {"num_beams": 8}},
        },
        {**IDS, "no_repeat_ngram_size": 3, "min_length": 0, "repetition_penalty": 1.0},
        no_repeat_ngram_size=3,
    ),
    "marian, another end is forced": case(
        "marian",
        {**OPUS, **OPUS_SEARCH, "forced_eos_token_id": 5},
        refused="config.json: forced_eos_token_id is 5, which is not supported; None",
    ),
    "opus-mt-en-mg as BART": case(
        "marian", {**OPUS, "model_type": "bart"}, refused="model_type is 'bart'; mar"
    ),
    "opus-mt, 8 bits": case(
        "marian",
        {**OPUS, "quantization_config": {"load_in_8bit": True}},
        refused="config.json: quantization_config is {'load_in_8bit': True}, which is",
    ),
    "opus-mt, penalized": case(
        "marian",
        OPUS,
        {**IDS, **OPUS_SEARCH, "repetition_penalty": 1.2},
        refused="generation_config.json: repetition_penalty is 1.2, .*; 1 is. Remove",
    ),
    "m2m100_418M": case(
        "m2m_100", {**M2M, **M2M_SEARCH}, {**IDS, **M2M_SEARCH}, **M2M_DECODING
    ),
    "m2m100_1.2B, search in config.json": case(
        "m2m_100",
        {**M2M, **M2M_SEARCH},
        None,
        {"model_max_length": 1024, "tokenizer_class": "M2M100Tokenizer"},
        max_input_length=1024,
        **M2M_DECODING,
    ),
    "m2m100, into one language": case(
        "m2m_100",
        {**M2M, **M2M_SEARCH},
        {**IDS, **M2M_SEARCH, "forced_bos_token_id": "TARGET"},
        **M2M_DECODING,
    ),
    "m2m100, into another language": case(
        "m2m_100",
        {**M2M, **M2M_SEARCH},
        {**IDS, **M2M_SEARCH, "forced_bos_token_id": "SOURCE"},
        refused="forced_bos_token_id is .* Give its language as --target_language",
    ),
    "small100": case(
        "m2m_100",
        {**M2M, "max_length": 256, "num_beams": 5},
        {**IDS, "_from_model_config": True, "max_length": 256, "num_beams": 5},
        {"tokenizer_class": "SMALL100Tokenizer", "tgt_lang": "en"},
        refused="tokenizer_class is 'SMALL100Tokenizer', which is not supported; 'M2M1",
    ),
    "nllb-200-distilled-600M": case(
        "nllb",
        {**NLLB, "max_length": 200, "decoder_layerdrop": 0, "encoder_layerdrop": 0},
        {**IDS, **NLLB_SEARCH},
        {"legacy_behaviour": False, "model_max_length": 1024},
        max_output_length=199,
        max_input_length=1024,
    ),
    "nllb-200-3.3B": case(
        "nllb",
        {**NLLB, "max_length": 200, "encoder_layers": 2},
        {**IDS, **NLLB_SEARCH},
        max_output_length=199,
    ),
    "nllb-200, fine-tuned": case(
        "nllb",
        {**M2M, "dtype": "float32", "max_length": None},
        {**IDS, **NLLB_SEARCH, "max_new_tokens": 70},
        {"tokenizer_class": "NllbTokenizer", "src_lang": "zho_Hant"},
        max_output_length=70,
    ),
    "nllb-moe-54b": case(
        "nllb",
        {**NLLB, "model_type": "nllb-moe", "num_experts": 128},
        refused="model_type is 'nllb-moe'; marian .* and m2m_100 can be read",
    ),
}


def filled(value, ids):
    """Return a value in which names such as "PAD" are replaced by ids."""
    if isinstance(value, dict):
        return {name: filled(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, ids) for each in value]
    return ids.get(value, value) if isinstance(value, str) else value


def write(folder, family, config, search, names):
    """Write a small model with the fields of a configuration; return its languages."""
    model = small_published.write_huggingface(folder, family)
    ids = {
        "PAD": model.config.pad_id,
        "EOS": model.config.eos_id,
        "BOS": model.config.bos_id,
        "VOCAB": model.config.vocab_size,
        # The languages are the last ids: English, then German.
        "SOURCE": model.config.vocab_size - 2,
        "TARGET": model.config.vocab_size - 1,
    }
    (folder / "generation_config.json").unlink()
    own = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name, values in (
        ("config.json", {**own, **config}),
        ("generation_config.json", search),
        ("tokenizer_config.json", names),
    ):
        if values is not None:
            small_published.write_json(folder / name, filled(values, ids))
    return {
        "marian": (None, None),
        "m2m_100": ("en", "de"),
        "nllb": ("eng_Latn", "deu_Latn"),
    }[family]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_published_configuration_is_read_or_refused_by_name(tmp_path, name):
    family, config, search, names, refused, decoding = CONFIGURATIONS[name]
    languages = write(tmp_path / "published", family, config, search, names)
    if refused is not None:
        with pytest.raises(ValueError, match=refused) as found:
            importing.read(tmp_path / "published", "auto", *languages)
        assert "\n" not in str(found.value)
        return
    read = importing.read(tmp_path / "published", "auto", *languages)
    expected = {"max_input_length": 512, "length_penalty_alpha": 1.0, **decoding}
    assert read.decoding == DecodingConfig(length_penalty="power", **expected)
    asked = config if search is None else search
    never = [read.model.pad_id] if "bad_words_ids" in asked else []
    assert list(read.model.suppressed_ids) == never
    assert any("num_beams" in note for note in read.notes) != bool(
        asked.get("num_beams")
    )
    assert (names or {}).get("clean_up_tokenization_spaces", False) == any(
        "clean_up_tokenization_spaces" in note for note in read.notes
    )


IMPORTED = [name for name, case in CONFIGURATIONS.items() if case[4] is None]


@pytest.mark.long(first=2)
@pytest.mark.parametrize("name", IMPORTED)
def test_a_model_with_a_published_configuration_translates(tmp_path, name):
    family, config, search, names, *_ = CONFIGURATIONS[name]
    languages = write(tmp_path / "published", family, config, search, names)
    importing.import_model(
        tmp_path / "published", tmp_path / "model", "auto", *languages
    )
    translator = load_searcher(tmp_path / "model")
    (found,) = translator.translate(["one two three"])
    assert found.text


SEARCH = {**IDS, **OPUS_SEARCH}


@pytest.mark.parametrize(
    "setting",
    [
        {"do_sample": True, "top_k": 10},
        {"num_beam_groups": 2, "diversity_penalty": 0.5},
        {"encoder_repetition_penalty": 1.5},
        {"encoder_no_repeat_ngram_size": 3},
        {"min_length": 10},
        {"min_new_tokens": 1},
        {"guidance_scale": 1.5},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"begin_suppress_tokens": [5]},
        {"constraints": [[5]]},
        {"exponential_decay_length_penalty": [15, 1.6]},
        {"force_words_ids": [[5]]},
        {"forced_bos_token_id": 5},
        {"forced_eos_token_id": [0, 5]},
        {"length_penalty": -1.0},
        {"max_time": 0.5},
        {"sequence_bias": [[[5], -3.0]]},
        {"stop_strings": ["."]},
        {"watermarking_config": {"bias": 2.0}},
        {"a_setting_of_tomorrow": 3},
        {"eos_token_id": [0, 5]},
        {"bad_words_ids": [[5, 6]]},
    ],
    ids=lambda setting: next(iter(setting)),
)
@pytest.mark.parametrize("place", ["generation_config.json", "config.json"])
def test_a_setting_that_changes_outputs_is_refused_by_name(tmp_path, setting, place):
    name, value = next(iter(setting.items()))
    config, search = {}, {**SEARCH, **setting}
    if place == "config.json":
        config, search = search, None
    write(tmp_path / "published", "marian", config, search, None)
    if place == "config.json" and name == "a_setting_of_tomorrow":
        importing.read(tmp_path / "published")  # perhaps no setting of a search at all
        return
    with pytest.raises(ValueError, match=rf"/{place}: {name} ") as found:
        importing.read(tmp_path / "published")
    assert "\n" not in str(found.value)
    assert repr(value)[:10] in str(found.value) or name == "bad_words_ids"


@pytest.mark.parametrize(
    "setting",
    [
        {"do_sample": False, "temperature": 0.7, "top_k": 10, "top_p": 0.9},
        {"num_beam_groups": 1, "diversity_penalty": 0.5},
        {"repetition_penalty": 1, "encoder_repetition_penalty": 1.0},
        {"min_length": 1, "min_new_tokens": 0},
        {"begin_suppress_tokens": ["PAD"]},
        {"suppress_tokens": ["PAD"]},
        {"suppress_tokens": [], "stop_strings": None, "sequence_bias": {}},
        {"bad_words_ids": [["PAD"], ["EOS"]]},
        {"eos_token_id": ["EOS"], "forced_eos_token_id": ["EOS"]},
        {"num_return_sequences": 4, "output_scores": True, "use_cache": False},
        {"a_setting_of_tomorrow": False, "another": None},
        {"early_stopping": "never"},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_a_setting_without_effect_changes_nothing(tmp_path, setting):
    plain, other = tmp_path / "plain", tmp_path / "other"
    write(plain, "marian", {}, SEARCH, None)
    write(other, "marian", {}, {**SEARCH, **setting}, None)
    expected, found = importing.read(plain), importing.read(other)
    assert (found.model, found.decoding) == (expected.model, expected.decoding)


@pytest.mark.parametrize(
    ("setting", "model", "decoding"),
    [
        ({"suppress_tokens": [5, "PAD", 7]}, {"suppressed_ids": ("PAD", 5, 7)}, {}),
        ({"bad_words_ids": [[5], ["PAD"]]}, {"suppressed_ids": (5, "PAD")}, {}),
        ({"max_length": 20}, {}, {"max_output_length": 19}),
        (
            {"max_length": 20, "max_new_tokens": 30},
            {},
            {"max_output_length": 30},
        ),
        ({"num_beams": 1}, {}, {"beam_size": 1}),
        ({"length_penalty": 0.0}, {}, {"length_penalty_alpha": 0.0}),
        ({"early_stopping": True}, {}, {"early_stopping": True}),
        ({"forced_eos_token_id": None}, {}, {"force_eos": False, "certain_eos": False}),
        ({"renormalize_logits": True}, {}, {"renormalize": True}),
    ],
    ids=lambda each: " ".join(each),
)
def test_a_setting_that_a_search_here_has_is_taken_over(
    tmp_path, setting, model, decoding
):
    plain, other = tmp_path / "plain", tmp_path / "other"
    write(plain, "marian", {}, SEARCH, None)
    write(other, "marian", {}, {**SEARCH, **setting}, None)
    expected, found = importing.read(plain), importing.read(other)
    model = filled({name: list(ids) for name, ids in model.items()}, {"PAD": 299})
    assert found.model == dataclasses.replace(expected.model, **model)
    assert found.decoding == dataclasses.replace(expected.decoding, **decoding)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"suppress_tokens": 5}, "suppress_tokens must be a list. Received: 5"),
        ({"bad_words_ids": {"a": 1}}, "bad_words_ids must be a list"),
        ({"begin_suppress_tokens": "x"}, "begin_suppress_tokens must be a list"),
        ({"num_beams": 0}, "`beam_size` must be at least 1"),
        ({"num_beams": 4.0}, "`beam_size` must be an integer"),
        ({"max_length": 1}, "`max_output_length` must be at least 1"),
        ({"max_length": "20"}, "max_length must be a number"),
    ],
)
def test_a_damaged_setting_is_named_with_its_file(tmp_path, setting, message):
    write(tmp_path / "published", "marian", {}, {**SEARCH, **setting}, None)
    with pytest.raises(ValueError, match=f"/generation_config.json: {message}"):
        importing.read(tmp_path / "published")


def test_generation_config_replaces_the_search_of_config_json(tmp_path):
    """As in Transformers, none of config.json's is read beside it."""
    config = {"num_beams": 7, "repetition_penalty": 1.3, "bad_words_ids": [[5]]}
    write(tmp_path / "published", "marian", config, {**IDS, "num_beams": 2}, None)
    read = importing.read(tmp_path / "published")
    assert (read.decoding.beam_size, read.model.suppressed_ids) == (2, ())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"scale_embedding": False}, "scale_embedding is False"),
        ({"scale_embedding": None}, "scale_embedding is False"),
        ({"is_encoder_decoder": False}, "is_encoder_decoder is False"),
        ({"activation_function": "gelu_new"}, "activation_function is 'gelu_new'"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads is"),
        ({"auto_map": {"AutoModel": "own.Model"}}, "auto_map is"),
        ({"prefix": "translate: "}, "prefix is 'translate: '"),
    ],
)
def test_an_option_of_the_model_that_changes_outputs_is_refused(
    tmp_path, option, message
):
    write(tmp_path / "published", "marian", option, SEARCH, None)
    with pytest.raises(ValueError, match=f"/config.json: {message}"):
        importing.read(tmp_path / "published")


@pytest.mark.parametrize(
    "names",
    [
        {"sp_model_kwargs": {"enable_sampling": True}},
        {"truncation_side": "left"},
        {"tokenizer_class": "BertTokenizer"},
        {"auto_map": {"AutoTokenizer": ["own.Tokenizer", None]}},
    ],
    ids=lambda names: next(iter(names)),
)
def test_an_option_of_the_tokenizer_that_changes_ids_is_refused(tmp_path, names):
    write(tmp_path / "published", "marian", {}, SEARCH, names)
    with pytest.raises(
        ValueError, match=f"/tokenizer_config.json: {next(iter(names))} "
    ):
        importing.read(tmp_path / "published")


def added(tokens):
    """Return how tokenizer_config.json describes tokens, by id."""
    return {str(number): {"content": token} for number, token in tokens.items()}


@pytest.mark.parametrize(
    ("family", "tokens", "codes"),
    [
        ("nllb", ["deu_Latn", "<mask>", "eng_Latn"], ("eng_Latn", "deu_Latn")),
        ("nllb", ["eng_Latn", "deu_Latn", "<mask>"], ("eng_Latn", "deu_Latn")),
        ("m2m_100", ["__de__", "__en__"], ("en", "de")),
    ],
)
def test_languages_have_the_ids_that_the_tokenizer_names(
    tmp_path, family, tokens, codes
):
    """Fine-tuned models may have them in another order, or pieces between them."""
    folder = tmp_path / "published"
    size = small_published.write_huggingface(folder, family).config.vocab_size
    (folder / "special_tokens_map.json").unlink()
    first = size - 2
    ids = {0: "<s>", 3: "<unk>", **dict(enumerate(tokens, start=first))}
    small_published.write_json(
        folder / "tokenizer_config.json", {"added_tokens_decoder": added(ids)}
    )
    if len(tokens) > 2:
        options = json.loads((folder / "config.json").read_text())
        small_published.write_json(
            folder / "config.json", {**options, "vocab_size": size + 1}
        )
    tokenizer = importing.read(folder, "auto", *codes).tokenizer
    strip = {token: token.strip("_") for token in tokens if token != "<mask>"}
    expected = {code: first + tokens.index(token) for token, code in strip.items()}
    assert tokenizer.languages == expected
    assert tokenizer.encode(["one"])[0][0] == expected[codes[0]]
    assert tokenizer.encode_target(["one"])[0][0] == expected[codes[1]]


@pytest.mark.parametrize(
    ("codes", "number", "german"), [("m2m100", 100, 16), ("wmt21", 8, 7)]
)
def test_models_of_m2m_100_have_the_languages_of_their_kind(
    tmp_path, codes, number, german
):
    """Transformers 5 saves no list of them."""
    folder = tmp_path / "published"
    size = small_published.write_huggingface(folder, "m2m_100").config.vocab_size
    (folder / "special_tokens_map.json").unlink()
    options = json.loads((folder / "config.json").read_text())
    size += number - 2
    small_published.write_json(folder / "config.json", {**options, "vocab_size": size})
    names = {"language_codes": codes, "num_madeup_words": 8}
    small_published.write_json(folder / "tokenizer_config.json", names)
    languages = importing.read(folder, "auto", "en", "de").tokenizer.languages
    assert sorted(languages.values()) == list(range(size - number, size))
    assert languages["de"] == size - number + german


@pytest.mark.parametrize("family", ["marian", "m2m_100", "nllb"])
@pytest.mark.parametrize("place", ["tokenizer_config.json", "added_tokens.json"])
def test_tokens_beside_the_vocabulary_are_named(tmp_path, family, place):
    folder = tmp_path / "published"
    size = small_published.write_huggingface(folder, family).config.vocab_size
    ids = {"<pad>": 1, "<ctx>": size}
    as_list = {"added_tokens_decoder": added({n: token for token, n in ids.items()})}
    small_published.write_json(folder / place, as_list if "config" in place else ids)
    languages = {"m2m_100": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}
    with pytest.raises(ValueError, match="beside the vocabulary, such as '<ctx>', wh"):
        importing.read(folder, "auto", *languages.get(family, ()))
