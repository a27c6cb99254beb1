"""Published models become folders of ours, with the same outputs."""

import dataclasses
import io
import json

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import yaml
from safetensors.numpy import load_file, save_file

from keras_transformer import data, tokenization
from keras_transformer.layers.positional_encoding import sinusoidal_encoding
from keras_transformer.opening import open_model
from keras_transformer.pretrained import huggingface, importing
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving import saved_model
from tests.pretrained import small_published
from tests.searchers import load_searcher
from tests.small_models import LINES, inputs_of

SOURCE = np.array([[5, 9, 7, 4, 2], [6, 8, 2, 1, 1]], "int32")
TARGET = np.array([[5, 4, 6, 11, 10, 7, 3], [8, 9, 4, 3, 5, 5, 6]], "int32")
PUBLISHED = ["opus_mt", "opus_mt_tc_big", "marian", "m2m100"]


def languages(name):
    has_languages = name.startswith("m2m")
    return {"source_language": "en", "target_language": "de"} if has_languages else {}


@pytest.fixture(scope="module", params=PUBLISHED)
def published(request, shared_data, tmp_path_factory):
    """A published model in `shared/data`, imported, and what its own library gave."""
    folder = shared_data / "pretrained" / request.param
    model_dir = tmp_path_factory.mktemp("imported") / "model"
    importing.import_model(folder, model_dir, **languages(request.param))
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return ModelDir(model_dir), wanted, np.load(folder / "expected.npz")


def rows(tokens, lengths):
    return [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]


def test_text_becomes_the_ids_of_the_original_library(published):
    model_dir, wanted, _ = published
    translator = load_searcher(model_dir.path)
    tokens, truncated = translator.source_tokens(tf.constant(wanted["texts"]))
    lengths = translator.lengths(tokens)
    assert rows(tokens.numpy(), lengths.numpy()) == wanted["source_ids"]
    assert not np.any(truncated)


def test_encoder_outputs_and_logits_are_those_of_the_original_library(published):
    model_dir, _, arrays = published
    model = model_dir.load_model()
    is_real = arrays["attention_mask"]
    encoded = np.asarray(model.encode(arrays["input_ids"]))
    np.testing.assert_allclose(
        encoded[is_real], arrays["encoder_output"][is_real], atol=1e-4
    )
    logits = model(arrays["input_ids"], arrays["decoder_input_ids"])
    np.testing.assert_allclose(logits, arrays["logits"], atol=1e-4)


@pytest.mark.long(first=2)
@pytest.mark.parametrize(("kind", "beam_size"), [("greedy", 1), ("beam", 4)])
def test_searches_find_the_outputs_of_the_original_library(published, kind, beam_size):
    model_dir, wanted, _ = published
    translator = load_searcher(model_dir.path, beam_size=beam_size)
    tokens, _ = translator.source_tokens(tf.constant(wanted["texts"]))
    limits = tf.fill([len(wanted["texts"])], wanted["generate"]["max_new_tokens"])
    prefix = translator.own_prefix(tf.size(limits))
    found = translator.best_outputs(tokens, limits, forced_prefix=prefix)
    ids = rows(found.tokens[:, 0].numpy(), found.lengths[:, 0].numpy())
    start = int(translator.tokenizer.target_prefix_id is not None)
    assert ids == [each[start:] for each in wanted[f"{kind}_ids"]]
    texts = translator.tokenizer.detokenize(found.tokens[:, 0]).numpy()
    assert [text.decode() for text in texts] == wanted[f"{kind}_texts"]
    if kind == "beam":
        scores = found.scores[:, 0]
        np.testing.assert_allclose(scores, wanted["beam_scores"], atol=1e-3)


@pytest.mark.long(first=1)
def test_the_export_translates_the_same(published, tmp_path):
    model_dir, wanted, _ = published
    translator = load_searcher(model_dir.path)
    version = saved_model.export(
        translator, tmp_path / "export", signatures=["serving_default"]
    )
    found = open_model(version).translate(wanted["texts"])
    texts = [each.text for each in translator.translate(wanted["texts"])]
    assert [each.text for each in found] == texts


