"""Published models become folders of ours, with the same outputs."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_transformer import data
from keras_transformer.layers.positional_encoding import sinusoidal_encoding
from keras_transformer.pretrained import importing
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.serving import saved_model
from tests.pretrained import small_published
from tests.small_models import inputs_of

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
    translator = model_dir.load_translator()
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


@pytest.mark.parametrize(("kind", "beam_size"), [("greedy", 1), ("beam", 4)])
def test_searches_find_the_outputs_of_the_original_library(published, kind, beam_size):
    model_dir, wanted, _ = published
    translator = model_dir.load_translator(beam_size=beam_size)
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


@pytest.mark.long
def test_the_export_translates_the_same(published, tmp_path):
    model_dir, wanted, _ = published
    translator = model_dir.load_translator()
    version = saved_model.export(
        translator, tmp_path / "export", signatures=["serving_default"]
    )
    found = saved_model.translate(version, wanted["texts"])
    texts = [each.text for each in translator.translate(wanted["texts"])]
    assert [each.text for each in found] == texts


def write(folder, family):
    if family == "npz":
        return small_published.write_marian(folder)
    return small_published.write_huggingface(folder, family)


@pytest.mark.parametrize("family", ["marian", "m2m_100", "npz"])
def test_an_imported_model_computes_what_the_original_does(tmp_path, family):
    original = write(tmp_path / "published", family)
    names = {"m2m_100": "m2m"}.get(family, family)
    summary = importing.import_model(
        tmp_path / "published", tmp_path / "model", **languages(names)
    )
    assert summary["parameters"] == original.count_params()
    model = ModelDir(tmp_path / "model").load_model()
    expected = original.config
    if family == "npz":  # Marian does not store it
        expected = dataclasses.replace(expected, dropout_rate=0.1)
    assert model.config == expected
    inputs = model.shift_right(TARGET)
    np.testing.assert_allclose(
        model(SOURCE, inputs), original(SOURCE, inputs), atol=1e-5
    )


def test_a_language_token_at_the_start_of_a_text_is_one_id(tmp_path):
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    tokenizer = ModelDir(tmp_path / "model").load_tokenizer()
    texts = [">>deu<< one two", "one two", ">>xyz<< one two"]
    with_language, plain, unknown = tokenizer.tokenize(texts).to_list()
    assert with_language == [2, *plain]
    assert 2 not in unknown
    assert tokenizer.detokenize([with_language])[0].numpy() == b"one two"


def test_no_search_chooses_a_suppressed_id(tmp_path):
    """The bias of padding makes it the likeliest token of all."""
    original = small_published.write_huggingface(tmp_path / "published")
    path = tmp_path / "published" / "model.safetensors"
    tensors = load_file(path)
    tensors["final_logits_bias"][0, original.config.pad_id] = 50.0
    save_file(tensors, path)
    importing.import_model(tmp_path / "published", tmp_path / "model")
    translator = ModelDir(tmp_path / "model").load_translator(extra_decode_length=5)
    found = translator.search(translator.source_tokens(tf.constant(["one two"]))[0])
    length = int(found.lengths[0, 0])
    assert length > 1
    assert original.config.pad_id not in found.tokens[0, 0, :length].numpy()


def test_the_origin_of_a_model_is_recorded(tmp_path):
    small_published.write_huggingface(tmp_path / "published")
    importing.import_model(tmp_path / "published", tmp_path / "model")
    origin = ModelDir(tmp_path / "model").read_config().origin
    assert origin["family"] == "marian"
    names = {"model.safetensors", "source.spm", "target.spm", "vocab.json"}
    assert set(origin["sha256"]) == names


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


def with_option(**options):
    def damage(folder):
        path = folder / "config.json"
        small_published.write_json(path, {**json.loads(path.read_text()), **options})

    return damage


def cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def only_a_pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def with_fewer_pieces(folder):
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text())
    vocabulary.popitem()
    small_published.write_json(path, vocabulary)


FC1 = "model.encoder.layers.0.fc1.weight"
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
        (with_fewer_pieces, "They belong to different models"),
        (with_option(model_type="t5"), "model_type is 't5'; marian"),
        (with_option(activation_function="mish"), "activation_function is 'mish'"),
        (with_option(scale_embedding=False), "scale_embedding is False"),
        (with_option(decoder_attention_heads=3), "decoder_attention_heads is 3"),
        (lambda folder: (folder / "source.spm").unlink(), "source.spm is absent"),
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
    weights = {path.name for path in folder.iterdir() if "model" in path.stem}
    named = set(imported.read_config().origin["sha256"])
    assert named == {"source.spm", "target.spm", "vocab.json"} | {
        name for name in weights if not name.endswith(".json")
    }


def test_a_shard_that_is_absent_is_named(tmp_path):
    folder = tmp_path / "published"
    small_published.write_huggingface(folder)
    in_shards(folder, load_file(folder / "model.safetensors"))
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match="model-00002-of-00002.safetensors is damaged"):
        importing.import_model(folder, tmp_path / "model")


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
    found = ModelDir(tmp_path / "model").load_translator().translate(["", "one two"])
    assert (found[0].text, found[0].score) == ("", 0.0)


@pytest.mark.long
@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_every_signature_of_an_imported_model_answers(tmp_path, family):
    """A drawn output begins with the language, and has no suppressed id."""
    small_published.write_huggingface(tmp_path / "published", family)
    importing.import_model(
        tmp_path / "published", tmp_path / "model", **languages(family)
    )
    translator = ModelDir(tmp_path / "model").load_translator(extra_decode_length=5)
    version = saved_model.export(translator, tmp_path / "export")
    loaded = tf.saved_model.load(str(version))
    texts = ["one two three", "zwei eins"]
    for name, signature in loaded.signatures.items():
        answer = signature(**inputs_of(name, texts))
        if name == "sample":
            drawn = [text.decode() for text in answer["translation"].numpy()]
            assert not any("__" in text or "<pad>" in text for text in drawn)
        if name == "score":
            assert np.isfinite(answer["log_probability"]).all()
