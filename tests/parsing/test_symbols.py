"""The ids of label symbols, and the file they are kept in."""

import json

import pytest

from keras_transformer.parsing import symbols

SENTENCE = ["(S", "(NP", "XX", ")NP", ")S"]


@pytest.fixture
def vocabulary():
    return symbols.SymbolVocabulary(["S", "NP", "VP", "NP"])


def test_ids_follow_the_special_ones_in_pairs(vocabulary):
    """NP is the first label: 5 and 6; S: 7 and 8; VP: 9 and 10."""
    assert vocabulary.vocab_size == 11
    assert vocabulary.encode(SENTENCE) == [7, 5, 4, 6, 8]
    assert vocabulary.decode([2, 7, 5, 4, 6, 8, 3, 4]) == SENTENCE
    assert list(vocabulary.opening_ids) == [5, 7, 9]
    assert list(vocabulary.closing_ids) == [6, 8, 10]


def test_tags_take_the_place_of_xx():
    vocabulary = symbols.SymbolVocabulary(["S"], ["NN", "DT", "NN"])
    assert vocabulary.word_symbols == ("DT", "NN")
    assert vocabulary.encode(["(S", "DT", "NN", ")S"]) == [6, 4, 5, 7]
    assert list(vocabulary.word_ids) == [4, 5]
    with pytest.raises(ValueError, match="labels are S and tags DT, NN"):
        vocabulary.encode(["(S", "XX", ")S"])


@pytest.mark.parametrize("tags", [(), ("NN", "DT")])
def test_what_is_saved_comes_back(tags, tmp_path):
    vocabulary = symbols.SymbolVocabulary(["S", "NP", "VP"], tags)
    vocabulary.save(tmp_path / "labels.json")
    loaded = symbols.load(tmp_path / "labels.json")
    assert loaded.symbols == vocabulary.symbols
    assert loaded.fingerprint == vocabulary.fingerprint
    others = (["S"], tags), (["S", "NP", "VP"], ["NN"])
    for other in others:
        assert symbols.SymbolVocabulary(*other).fingerprint != vocabulary.fingerprint


@pytest.mark.parametrize("symbol", ["(PP", "word", "</s>", "("])
def test_an_unknown_symbol_is_named(vocabulary, symbol):
    with pytest.raises(ValueError, match="whose labels are NP, S, VP") as caught:
        vocabulary.encode(["(S", symbol])
    assert repr(symbol) in str(caught.value)


def test_a_file_from_before_there_were_tags_is_read(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"format_version": 1, "labels": ["S"]}))
    assert symbols.load(path).word_symbols == ("XX",)


def test_no_labels_are_refused():
    with pytest.raises(ValueError, match="at least one label"):
        symbols.SymbolVocabulary([])


def test_files_that_are_absent_damaged_or_of_another_version_are_named(tmp_path):
    path = tmp_path / "labels.json"
    with pytest.raises(FileNotFoundError, match="--task=parsing writes them"):
        symbols.load(path)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="is damaged"):
        symbols.load(path)
    path.write_text(json.dumps({"format_version": 9, "labels": ["S"]}))
    with pytest.raises(ValueError, match="format version 9; this program reads"):
        symbols.load(path)