def write(folder, family):
    options = {}
    if " " in family:
        family, kind = family.split(" ")
        options = {"separate": True} | ({"tied": False} if kind == "untied" else {})
    if family == "npz":
        return small_published.write_marian(folder, **options)
    return small_published.write_huggingface(folder, family, **options)


@pytest.mark.parametrize(
    "family",
    ["marian", "marian separate", "m2m_100", "npz", "npz separate", "npz untied"],
)
def test_an_imported_model_computes_what_the_original_does(tmp_path, family):
    original = write(tmp_path / "published", family)
    names = {"m2m_100": "m2m"}.get(family, family)
    summary = importing.import_model(
        tmp_path / "published", tmp_path / "model", **languages(names)
    )
    assert summary["parameters"] == original.count_params()
    model = ModelDir(tmp_path / "model").load_model()
    expected = original.config
    if "npz" in family:  # Marian does not store it
        expected = dataclasses.replace(expected, dropout_rate=0.1)
    assert model.config == expected
    inputs = model.shift_right(TARGET)
    np.testing.assert_allclose(
        model(SOURCE, inputs), original(SOURCE, inputs), atol=1e-5
    )


@pytest.mark.parametrize("family", ["marian separate", "npz separate"])
def test_targets_may_have_a_vocabulary_of_their_own(tmp_path, family):
    folder = tmp_path / "published"
    write(folder, family)
    read = importing.read(folder)
    tokenizer = read.tokenizer
    is_npz = family.startswith("npz")
    names = (
        ("vocab.yml", "target.yml") if is_npz else ("vocab.json", "target_vocab.json")
    )
    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
    maps = [yaml.safe_load(text) for text in texts]
    text = "the big house sleeps"
    for given, ids, pieces_of in (
        (maps[0], tokenizer.encode([text])[0], tokenizer.pieces),
        (maps[1], tokenizer.encode_target([text])[0], tokenizer.target_pieces),
    ):
        pieces = [piece.decode() for piece in pieces_of(ids).numpy()]
        # A row of padding moves what follows it.
        moved = [given[p] + (is_npz and given[p] >= tokenizer.pad_id) for p in pieces]
        assert ids.tolist() == moved
    assert tokenizer.decode(tokenizer.encode_target([text])) == [text]
    tokenizer.save(tmp_path / "saved")
    again = tokenization.load(tmp_path / "saved")
    assert again.encode_target([text])[0].tolist() == ids.tolist()
    assert again.target_vocab_size == read.model.target_vocab_size


@pytest.mark.parametrize("num_bytes", [9_000, 300])
def test_an_archive_that_was_cut_is_named(tmp_path, num_bytes):
    folder = tmp_path / "published"
    write(folder, "npz")
    path = folder / "model.npz"
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(
        ValueError, match="model.npz is not a model of Marian, or is dam"
    ):
        importing.import_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_one_matrix_does_not_take_two_vocabularies(tmp_path):
    folder = tmp_path / "published"
    write(folder, "npz separate")
    archive = dict(np.load(folder / "model.npz"))
    text = bytes(archive["special:model.yml"]).decode()
    text = text.replace("tied-embeddings-all: false", "tied-embeddings-all: true")
    archive["special:model.yml"] = np.frombuffer(text.encode(), np.int8)
    np.savez(folder / "model.npz", **archive)
    with pytest.raises(
        ValueError, match="one matrix of embeddings, but decoder.yml nam"
    ):
        importing.read(folder)


def test_a_language_token_at_the_start_of_a_text_is_one_id(tmp_path):
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    tokenizer = ModelDir(tmp_path / "model").load_tokenizer()
    texts = [">>deu<< one two", "one two", ">>xyz<< one two"]
    with_language, plain, unknown = tokenizer.tokenize(texts).to_list()
    assert with_language == [2, *plain]
    assert 2 not in unknown
    assert tokenizer.detokenize([with_language])[0].numpy() == b"one two"


