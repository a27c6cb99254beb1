"""Saving a tokenizer and reading it back."""

import json

import pytest

from keras_transformer import tokenization


@pytest.fixture
def saved(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def change_description(folder, **changes):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_saved_tokenizer_loads_to_the_same_one(tokenizer, saved, round_trips):
    loaded = tokenization.load(saved)
    assert type(loaded) is type(tokenizer)
    assert loaded.kind == tokenizer.kind
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.ids() == tokenizer.ids()
    encoded = [row.tolist() for row in loaded.encode(round_trips)]
    assert encoded == [row.tolist() for row in tokenizer.encode(round_trips)]
    assert loaded.decode(encoded) == list(round_trips)


def test_the_folder_says_what_is_in_it(tokenizer, saved):
    description = json.loads((saved / "tokenizer.json").read_text())
    assert description == {
        "format_version": 1,
        "kind": tokenizer.kind,
        "vocabulary_file": tokenizer.vocabulary_name,
        "fingerprint": tokenizer.fingerprint,
        **tokenizer.ids(),
    }
    names = {path.name for path in saved.iterdir()}
    assert names == {"tokenizer.json", tokenizer.vocabulary_name}


def test_saving_again_replaces_the_folder_and_leaves_nothing_beside(tokenizer, saved):
    (saved / "old").write_text("old")
    tokenizer.save(saved)
    assert not (saved / "old").exists()
    assert [path.name for path in saved.parent.iterdir()] == ["tokenizer"]


def test_a_failed_save_leaves_nothing_behind(tokenizer, tmp_path, monkeypatch):
    """A vocabulary that cannot be written, as on a full disk."""
    monkeypatch.setattr(tokenizer, "vocabulary_name", "no_such_folder/vocabulary")
    with pytest.raises(OSError, match="no_such_folder"):
        tokenizer.save(tmp_path / "tokenizer")
    assert list(tmp_path.iterdir()) == []


def test_an_absent_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No tokenizer in .*nowhere"):
        tokenization.load(tmp_path / "nowhere")


def test_an_absent_vocabulary_is_named(tokenizer, saved):
    (saved / tokenizer.vocabulary_name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{tokenizer.vocabulary_name} is abs"):
        tokenization.load(saved)


def test_another_format_version_is_refused(saved):
    change_description(saved, format_version=2)
    with pytest.raises(ValueError, match="format version 2; this program reads .* 1"):
        tokenization.load(saved)


def test_an_unknown_kind_is_refused(saved):
    change_description(saved, kind="letters")
    with pytest.raises(ValueError, match="unknown kind of tokenizer: 'letters'"):
        tokenization.load(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_a_damaged_description_is_refused(saved, text):
    (saved / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match="tokenizer.json is damaged"):
        tokenization.load(saved)


def test_a_damaged_vocabulary_is_refused(tokenizer, saved):
    path = saved / tokenizer.vocabulary_name
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ValueError, match=f"{tokenizer.vocabulary_name} is not the voc"):
        tokenization.load(saved)


def test_the_vocabulary_of_another_training_is_refused(saved, texts, tokenizer):
    train = {"bpe": tokenization.train_bpe, "wordpiece": tokenization.train_wordpiece}
    other = train[tokenizer.kind](texts, tokenizer.vocab_size - 2)
    other.save(saved.parent / "other")
    name = tokenizer.vocabulary_name
    (saved / name).write_bytes((saved.parent / "other" / name).read_bytes())
    with pytest.raises(ValueError, match="fingerprint is .*, expected"):
        tokenization.load(saved)


def test_ids_that_do_not_belong_to_the_vocabulary_are_refused(saved):
    change_description(saved, eos_id=5)
    with pytest.raises(ValueError, match="eos_id is 3, expected 5"):
        tokenization.load(saved)
