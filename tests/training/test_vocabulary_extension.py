"""A trained model gets a larger vocabulary and computes what it did before."""

import numpy as np
import pytest

from keras_transformer import data
from keras_transformer.config import ModelConfig, PairEncoding
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import vocabulary_extension
from tests.preparation_options import with_values
from tests.searchers import load_searcher
from tests.small_models import LINES, choosing_model, write_run

NEW = ["snowboard snowboards", "two dogs, two snowboards"] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, a model of its vocabulary, and new text."""
    folder = tmp_path_factory.mktemp("extended")
    (folder / "new").write_text("\n".join(NEW) + "\n")
    write_run(folder)
    return folder


def test_a_larger_model_computes_what_it_did(folder, program_of, capsys):
    summary = program_of("bin/extend_vocabulary.py")(
        model_dir=folder / "model",
        output_dir=folder / "larger",
        text=folder / "new",
        num_pieces=12,
        symbols="<bt>",
        data_dir=folder / "data",
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "added 1 symbol, 2 characters and 10 longer pieces: 313 in all"
    assert summary["tokens_after"] < summary["tokens_before"]
    old, new = ModelDir(folder / "model"), ModelDir(folder / "larger")
    before, after = load_searcher(old.path), load_searcher(new.path)
    source = before.tokenizer.encode_rows(LINES)
    assert after.tokenizer.encode_rows(LINES).tolist() == source.tolist()
    inputs = before.model.shift_right(source)
    logits = after.model(source, inputs).numpy()
    np.testing.assert_array_equal(logits[..., :300], before.model(source, inputs))
    table = before.model.embedding.embeddings.numpy()
    (ids,) = before.tokenizer.encode(["<bt>"])
    np.testing.assert_allclose(
        after.model.embedding.embeddings.numpy()[300],
        table[ids].mean(axis=0),
        rtol=1e-6,
    )
    assert new.read_config().tokenizer_hash == after.tokenizer.fingerprint
    card = new.card_path.read_text()
    assert "| vocabulary | 313 pieces |" in card
    assert f"| parameters | {after.model.count_params():,} |" in card
    assert "| weights |" not in card  # it has no step


@pytest.mark.long
def test_a_trained_model_gets_placeholders(folder, program_of):
    program_of("bin/extend_vocabulary.py")(
        model_dir=folder / "model", output_dir=folder / "placed", placeholders=4
    )
    summary = program_of("bin/extend_vocabulary.py")(
        model_dir=folder / "placed", output_dir=folder / "more", placeholders=5
    )
    assert summary["symbols"] == 1  # a fifth one, and tags come by fours
    tokenizer = ModelDir(folder / "placed").load_tokenizer()
    assert tuple(tokenizer.placeholders) == PairEncoding(placeholders=4).symbols
    data.prepare(
        data.TextFiles(
            {"train": [folder / "new"] * 2, "valid": [folder / "new"] * 2}, "en", "de"
        ),
        folder / "masked",
        lambda texts: tokenizer,
        with_values(placeholders=4),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "There is nothing to add. Give --text, --symbols or --placeholders."),
        ({"text": "new"}, "Give either --data_dir, so that its text is split as befor"),
        (
            {"text": "new", "data_dir": "data", "resplit": True},
            "Give either --data_dir, so that its text is split as before, or --resplit",
        ),
        (
            {"symbols": "<a>", "output_dir": "model"},
            "model already holds a model. Give",
        ),
        ({"symbols": "<a>", "data_dir": "model"}, "No metadata.json in .*model. Prepa"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(
    folder, program_of, tmp_path, given, message
):
    flags = {"output_dir": tmp_path / "larger"}
    for name, value in given.items():
        is_path = name in ("text", "data_dir", "output_dir")
        flags[name] = folder / value if is_path else value
    with pytest.raises((ValueError, FileExistsError, FileNotFoundError), match=message):
        program_of("bin/extend_vocabulary.py")(model_dir=folder / "model", **flags)
    assert not (tmp_path / "larger").exists()


def test_a_file_in_place_of_the_output_dir_is_named(folder, program_of):
    with pytest.raises(NotADirectoryError, match="text is a file, but a folder is ne"):
        program_of("bin/extend_vocabulary.py")(
            model_dir=folder / "model", output_dir=folder / "text", symbols="<a>"
        )


@pytest.fixture(scope="module")
def with_placeholders(folder, program_of):
    """A model whose vocabulary has placeholders."""
    program_of("bin/extend_vocabulary.py")(
        model_dir=folder / "model", output_dir=folder / "holding", placeholders=4
    )
    return ModelDir(folder / "holding")


def prepare(model_dir, folder, lines, **options):
    """Write a corpus of some lines, both sides equal, with a model's vocabulary."""
    text = folder / "lines"
    text.write_text("\n".join(lines) + "\n")
    data.prepare(
        data.TextFiles(dict.fromkeys(("train", "valid"), (text, text)), "en", "de"),
        folder / "data",
        lambda texts: model_dir.load_tokenizer(),
        with_values(**options),
    )
    return folder / "data"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"subword_encodings": 2},
            "has random encodings, which do not tell .* and without --subword_encodin",
        ),
        (
            {"placeholders": 4, "placeholder_rate": 0.99},
            r"has placeholders for words, and does not .* and without --placeholders,",
        ),
        (
            {"placeholders": 4, "subword_encodings": 2, "placeholder_rate": 0.0},
            "has random encodings",
        ),
        ({"placeholders": 1, "placeholder_rate": 0.01}, "has placeholders for words"),
    ],
)
def test_other_ids_than_those_of_the_text_do_not_tell_how_it_is_split(
    folder, with_placeholders, program_of, tmp_path, options, message
):
    corpus = prepare(with_placeholders, tmp_path, LINES, **options)
    with pytest.raises(ValueError, match=message) as found:
        program_of("bin/extend_vocabulary.py")(
            model_dir=with_placeholders.path,
            output_dir=tmp_path / "larger",
            text=folder / "new",
            data_dir=corpus,
        )
    assert f"--tokenizer_from={with_placeholders.path}" in str(found.value)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "larger").exists()