@pytest.mark.long(first=1)
@pytest.mark.parametrize("place", ["generation_config.json", "config.json"])
def test_no_search_chooses_a_suppressed_id(tmp_path, place):
    """The bias of padding makes it the likeliest token of all."""
    original = small_published.write_huggingface(tmp_path / "published")
    if place == "config.json":  # as in older folders
        newer = tmp_path / "published" / "generation_config.json"
        with_option(**json.loads(newer.read_text()))(tmp_path / "published")
        newer.unlink()
    path = tmp_path / "published" / "model.safetensors"
    tensors = load_file(path)
    tensors["final_logits_bias"][0, original.config.pad_id] = 50.0
    save_file(tensors, path)
    importing.import_model(tmp_path / "published", tmp_path / "model")
    translator = load_searcher(tmp_path / "model", extra_decode_length=5)
    found = translator.search(translator.source_tokens(tf.constant(["one two"]))[0])
    length = int(found.lengths[0, 0])
    assert length > 1
    assert original.config.pad_id not in found.tokens[0, 0, :length].numpy()


def test_the_origin_of_a_model_is_recorded(tmp_path):
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    origin = ModelDir(tmp_path / "model").read_config().origin
    assert origin["family"] == "marian"
    names = {path.name for path in (tmp_path / "published").iterdir()}
    assert set(origin["sha256"]) == names


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: mit\nlicense_link: [a]\n---\n", {"license": "mit"}),
        (
            "---\nlicense: other\nlicense_name: own\n---\n",
            {"license": "other", "license_name": "own"},
        ),
        ("---\nlicense: [mit, gpl]\n---\n", {}),
        ("---\nlicense: {mit\n---\n", {}),
        ("---\n- mit\n---\n", {}),
        ("license: mit\n", {}),
        (f"---\na: {'[' * 5000}\n---\n", {}),
        ("\udce4", {}),
        (None, {}),
    ],
)
def test_a_licence_is_read_where_a_card_names_it(tmp_path, card, licence):
    if card is not None:
        text = card.encode(errors="surrogateescape")
        (tmp_path / "README.md").write_bytes(text)
    assert importing.licence_of(tmp_path) == licence


def test_null_is_an_option_that_is_not_set(tmp_path):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder)
    plain = importing.read(folder)
    names = ("length_penalty", "num_beams", "forced_bos_token_id")
    nothing = dict.fromkeys((*names, "no_repeat_ngram_size"))
    with_option("generation_config.json", **nothing)(folder)
    with_option(max_position_embeddings=None, activation_dropout=None)(folder)
    read = importing.read(folder)
    assert (read.model, read.decoding) == (plain.model, plain.decoding)


@pytest.mark.parametrize("value", [True, False, "never", None])
def test_early_stopping_is_read(tmp_path, value):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder)
    with_option("generation_config.json", early_stopping=value)(folder)
    assert importing.read(folder).decoding.early_stopping == (value is True)


@pytest.mark.parametrize("family", ["marian", "npz"])
def test_languages_of_one_pair_are_recorded(tmp_path, family):
    """Scores of Japanese text need the language, which Marian's files do not have."""
    folder = tmp_path / "published"
    write(folder, family)
    read = importing.read(folder, "auto", "en", "ja")
    assert (read.source_language, read.target_language) == ("en", "ja")


@pytest.mark.long
def test_an_imported_model_is_evaluated(program_of, tmp_path, capsys):
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    text = tmp_path / "text"
    text.write_text("one two\nthree\n")
    data.prepare(
        data.TextFiles(dict.fromkeys(("train", "valid"), (text, text)), "en", "de"),
        tmp_path / "data",
        lambda texts: ModelDir(tmp_path / "model").load_tokenizer(),
    )
    report = program_of("bin/evaluate.py")(
        model_dir=tmp_path / "model",
        data_dir=tmp_path / "data",
        split="valid",
        beam_size=1,
    )
    assert report["checkpoint"] == str(tmp_path / "model" / "model.keras")
    assert "(an imported model)" in capsys.readouterr().out


