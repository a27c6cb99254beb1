"""A written model is the same model, for Transformers and when it is imported again."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from keras_transformer import text_files, tokenization
from keras_transformer.config import DecodingConfig, ModelConfig, TrainingConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.pretrained import huggingface_writer, importing
from keras_transformer.runs import model_card
from keras_transformer.runs.checkpoints import Checkpoint
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.tokenization import extension
from tests.pretrained import small_published
from tests.searchers import load_searcher
from tests.small_models import LINES, choosing_model

TEXTS = [
    *LINES,
    "__init__ Ünïcode 😀 ▁ one</s> <pad> <unk>",
    " two  spaces\nand a second line\t",
    ">>deu<< two",
    "",
]
SETTINGS = {
    "extra_decode_length": 5,
    "max_input_length": 90,
    "no_repeat_ngram_size": 3,
}


def make_translator(tokenizer=None, **options):
    """Return a translator whose weights are all random, biases and norms too."""
    tokenizer = tokenizer or tokenization.train_bpe(
        [*LINES, "x__ y__ __init__"] * 5, vocab_size=310
    )
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=2,
        d_model=24,
        d_ff=20,
        num_heads=3,
        **options,
    )
    model = choosing_model(config, seed=5, scale=0.4)
    return Translator(model, tokenizer, DecodingConfig(**SETTINGS))


def run_of(translator, **options):
    return RunConfig(
        preset="tiny",
        model=translator.model.config,
        training=TrainingConfig(),
        decoding=translator.decoding,
        source_language="en",
        target_language="de",
        tokenizer_hash=translator.tokenizer.fingerprint,
        **options,
    )


def write(translator, folder, card="A card.\n"):
    huggingface_writer.write(translator, run_of(translator), folder, card)


VARIANTS = {
    "the paper's": {},
    "biases, other depths and activation": {
        "attention_bias": True,
        "output_bias": True,
        "num_decoder_layers": 1,
        "decoder_d_ff": 24,
        "activation": "silu",
        "position_layout": "concatenated",
        "suppressed_ids": (0, 2),
    },
    "zeros as first input": {"zero_first_input": True},
}


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS.keys())
def both(request, tmp_path_factory):
    """A translator, and the model_dir of what was written and imported again."""
    folder = tmp_path_factory.mktemp("written")
    translator = make_translator(**request.param)
    write(translator, folder / "published")
    importing.import_model(folder / "published", folder / "model")
    return translator, ModelDir(folder / "model")


def test_ids_and_texts_stay_the_same(both):
    translator, model_dir = both
    ours, again = translator.tokenizer, model_dir.load_tokenizer()
    assert again.ids() == ours.ids()
    for text, ids, ids_again in zip(
        TEXTS, ours.encode(TEXTS), again.encode(TEXTS), strict=True
    ):
        assert ids_again.tolist() == ids.tolist(), text
        (decoded,) = again.decode([ids])
        assert decoded == ours.decode([ids])[0]
    assert model_dir.read_config().source_language == "en"


def test_logits_stay_the_same(both):
    """Up to the epsilon of layer normalization; the first input is never an output."""
    translator, model_dir = both
    source = translator.tokenizer.encode_rows(LINES)
    inputs = translator.model.shift_right(source[::-1])
    ours = translator.model(source, inputs).numpy()
    again = model_dir.load_model()(source, inputs).numpy()
    config = translator.model.config
    is_output = np.arange(config.vocab_size) != config.bos_id
    if not config.zero_first_input:
        is_output[:] = True
    np.testing.assert_allclose(again[..., is_output], ours[..., is_output], atol=1e-3)
    assert (again[..., ~is_output] < -1000).all()


SYMBOLS = ("<ph1>", "<ph2>", "<pc1>", "</pc1>", "<news>")
WITH_SYMBOLS = [
    "<news> one <ph1> two <pc1>three</pc1>.",
    "<ph2><ph1>",
    "A dog <pc1><ph2></pc1> runs",
    "one\n<ph1>\ttwo",
    "no symbol: <ph3>, <pc 1>, < ph1 >",
]


def with_symbols(how):
    """Return a vocabulary with symbols, trained with them or extended by them."""
    if how == "trained":
        return tokenization.train_bpe(LINES * 5, vocab_size=310, symbols=SYMBOLS)
    small = tokenization.train_bpe(LINES * 5, vocab_size=300, symbols=SYMBOLS[:1])
    return extension.extend(small, LINES * 5, 5, symbols=SYMBOLS[1:]).tokenizer


@pytest.mark.long
@pytest.mark.parametrize("how", ["trained", "extended"])
def test_placeholders_and_tags_stay(tmp_path, how):
    """The search of the imported model keeps them, as that of the written one does."""
    translator = make_translator(with_symbols(how))
    write(translator, tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    again = load_searcher(tmp_path / "model", **SETTINGS)
    ours, theirs = translator.tokenizer, again.tokenizer
    assert len(ours.placeholders) == 4
    assert theirs.placeholders == ours.placeholders
    assert all(map(theirs.has_symbol, SYMBOLS))
    for text, ids in zip(WITH_SYMBOLS, ours.encode(WITH_SYMBOLS), strict=True):
        assert theirs.encode([text])[0].tolist() == ids.tolist(), text
        assert theirs.decode([ids]) == ours.decode([ids])
    for text, found in zip(WITH_SYMBOLS, again.translate(WITH_SYMBOLS), strict=True):
        for symbol in ours.placeholders:
            assert found.text.count(symbol) == text.count(symbol), found.text


@pytest.mark.long
@pytest.mark.parametrize("both", [VARIANTS["the paper's"]], indirect=True)
def test_translations_stay_the_same(both):
    """The imported model searches with length ** alpha, as Transformers does."""
    translator, model_dir = both
    settings = dataclasses.replace(
        translator.decoding, length_penalty="power", max_output_length=95
    )
    ours = Translator(translator.model, translator.tokenizer, settings)
    again = load_searcher(model_dir.path, **SETTINGS)
    assert again.decoding == settings
    for one, other in zip(ours.translate(LINES), again.translate(LINES), strict=True):
        assert other.text == one.text
        assert other.score == pytest.approx(one.score, abs=1e-3)


@pytest.mark.parametrize("name", ["opus_mt", "opus_mt_tc_big"])
def test_an_imported_model_is_written_as_it_was(shared_data, tmp_path, name):
    published = shared_data / "pretrained" / name
    if not published.is_dir():
        pytest.skip(f"no published model: {name} is absent")
    importing.import_model(published, tmp_path / "model")
    model_dir = ModelDir(tmp_path / "model")
    translator, run = load_searcher(model_dir.path), model_dir.read_config()
    written = tmp_path / "written"
    huggingface_writer.write(translator, run, written, "A card.\n")
    for vocabulary in ("source.spm", "target.spm"):
        content = (written / vocabulary).read_bytes()
        assert content == (published / vocabulary).read_bytes()
    ids, expected = (
        json.loads((at / "vocab.json").read_text()) for at in (written, published)
    )
    assert ids == expected
    tensors = load_file(written / "model.safetensors")
    originals = load_file(published / "model.safetensors")
    assert tensors.keys() == originals.keys()
    for key, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, originals[key], err_msg=key)
    importing.import_model(written, tmp_path / "again")
    again = ModelDir(tmp_path / "again")
    assert again.read_config().model == run.model
    assert again.load_tokenizer().fingerprint == run.tokenizer_hash


def test_transformers_finds_what_it_reads(tmp_path):
    """It takes limits and special ids from these files, not from its defaults."""
    translator = make_translator(suppressed_ids=(0,))
    write(translator, tmp_path / "published")
    options, generation, tokenizer = (
        json.loads((tmp_path / "published" / f"{name}.json").read_text())
        for name in ("config", "generation_config", "tokenizer_config")
    )
    assert (options["max_position_embeddings"], generation["max_length"]) == (95, 96)
    for values in (options, generation):
        assert (values["pad_token_id"], values["eos_token_id"]) == (0, 3)
        assert values["decoder_start_token_id"] == 2
        assert values["forced_eos_token_id"] is None
    assert generation["bad_words_ids"] == [[0]]
    assert (generation["num_beams"], generation["length_penalty"]) == (4, 0.6)
    assert generation["no_repeat_ngram_size"] == 3
    assert generation["early_stopping"] is False
    assert tokenizer["split_special_tokens"] is True
    assert tokenizer["model_max_length"] == 90
    read = importing.read(tmp_path / "published")
    assert read.decoding.max_input_length == 90
    assert read.decoding.no_repeat_ngram_size == 3
    assert read.decoding.max_output_length == 95
    with (tmp_path / "published" / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert header["__metadata__"] == {"format": "pt"}


@pytest.mark.parametrize(
    "settings",
    [
        {"force_eos": True, "certain_eos": True, "early_stopping": True},
        {"renormalize": True},
        {"max_output_length": 31, "beam_size": 1, "length_penalty_alpha": 0.0},
    ],
)
def test_the_settings_of_the_search_stay(tmp_path, settings):
    plain = make_translator()
    own = dataclasses.replace(plain.decoding, length_penalty="power", **settings)
    translator = Translator(plain.model, plain.tokenizer, own)
    write(translator, tmp_path / "published")
    read = importing.read(tmp_path / "published").decoding
    expected = {"extra_decode_length": 50, "max_output_length": 95, **settings}
    assert read == dataclasses.replace(own, **expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm_placement": "pre"}, "needs norm_placement='post'.*='pre'"),
        ({"position_encoding": "learned"}, "needs position_encoding='sinusoidal'"),
        ({"position_layout": "halves"}, "position_layout='halves'"),
        ({"first_position": 1}, "needs first_position=0.*=1"),
        ({"share_embeddings": False}, "needs share_embeddings=True.*=False"),
        ({"normalize_embeddings": True}, "needs normalize_embeddings=False"),
        ({"attention_window": 3}, "needs attention_window=None.*=3"),
        ({"key_dim": 5}, "needs key_dim = value_dim = d_model / num_heads.*key_dim=5"),
        ({"layer_norm_epsilon": 1e-3}, "layer_norm_epsilon=0.001"),
    ],
)
def test_a_model_that_marian_lacks_is_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message) as found:
        write(make_translator(**options), tmp_path / "published")
    assert "\n" not in str(found.value)
    assert not list(tmp_path.iterdir())


def test_every_option_of_a_model_is_written_or_refused():
    """A new field of ModelConfig must get its place in the writer, and here."""
    written = {"vocab_size", "d_model", "activation", "output_bias", "attention_bias"}
    written |= {"num_layers", "num_encoder_layers", "num_decoder_layers", "num_heads"}
    written |= {"d_ff", "encoder_d_ff", "decoder_d_ff", "dropout_rate"}
    written |= {"attention_dropout_rate", "ffn_dropout_rate", "position_layout"}
    written |= {"zero_first_input", "suppressed_ids", "pad_id", "bos_id", "eos_id"}
    refused = {"key_dim", "value_dim", "norm_placement", "layer_norm_epsilon"}
    refused |= {"attention_window", "share_embeddings", "target_vocab_size"}
    refused |= {"position_encoding", "num_positions", "first_position"}
    refused |= {"normalize_embeddings", "share_decoder_embeddings"}
    # Tells only us where to read alignments.
    dropped = {"alignment_head"}
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    assert fields == written | refused | dropped


def test_word_pieces_are_refused(tmp_path):
    tokenizer = tokenization.train_wordpiece(LINES * 5, vocab_size=140)
    with pytest.raises(ValueError, match="kind wordpiece has no SentencePiece model"):
        write(make_translator(tokenizer), tmp_path / "published")


def test_a_language_before_each_text_is_refused(tmp_path):
    small_published.write_huggingface(tmp_path / "m2m", "m2m_100")
    read = importing.read(tmp_path / "m2m", "auto", "en", "de")
    ids = {
        name: getattr(read.tokenizer, name) for name in ("pad_id", "bos_id", "eos_id")
    }
    translator = make_translator(read.tokenizer, **ids)
    with pytest.raises(ValueError, match="no language token before a text"):
        write(translator, tmp_path / "published")


def test_a_folder_with_files_is_not_replaced(tmp_path):
    (tmp_path / "weights").write_text("dear")
    with pytest.raises(FileExistsError, match="is not empty. Give a folder that does"):
        write(make_translator(), tmp_path)
    assert (tmp_path / "weights").read_text() == "dear"


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write(make_translator(), tmp_path / "published", card="half of a pair: \ud83d")
    assert not list(tmp_path.iterdir())


REPORT = {
    "checkpoint": "elsewhere/model/averaged/step-00000007",
    "sacrebleu": 39.51,
    "chrf": 61.25,
    "exact_match": 3.0,
    "num_sentences": 1000,
    "signature": "nrefs:1|case:mixed",
}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """The folder of a run with an average."""
    place = ModelDir(tmp_path_factory.mktemp("run") / "model")
    translator = make_translator()
    run = dataclasses.replace(run_of(translator), source_language="no")
    place.write_config(run)
    translator.tokenizer.save(place.tokenizer_path)
    state = {"averaged_steps": [5, 7]}
    place.checkpoints("averaged").save(7, state, model=translator.model)
    return place.path


def test_the_program_writes_a_card_with_the_scores(program_of, run_folder, tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    summary = program_of("export/convert_huggingface.py")(
        model_dir=run_folder,
        output_dir=tmp_path / "published",
        report=tmp_path / "report.json",
    )
    assert summary["output_dir"] == str(tmp_path / "published")
    card = (tmp_path / "published" / "README.md").read_text()
    _, front_matter, text = card.split("---\n", 2)
    described = yaml.safe_load(front_matter)
    assert described["language"] == ["no", "de"]
    assert described["pipeline_tag"] == "translation"
    for line in (
        "# Translation from no to de",
        f"| parameters | {summary['parameters']:,} |",
        "| weights | mean of steps 5, 7 |",
        "| sacreBLEU | 39.51 |",
        "Signature: `nrefs:1|case:mixed`.",
    ):
        assert line in text.splitlines(), line
    assert "the run by the paper's ((5 + length) / 6) ** alpha." in text
    assert {path.name for path in (tmp_path / "published").iterdir()} == {
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        *("source.spm", "target.spm", "tokenizer_config.json", "vocab.json"),
    }


def test_the_card_of_an_imported_model_tells_of_no_training(run_folder, tmp_path):
    place = ModelDir(shutil.copytree(run_folder, tmp_path / "run"))
    run = place.read_config()
    place.write_config(
        dataclasses.replace(run, preset="imported", origin={"family": "marian"})
    )
    card = model_card.make_card(place, place.choose(), 7, is_converted=True)
    assert "imported by keras_transformer from a published model (marian)" in card
    assert "## Training" not in card and "## Evaluation" not in card
    # Training from it takes its preset's name, but is a training.
    place.write_config(dataclasses.replace(run, preset="imported"))
    place.model_path.touch()
    card = model_card.make_card(place, Checkpoint(place.model_path, 7), 7)
    assert "trained with keras_transformer" in card and "| weights | step 7 |" in card


def test_a_report_may_be_compressed(tmp_path):
    checkpoint = Checkpoint(tmp_path / "model" / "averaged" / "step-00000007", 7)
    text_files.write_text(tmp_path / "report.json.gz", json.dumps(REPORT, indent=2))
    assert (tmp_path / "report.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert model_card.read_report(tmp_path / "report.json.gz", checkpoint) == REPORT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            json.dumps({**REPORT, "checkpoint": "model/best/step-00000005"}),
            "scores of best/step-00000005, but averaged/step-00000007 is written",
        ),
        (
            json.dumps({**REPORT, "ensemble": ["b/best/step-00000002"]}),
            "scores of an ensemble with b/best/step-00000002, but one model is written",
        ),
        ("{}", "not a report of bin/evaluate.py on a translation model .*checkpoint"),
        ("a line\n", "not a report of bin/evaluate.py"),
    ],
)
def test_a_report_of_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "report.json").write_text(content)
    checkpoint = Checkpoint(tmp_path / "model" / "averaged" / "step-00000007", 7)
    with pytest.raises(ValueError, match=message):
        model_card.read_report(tmp_path / "report.json", checkpoint)