def test_text_that_placeholders_may_hide_is_split_as_before(
    with_placeholders, program_of, tmp_path
):
    """The text is prepared again without them, as the message says."""
    lines = ["Snowboard 2001 in Zermatt", "Zermatt 2002", "a Snowboard of Berta"] * 3
    corpus = prepare(with_placeholders, tmp_path, lines)
    (tmp_path / "new").write_text("\n".join([*lines, *NEW]) + "\n")
    program_of("bin/extend_vocabulary.py")(
        model_dir=with_placeholders.path,
        output_dir=tmp_path / "larger",
        text=tmp_path / "new",
        num_pieces=9,
        data_dir=corpus,
    )
    old = with_placeholders.load_tokenizer()
    new = ModelDir(tmp_path / "larger").load_tokenizer()
    assert new.vocab_size > old.vocab_size
    for one, other in zip(new.encode(lines), old.encode(lines), strict=True):
        assert one.tolist() == other.tolist()


def test_every_matrix_and_the_bias_get_rows():
    config = ModelConfig(
        vocab_size=9,
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        share_embeddings=False,
        output_bias=True,
    )
    model = choosing_model(config, seed=5)
    grown = vocabulary_extension._grown(model, [(4, 5, 5), (8,)])
    assert grown.config.vocab_size == 11
    for name in ("embedding", "target_embedding", "output_embedding"):
        old, new = getattr(model, name).embeddings, getattr(grown, name).embeddings
        mean = old.numpy()[[4, 5, 5]].mean(axis=0)
        expected = [*old.numpy(), mean, old.numpy()[8]]
        np.testing.assert_allclose(new, expected, rtol=1e-6)
    bias = grown.output_embedding.output_bias.numpy()
    assert bias.shape == (11,)
    assert bias[10] == model.output_embedding.output_bias.numpy()[8]


def test_the_corpus_of_another_vocabulary_is_refused(folder, program_of, tmp_path):
    extend = program_of("bin/extend_vocabulary.py")
    shared = {"symbols": "<one>", "output_dir": tmp_path / "larger"}
    extend(model_dir=folder / "model", **shared)
    with pytest.raises(ValueError, match="has another vocabulary than"):
        extend(
            model_dir=tmp_path / "larger",
            data_dir=folder / "data",
            text=folder / "new",
            output_dir=tmp_path / "other",
        )