def damaged(change):
    """Return what changes the tensors of a folder."""

    def damage(folder):
        path = folder / "model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return damage


def with_option(name="config.json", **options):
    def damage(folder):
        path = folder / name
        small_published.write_json(path, {**json.loads(path.read_text()), **options})

    return damage


def cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def only_a_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def with_one_more_piece(folder):
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text())
    small_published.write_json(path, {**vocabulary, "more": len(vocabulary)})


def without_padding(folder):
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text())
    assert vocabulary.popitem()[0] == "<pad>"
    small_published.write_json(path, vocabulary)


def with_content(name, text):
    return lambda folder: (folder / name).write_text(text)


FC1 = "model.encoder.layers.0.fc1.weight"
BIAS = "final_logits_bias"
HEAD = "lm_head.weight"
POSITIONS = "model.encoder.embed_positions.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damaged(lambda tensors: tensors.pop(FC1)), f"{FC1} is missing"),
        (
            damaged(lambda tensors: tensors.update(extra=np.zeros(3, "float32"))),
            "The tensor extra belongs to no weight of ours",
        ),
        (
            damaged(lambda tensors: tensors.update({FC1: tensors[FC1].T.copy()})),
            rf"{FC1} must have the shape \(6, 7\)",
        ),
        (
            damaged(lambda tensors: tensors.update({FC1: np.ones((), "f4")})),
            "model.safetensors is damaged",
        ),
        (
            damaged(lambda tensors: tensors.update({HEAD: np.ones((9, 6), "f4")})),
            f"{HEAD} must be equal to model.shared.weight",
        ),
        (
            damaged(lambda tensors: tensors[FC1].fill(np.nan)),
            f"{FC1} has values that are not finite",
        ),
        (cut_short, "model.safetensors is damaged"),
        (only_a_pickle, "pytorch_model.bin (is a pickle, which only|cannot be read)"),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            "No model.safetensors in",
        ),
        (
            damaged(lambda tensors: tensors.update({POSITIONS: np.ones((9, 6), "f4")})),
            f"{POSITIONS} must have the sinusoids of 6 dimensions",
        ),
        (with_one_more_piece, "They belong to different models"),
        (without_padding, "vocab.json has no '<pad>'"),
        (with_option(model_type="t5"), "model_type is 't5'; marian"),
        (with_option(activation_function="mish"), "activation_function is 'mish'"),
        (
            with_option("generation_config.json", bad_words_ids=[[5, 6]]),
            r"bad_words_ids has \[5, 6\]; lists of one id can be read",
        ),
        (
            with_option("generation_config.json", bad_words_ids=[5]),
            "bad_words_ids has 5; lists of one id can be read",
        ),
        (
            with_option("generation_config.json", eos_token_id=7),
            "generation_config.json: eos_token_id is 7, which is not supported; 0 or",
        ),
        (
            with_option("generation_config.json", forced_eos_token_id=7),
            "forced_eos_token_id is 7",
        ),
        (
            with_option("generation_config.json", forced_bos_token_id=7),
            "forced_bos_token_id is 7",
        ),
        (with_option(eos_token_id=[0, 1]), r"eos_token_id must be a number.*: \[0, 1"),
        (with_option(pad_token_id=None), "config.json has no 'pad_token_id'"),
        (with_option(dropout="x"), "config.json: dropout must be a number"),
        (
            with_option("generation_config.json", length_penalty="x"),
            "length_penalty must be a number",
        ),
        (
            with_option("generation_config.json", no_repeat_ngram_size="x"),
            "no_repeat_ngram_size must be a number",
        ),
        (
            damaged(lambda tensors: tensors.update({FC1: tensors[FC1].astype("i1")})),
            f"{FC1} has the type I8; F64, F32, F16, BF16 can be read",
        ),
        (
            damaged(lambda tensors: tensors.update({FC1: tensors[FC1][:0]})),
            r"model.safetensors is damaged: .* shape \[0, 6\]",
        ),
        (
            damaged(lambda tensors: tensors.update({BIAS: tensors[BIAS][:, :-1]})),
            f"{BIAS} must have the shape",
        ),
        (damaged(dict.clear), "published have no tensors"),
        (
            with_content("model.safetensors.index.json", '{"weight_map": {"a": 3}}'),
            "the tensor model.shared.weight is missing",
        ),
        (
            with_option("vocab.json", **{"</s>": 1 << 40}),
            "vocab.json must have every id from 0 to",
        ),
        (with_option("vocab.json", **{"</s>": 1}), "must have every id from 0 to"),
        (
            with_option("vocab.json", **{"</s>": 1, "<unk>": 0}),
            "eos_token_id is 0, but </s> has the id 1 in the vocabulary",
        ),
        (with_option(tie_word_embeddings=False), "tie_word_embeddings is False"),
        (with_option(scale_embedding=False), "scale_embedding is False"),
        (with_option(decoder_attention_heads=3), "decoder_attention_heads is 3"),
        (lambda folder: (folder / "source.spm").unlink(), "source.spm is absent"),
        (with_content("source.spm", "x"), "source.spm: not a SentencePiece model"),
        (with_content("target.spm", ""), "target.spm: not a SentencePiece model"),
        (with_content("config.json", "[]"), "config.json is damaged: it must hold n"),
        (
            with_content(
                "config.json", '{"model_type": "marian", "scale_embedding": true}'
            ),
            "has no 'pad_token_i",
        ),
        (
            with_content("vocab.json", '{"<unk>": "1"}'),
            "the id of '<unk>' must be a nu",
        ),
        (
            with_content("model.safetensors.index.json", '{"weight_map": 3}'),
            "index.json is damaged: it must hold names with values",
        ),
        (lambda folder: (folder / "config.json").unlink(), "has neither config.json"),
    ],
)
def test_bad_folders_are_named_and_nothing_is_written(tmp_path, damage, message):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder)
    damage(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        importing.import_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def in_shards(folder, tensors):
    """Half of the tensors in each of two files, and the index that names them."""
    names = sorted(tensors)
    files = {"model-00001-of-00002.safetensors": names[::2]}
    files["model-00002-of-00002.safetensors"] = names[1::2]
    for file, held in files.items():
        save_file({name: tensors[name] for name in held}, folder / file)
    weight_map = {name: file for file, held in files.items() for name in held}
    small_published.write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {}, "weight_map": weight_map},
    )


