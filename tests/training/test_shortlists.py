"""The shortlist of a run: made, and used by the programs that search."""

import shutil

import numpy as np
import pytest

from keras_transformer import data
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training.shortlists import make_shortlist
from keras_transformer.translation import exported_model
from tests import small_corpus
from tests.searchers import load_searcher
from tests.small_models import LINES, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus whose target is its source, and a run with a shortlist of 3 and 2."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    make_shortlist(folder / "model", folder / "data", frequent=3, translations=2)
    return folder


def loaded(folder):
    place = ModelDir(folder / "model")
    fingerprint = place.read_config().tokenizer_hash
    return Shortlist.load(place.shortlist_path, fingerprint)


def test_a_list_has_special_pieces_bytes_frequent_ones_and_translations(folder):
    """Each piece may stay as it is, and some have been seen with others."""
    shortlist = loaded(folder)
    corpus = data.EncodedCorpus.open(folder / "data", "train")
    counts = corpus.target_counts(300)
    special = np.arange(4 + 256)
    frequent = np.setdiff1d(shortlist.always, special)
    assert {*special} <= {*shortlist.always.tolist()}
    assert len(frequent) == 3 - np.count_nonzero(np.argsort(-counts)[:3] < 260)
    assert counts[frequent].min() >= np.delete(counts, shortlist.always).max()
    table = shortlist.translations.numpy()
    assert table.shape == (300, 3)
    assert table[:, 0].tolist() == [*range(300)]
    translations = table[:, 1:][table[:, 1:] != 3]
    assert len(translations)
    assert np.all(counts[translations] > 0)
    assert not np.isin(translations, shortlist.always).any()


def test_the_program_says_how_many_pieces_cover_how_much(folder, program_of, capsys):
    """All of it, as each piece is its own translation."""
    summary = program_of("bin/make_shortlist.py")(
        model_dir=folder / "model", data_dir=folder / "data", frequent=5, translations=1
    )
    assert summary["always"] == len(loaded(folder).always)
    first, one, many = capsys.readouterr().out.splitlines()
    path = folder / "model" / "shortlist.npz"
    assert first == f"wrote {path}: {summary['always']} pieces are in every list"
    sizes = [summary["batches"][size]["pieces"] for size in (1, 128)]
    assert summary["always"] < sizes[0] < sizes[1] <= 300
    assert one == (
        f"batches of 1: {sizes[0]:.0f} of 300 pieces in the mean, 100.00% of the "
        "tokens in validation"
    )
    assert many.startswith(f"batches of 128: {sizes[1]:.0f} of 300 pieces in the mean")


def test_what_the_lists_cover_is_counted(folder, tmp_path):
    """No translation and no frequent piece: a list has the source and the bytes."""
    model_dir = shutil.copytree(folder / "model", tmp_path / "model")
    (tmp_path / "one").write_text("one two\nA dog runs!\n")
    (tmp_path / "other").write_text("zwei one\nA\n")
    paths = tmp_path / "one", tmp_path / "other"
    source = data.TextFiles({"train": paths, "valid": paths}, "en", "de")
    tokenizer = ModelDir(model_dir).load_tokenizer()
    data.prepare(source, tmp_path / "data", lambda texts: tokenizer)
    found = make_shortlist(model_dir, tmp_path / "data", frequent=0, translations=0)
    assert found["always"] == 260
    sources, targets = (
        tokenizer.encode_rows(path.read_text().splitlines()) for path in paths
    )
    own = [{*row.tolist()} - {0} for row in sources]
    covered = sum(
        number > 3 and (number in own[row] or number < 260)
        for row in range(2)
        for number in targets[row].tolist()
    )
    count = np.count_nonzero(targets > 3)
    assert 0 < covered < count
    assert found["batches"][1]["coverage"] == pytest.approx(covered / count)
    assert found["batches"][1]["pieces"] == 260 + np.mean(
        [len([number for number in each if number >= 260]) for each in own]
    )


def test_separate_vocabularies_have_no_pieces_of_their_own_as_translations(
    folder, monkeypatch
):
    tokenizer = ModelDir(folder / "model").load_tokenizer()
    tokenizer.target_vocab_size = 300
    monkeypatch.setattr(ModelDir, "load_tokenizer", lambda place: tokenizer)
    make_shortlist(folder / "model", folder / "data", translations=1)
    assert loaded(folder).translations.shape == (300, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"data_dir": "other"},
            "has another vocabulary than the model in .*prepare one",
        ),
        ({"data_dir": "none"}, "No metadata.json in"),
        ({"model_dir": "none"}, "No model in"),
        ({"frequent": -1}, "`frequent` must be at least 0"),
        ({"translations": -1}, "`translations` must be at least 0"),
    ],
)
def test_what_does_not_fit_is_refused(folder, given, message):
    if given.get("data_dir") == "other" and not (folder / "other").exists():
        small_corpus.write_corpus(folder, "other", 290)
    given = {
        name: folder / value if isinstance(value, str) else value
        for name, value in given.items()
    }
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make_shortlist(
            **{"model_dir": folder / "model", "data_dir": folder / "data", **given}
        )


def test_a_parser_has_no_shortlist(parser_dir, parser_corpus):
    with pytest.raises(ValueError, match="is a parser: a shortlist is for translation"):
        make_shortlist(parser_dir, parser_corpus)


def test_a_run_without_a_shortlist_is_named(folder, tmp_path):
    model_dir = shutil.copytree(folder / "model", tmp_path / "model")
    (model_dir / "shortlist.npz").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"No shortlist\.npz in .*, or drop --s"
    ):
        load_searcher(model_dir, shortlist=True)
    assert load_searcher(model_dir).shortlist is None


@pytest.mark.release
def test_programs_search_with_the_shortlist_where_asked_to(
    folder, program_of, tmp_path
):
    """One that has no byte, which the model prefers."""
    model_dir = shutil.copytree(folder / "model", tmp_path / "model")
    always = np.union1d(np.arange(4), np.arange(270, 290))
    place = ModelDir(model_dir)
    Shortlist(always, np.full((300, 1), 3)).save(
        place.shortlist_path, place.read_config().tokenizer_hash
    )
    text = folder / "text"

    def translated(**given):
        program_of("bin/translate.py")(input=text, output=tmp_path / "out", **given)
        return (tmp_path / "out").read_text().splitlines()

    plain = translated(model_dir=model_dir)
    listed = translated(model_dir=model_dir, shortlist=True, batch_size=1)
    assert plain == translated(model_dir=model_dir, shortlist=False)
    assert len(listed) == len(plain) == len(LINES)
    translator = load_searcher(model_dir, shortlist=True)
    assert listed == [each.text for each in translator.translate(LINES, batch_size=1)]
    assert listed != plain

    program_of("bin/evaluate.py")(
        model_dir=model_dir,
        source=text,
        reference=text,
        shortlist=True,
        batch_size=1,
        bootstrap_samples=0,
        output=tmp_path / "scored",
    )
    assert (tmp_path / "scored").read_text().splitlines() == listed

    for is_listed in (True, False):
        summary = program_of("export/export_saved_model.py")(
            model_dir=model_dir,
            export_dir=tmp_path / "exports",
            signatures="serving_default",
            shortlist=is_listed,
            warmup=False,
            check_lines=7,
        )
        version = summary["saved_model"]
        assert exported_model.read_description(version)["shortlist"] == is_listed
        found = translated(saved_model=version, batch_size=1)
        assert found == (listed if is_listed else plain)
