"""Ids of symbols, and saving and loading the vocabulary."""

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


def test_tags_replace_xx():
    vocabulary = symbols.SymbolVocabulary(["S"], ["NN", "DT", "NN"])
    assert vocabulary.word_symbols == ("DT", "NN")
    assert vocabulary.encode(["(S", "DT", "NN", ")S"]) == [6, 4, 5, 7]
    assert list(vocabulary.word_ids) == [4, 5]
    with pytest.raises(ValueError, match="labels are S and tags DT, NN"):
        vocabulary.encode(["(S", "XX", ")S"])


@pytest.mark.parametrize("tags", [(), ("NN", "DT")])
def test_a_saved_vocabulary_loads_to_the_same_symbols(tags, tmp_path):
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


def test_a_file_without_tags_is_read(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"format_version": 1, "labels": ["S"]}))
    assert symbols.load(path).word_symbols == ("XX",)


def test_an_empty_list_of_labels_is_rejected():
    with pytest.raises(ValueError, match="at least one label"):
        symbols.SymbolVocabulary([])


def test_absent_damaged_and_newer_files_are_named(tmp_path):
    path = tmp_path / "labels.json"
    with pytest.raises(FileNotFoundError, match="--task=parsing writes them"):
        symbols.load(path)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="is damaged"):
        symbols.load(path)
    path.write_text(json.dumps({"format_version": 9, "labels": ["S"]}))
    with pytest.raises(ValueError, match="format version 9; this program reads"):
        symbols.load(path)