def in_a_pickle(folder, tensors):
    """As PyTorch saves it, with the sinusoids, which older releases stored."""
    torch = pytest.importorskip("torch", reason="reading a pickle needs PyTorch")
    width = tensors["model.shared.weight"].shape[1]
    tensors[POSITIONS] = sinusoidal_encoding(np.arange(9), width, "concatenated")
    torch.save(
        {name: torch.tensor(np.asarray(array)) for name, array in tensors.items()},
        folder / "pytorch_model.bin",
    )


@pytest.mark.parametrize("store", [in_shards, in_a_pickle])
def test_weights_are_read_from_other_files(tmp_path, store):
    folder = tmp_path / "published"
    original = small_published.write_huggingface(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    store(folder, tensors)
    importing.import_model(folder, tmp_path / "model")
    imported = ModelDir(tmp_path / "model")
    for one, other in zip(
        imported.load_model().get_weights(), original.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    named = set(imported.read_config().origin["sha256"])
    assert named == {path.name for path in folder.iterdir()}


def test_a_shard_that_is_absent_is_named(tmp_path):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder)
    in_shards(folder, load_file(folder / "model.safetensors"))
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match="model-00002-of-00002.safetensors is damaged"):
        importing.import_model(folder, tmp_path / "model")


def test_a_tensor_is_read_in_blocks_of_rows(tmp_path, monkeypatch):
    original = small_published.write_huggingface(tmp_path / "published")
    monkeypatch.setattr(huggingface, "_BLOCK_VALUES", 40)  # six rows of six
    model = importing.build(importing.read(tmp_path / "published"))
    for own, other in zip(model.weights, original.weights, strict=True):
        np.testing.assert_array_equal(own, other, err_msg=own.path)


def test_stored_sinusoids_are_not_left_over(tmp_path):
    folder = tmp_path / "published"
    original = small_published.write_huggingface(folder)
    tensors = load_file(folder / "model.safetensors")
    width = original.config.d_model
    encoding = sinusoidal_encoding(np.arange(9), width, "concatenated")
    tensors[POSITIONS] = np.asarray(encoding)
    save_file(tensors, folder / "model.safetensors")
    summary = importing.import_model(folder, tmp_path / "model")
    assert summary["parameters"] == original.count_params()


def test_an_option_of_marian_that_we_lack_is_named(tmp_path):
    folder = tmp_path / "published"
    small_published.write_marian(folder)
    content = dict(np.load(folder / "model.npz"))
    text = bytes(content["special:model.yml"]).rstrip(b"\0")
    text += b"\ntransformer-decoder-autoreg: rnn\n\0"
    content["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(folder / "model.npz", **content)
    with pytest.raises(ValueError, match="transformer-decoder-autoreg is 'rnn', which"):
        importing.import_model(folder, tmp_path / "model")


def with_marian_options(**options):
    """Return what changes the options inside of Marian's archive."""

    def damage(folder):
        content = dict(np.load(folder / "model.npz"))
        values = yaml.safe_load(bytes(content["special:model.yml"]).rstrip(b"\0"))
        values |= {name.replace("_", "-"): value for name, value in options.items()}
        text = yaml.safe_dump(values).encode() + b"\0"
        content["special:model.yml"] = np.frombuffer(text, np.int8)
        np.savez(folder / "model.npz", **content)

    return damage


def with_marian_tensor(name, change):
    def damage(folder):
        content = dict(np.load(folder / "model.npz"))
        content[name] = change(content[name])
        np.savez(folder / "model.npz", **content)

    return damage


def with_yaml(name, **options):
    def damage(folder):
        values = yaml.safe_load((folder / name).read_text("utf-8"))
        (folder / name).write_text(yaml.safe_dump(values | options))

    return damage


W1 = "encoder_l1_ffn_W1"
MARIAN_BIAS = "decoder_ff_logit_out_b"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (with_marian_tensor("Wemb", lambda rows: rows[:-1]), "Wemb must have the sh"),
        (with_marian_tensor("Wemb", lambda rows: rows[:9]), "Wemb must have the shape"),
        (
            with_marian_tensor(MARIAN_BIAS, lambda bias: bias[:, :9]),
            f"{MARIAN_BIAS} must have the shape",
        ),
        (with_marian_tensor(W1, lambda _: np.float32(3)), f"{W1} must have the shape"),
        (
            with_marian_tensor(W1, lambda rows: rows.astype(np.int8)),
            f"{W1} has the type int8, not floating point",
        ),
        (with_marian_options(dim_vocabs=[900, 900]), "They belong to different models"),
        (with_marian_options(dim_vocabs=[]), r"dim-vocabs must have the sizes of 1 v"),
        (with_yaml("vocab.yml", more=10_000), "vocab.yml must have every id from 0"),
        (with_yaml("decoder.yml", models=["a", "b"]), "models has 2 files; an ensemb"),
        (with_yaml("decoder.yml", models=[]), r"models must be a list of file names"),
        (with_yaml("decoder.yml", vocabs=3), "vocabs must be a list of file names"),
        (with_yaml("decoder.yml", normalize=[]), "normalize must be a number"),
        (with_yaml("decoder.yml", **{"word-penalty": 0.5}), "word-penalty is 0.5, whi"),
        (
            lambda folder: (folder / "vocab.yml").write_bytes(b"\xff"),
            "vocab.yml is damaged",
        ),
    ],
)
def test_bad_folders_of_marian_are_named(tmp_path, damage, message):
    folder = tmp_path / "published"
    small_published.write_marian(folder)
    damage(folder)
    with pytest.raises(ValueError, match=message) as found:
        importing.import_model(folder, tmp_path / "model")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "model").exists()


def test_a_vocabulary_with_one_more_piece_than_the_model_is_refused(tmp_path):
    """With <pad> in the vocabulary and in the model, no row is missing."""
    folder = tmp_path / "published"
    small_published.write_marian(folder)
    size = len(np.load(folder / "model.npz")["Wemb"])
    with_yaml("vocab.yml", **{"<pad>": size, "more": size + 1})(folder)
    with_marian_options(dim_vocabs=[size + 1, size + 1])(folder)
    with_marian_tensor("Wemb", lambda rows: np.pad(rows, ((0, 1), (0, 0))))(folder)
    with pytest.raises(ValueError, match="They belong to different models"):
        importing.import_model(folder, tmp_path / "model")


def test_two_vocabularies_may_have_the_same_padding(tmp_path):
    folder = tmp_path / "published"
    original = small_published.write_marian(folder, separate=True)
    config = original.config
    pad_id = config.pad_id
    for name, size in (
        ("vocab.yml", config.vocab_size),
        ("target.yml", config.output_vocab_size),
    ):
        ids = yaml.safe_load((folder / name).read_text("utf-8"))
        ids = {piece: i + (i >= pad_id) for piece, i in ids.items()}
        small_published.write_json(folder / name, {**ids, "<pad>": pad_id})
        assert len(ids) == size - 1
    with_marian_options(dim_vocabs=[config.vocab_size, config.output_vocab_size])(
        folder
    )
    for name, axis in (("encoder_Wemb", 0), ("decoder_Wemb", 0), (MARIAN_BIAS, 1)):
        with_marian_tensor(
            name, lambda array, axis=axis: np.insert(array, pad_id, 0.0, axis=axis)
        )(folder)
    model = importing.build(importing.read(folder))
    assert model.config == dataclasses.replace(config, dropout_rate=0.1)
    inputs = model.shift_right(TARGET)
    np.testing.assert_allclose(
        model(SOURCE, inputs), original(SOURCE, inputs), atol=1e-5
    )


def test_vocabularies_of_marian_may_be_sentencepiece_models(tmp_path):
    """Their ids are those of SentencePiece; no other files are needed then."""
    folder = tmp_path / "published"
    small_published.write_marian(folder, separate=True)
    sizes = []
    for side, old in (("source", "vocab.yml"), ("target", "target.yml")):
        model, at = io.BytesIO(), folder / f"vocab.{side}.spm"
        (folder / old).unlink()
        (folder / f"{side}.spm").unlink()
        sizes.append(100 if side == "source" else 90)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES * 5),
            model_writer=model,
            vocab_size=sizes[-1],
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            model_type="bpe",
            minloglevel=2,
        )
        at.write_bytes(model.getvalue())
    with_marian_options(dim_vocabs=sizes)(folder)
    with_yaml("decoder.yml", vocabs=["vocab.source.spm", "vocab.target.spm"])(folder)
    read = importing.read(folder)
    importing.check_vocabulary_size(read)
    assert read.model.pad_id == 90  # at the end of the smaller one
    for side, encode in (
        ("source", read.tokenizer.encode),
        ("target", read.tokenizer.encode_target),
    ):
        model = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / f"vocab.{side}.spm")
        )
        ids = [i + (i >= 90) for i in model.encode(LINES[0])]
        assert encode([LINES[0]])[0].tolist() == ids
    assert {path.name for path in read.files} == {
        path.name for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "vocab.json").unlink(),
            "vocab.json is absent. Copy the whole folder",
        ),
        (with_content("vocab.json", "{}"), "vocab.json has no '<pad>'"),
        (
            with_content(
                "special_tokens_map.json", '{"additional_special_tokens":[3]}'
            ),
            "special_tokens_map.json is damaged: it must hold names with values",
        ),
        (
            with_content("languages.json", '{"__en__": 5, "__de__": 6}'),
            "Two pieces have the same id",
        ),
    ],
)
def test_bad_folders_of_m2m_100_are_named(tmp_path, damage, message):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder, "m2m_100")
    damage(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        importing.import_model(folder, tmp_path / "model", **languages("m2m"))
    assert not (tmp_path / "model").exists()


def test_a_damaged_sentencepiece_model_of_nllb_is_named(tmp_path):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder, "nllb")
    (folder / "sentencepiece.bpe.model").write_text("x")
    with pytest.raises(ValueError, match="bpe.model: not a SentencePiece model"):
        importing.read(folder, "auto", "eng_Latn", "deu_Latn")


def test_a_file_in_place_of_the_model_dir_is_named_first(tmp_path):
    small_published.write_huggingface(tmp_path / "published")
    (tmp_path / "model").write_text("dear")
    with pytest.raises(NotADirectoryError, match="model is a file, but a folder is n"):
        importing.import_model(tmp_path / "published", tmp_path / "model")


def test_an_unknown_language_is_refused_with_those_there_are(tmp_path):
    small_published.write_huggingface(tmp_path / "published", "m2m_100")
    with pytest.raises(ValueError, match=r"`target_language` must .* \(de, en\)"):
        importing.import_model(
            tmp_path / "published",
            tmp_path / "model",
            source_language="en",
            target_language="xx",
        )


def test_a_folder_with_a_model_is_not_overwritten(tmp_path):
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    with pytest.raises(FileExistsError, match="already holds a model"):
        importing.import_model(tmp_path / "published", tmp_path / "model")


@pytest.mark.long
def test_targets_have_a_sentencepiece_model_and_a_language_of_their_own(tmp_path):
    small_published.write_huggingface(tmp_path / "published", "m2m_100")
    importing.import_model(
        tmp_path / "published", tmp_path / "model", **languages("m2m")
    )
    tokenizer = ModelDir(tmp_path / "model").load_tokenizer()
    prefixes = tokenizer.source_prefix_id, tokenizer.target_prefix_id
    (source,), (target,) = tokenizer.encode(["one"]), tokenizer.encode_target(["one"])
    assert (source[0], target[0]) == prefixes
    assert source[1:].tolist() == target[1:].tolist()
    found = load_searcher(tmp_path / "model").translate(["", "one two"])
    assert (found[0].text, found[0].score) == ("", 0.0)


@pytest.mark.long(first=1)
@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_signatures_of_an_imported_model_answer(tmp_path, family):
    """A drawn output begins with the language, and has no suppressed id."""
    small_published.write_huggingface(tmp_path / "published", family)
    importing.import_model(
        tmp_path / "published", tmp_path / "model", **languages(family)
    )
    translator = load_searcher(tmp_path / "model", extra_decode_length=5)
    version = saved_model.export(
        translator, tmp_path / "export", signatures=["sample", "score", "prefix"]
    )
    loaded = tf.saved_model.load(str(version))
    texts = ["one two three", "zwei eins"]
    for name, signature in loaded.signatures.items():
        answer = signature(**inputs_of(name, texts))
        if name == "sample":
            drawn = [text.decode() for text in answer["translation"].numpy()]
            assert not any("__" in text or "<pad>" in text for text in drawn)
        if name == "score":
            assert np.isfinite(answer["log_probability"]).all()
