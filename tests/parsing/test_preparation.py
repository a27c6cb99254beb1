"""Encoding treebanks into a corpus folder."""

import json
import re

import numpy as np
import pytest

from keras_transformer import data, tokenization
from keras_transformer.data import part_reader
from keras_transformer.parsing import linearise, symbols
from keras_transformer.parsing.preparation import (
    OPTIONS,
    TreeFiles,
    TreeSymbols,
    WeightedTrees,
    prepare,
)
from keras_transformer.treebank import trees
from tests.data.word_tokenizer import WordTokenizer
from tests.preparation_options import with_values
from tests.small_treebank import tree_lines, write_trees

FOX = "(S (NP (DT The) (NN fox)) (VP (VBD slept)))"
DOG = "(S (NP (NN Dogs)) (VP (VBP bark)))"
# The treebank's form: an outer bracket, function labels and a trace.
RAW_FOX = "( (S-1 (NP-SBJ (DT The) (NN fox)) (VP (VBD slept) (NP (-NONE- *)))))"
QUESTION = "(SQ (VBZ Is) (NP (PRP it)) (. ?))"


def treebank(folder, options=None, **splits):
    """Return a source that reads files with these trees."""
    banks = {}
    for split, lines in {"train": [RAW_FOX, DOG], "valid": [DOG], **splits}.items():
        path = write_trees(folder / f"{split}.mrg", lines)
        banks[split] = [WeightedTrees(path)]
    return TreeFiles(banks, **(options or {}))


def prepared(folder, options=None, source_options=None, keep_tags=False, **splits):
    source = treebank(folder, source_options, **splits)
    options = with_values(OPTIONS, **options or {})
    return prepare(source, folder / "data", WordTokenizer, options, keep_tags=keep_tags)


def decoded(data_dir, split="train"):
    """Return the encoded pairs as words and symbols."""
    corpus = data.EncodedCorpus.open(data_dir, split)
    words = json.loads((data_dir / "tokenizer" / "words.json").read_text())
    vocabulary = symbols.load(data_dir / "labels.json")
    return [
        (" ".join(words[id - 4] for id in source[:-1]), vocabulary.decode(target))
        for source, target in (corpus[index] for index in range(len(corpus)))
    ]


def pair_of(line):
    """Return the words and symbols of a cleaned tree."""
    tree = trees.from_string(line)
    return " ".join(tree.words), linearise(tree)


def test_words_become_the_source_and_symbols_the_target(tmp_path):
    prepared(tmp_path)
    assert decoded(tmp_path / "data") == [pair_of(FOX), pair_of(DOG)]
    source, target = data.EncodedCorpus.open(tmp_path / "data", "train")[1]
    assert source.tolist() == [7, 8, 3]  # words 3 and 4, after the 4 special ids, EOS
    # NP is the first label, 5 and 6; S the second; VP the third, 9 and 10.
    assert target.tolist() == [7, 5, 4, 6, 9, 4, 10, 8, 3]


def test_keep_tags_writes_words_as_their_tags(tmp_path):
    prepared(tmp_path, keep_tags=True)
    tree = trees.from_string(FOX)
    assert decoded(tmp_path / "data")[0] == (
        " ".join(tree.words),
        linearise(tree, keep_tags=True),
    )
    vocabulary = symbols.load(tmp_path / "data" / "labels.json")
    assert set(tree.tags) <= set(vocabulary.tags)


def test_held_out_words_and_gold_trees_are_stored_as_text(tmp_path):
    prepared(tmp_path, valid=[RAW_FOX, QUESTION], test=[DOG])
    folder = tmp_path / "data"
    assert (folder / "valid.source").read_text() == "The fox slept\nIs it ?\n"
    assert (folder / "valid.target").read_text() == f"{FOX}\n{QUESTION}\n"
    assert (folder / "test.target").read_text() == f"{DOG}\n"


def test_metadata_describes_both_vocabularies(tmp_path):
    """Three labels make 5 + 2 * 3 ids; FOX has 3 words and 9 symbols, DOG 2 and 8."""
    returned = prepared(tmp_path)
    assert returned == data.read_metadata(tmp_path / "data")
    assert (returned.task, returned.target_language) == ("parsing", "trees")
    assert (returned.vocab_size, returned.target_vocab_size) == (4 + 5, 11)
    labels = symbols.load(tmp_path / "data" / "labels.json")
    assert returned.labels_hash == labels.fingerprint
    assert labels.labels == ("NP", "S", "VP")
    train = returned.splits["train"]
    assert (train.source_tokens, train.target_tokens) == (5 + 2, 17 + 2)
    assert (train.source_words, train.target_words) == (5, 5)
    shown = data.report(returned)
    assert "en to trees, vocabulary of 9 (words) and 11 symbols" in shown
    assert "7 + 19 tokens, 1.00 + 3.40 a word" in shown


def test_metadata_without_a_task_is_that_of_a_translation_corpus(tmp_path):
    """The fields of parsing corpora were added later."""
    values = prepared(tmp_path).to_json()
    for name in ("task", "target_vocab_size", "labels_hash"):
        del values[name]
    (tmp_path / "metadata.json").write_text(json.dumps(values))
    read = data.read_metadata(tmp_path)
    assert (read.task, read.target_vocab_size) == ("translation", None)
    assert read.labels_hash is None


def test_the_tokenizer_sees_training_sentences_only(tmp_path):
    seen = []

    def make(texts):
        seen.extend(texts)
        return WordTokenizer(seen)

    prepare(treebank(tmp_path, valid=[QUESTION, FOX]), tmp_path / "data", make)
    assert seen == ["The fox slept", "Dogs bark"]


def test_a_held_out_tree_with_an_unknown_label_is_left_out_of_the_loss_only(tmp_path):
    split = prepared(tmp_path, valid=[QUESTION, FOX]).splits["valid"]
    assert (split.pairs_read, split.pairs) == (2, 1)
    assert split.dropped["unknown_symbol"] == 1
    assert decoded(tmp_path / "data", "valid") == [pair_of(FOX)]
    assert (tmp_path / "data" / "valid.target").read_text().startswith(QUESTION)


def test_words_are_escaped_as_the_gold_trees_are(tmp_path):
    line = "(S (NP (-LRB- [) (NN fox)))"
    prepared(tmp_path, train=[line], valid=[line])
    assert decoded(tmp_path / "data")[0][0] == "-LSB- fox"


def test_a_weight_is_the_mean_number_of_copies_in_an_epoch(tmp_path):
    """100 trees with weight 2.25: about 225 copies, 2 or 3 of each; and 3 of DOG."""
    mixed = [f"(S (NN w{number}))" for number in range(100)]
    banks = {
        "train": [
            WeightedTrees(write_trees(tmp_path / "silver", mixed), 2.25),
            WeightedTrees(write_trees(tmp_path / "gold", [DOG]), 3),
        ],
        "valid": [WeightedTrees(write_trees(tmp_path / "valid", [DOG]))],
    }
    counts = {}
    for seed in (5, 5, 7):
        source = TreeFiles(banks, seed=seed)
        options = with_values(OPTIONS, overwrite=True)
        prepare(source, tmp_path / "data", WordTokenizer, options)
        found = [words for words, _ in decoded(tmp_path / "data")]
        counts.setdefault(seed, []).append([found.count(f"w{n}") for n in range(100)])
        assert found.count("Dogs bark") == 3
    assert counts[5][0] == counts[5][1] != counts[7][0]
    assert set(counts[5][0]) == {2, 3}
    assert sum(counts[5][0]) == pytest.approx(225, abs=13)
    split = data.read_metadata(tmp_path / "data").splits["train"]
    assert (split.pairs_read, split.pairs) == (101, sum(counts[7][0]) + 3)


def test_a_duplicate_is_dropped_and_the_first_tree_keeps_its_weight(tmp_path):
    banks = {
        "train": [
            WeightedTrees(write_trees(tmp_path / "gold", [FOX, RAW_FOX]), 3),
            WeightedTrees(write_trees(tmp_path / "silver", [FOX, DOG]), 2),
        ],
        "valid": [WeightedTrees(write_trees(tmp_path / "valid", [DOG]))],
    }
    options = with_values(OPTIONS, drop_duplicates=True)
    split = prepare(TreeFiles(banks), tmp_path / "data", WordTokenizer, options).splits[
        "train"
    ]
    assert (split.pairs_read, split.pairs, split.dropped["duplicate"]) == (4, 5, 2)


def test_weights_are_read_after_the_last_colon(tmp_path):
    assert WeightedTrees.from_text("a.mrg") == WeightedTrees("a.mrg", 1.0)
    assert WeightedTrees.from_text("a.mrg:0.5") == WeightedTrees("a.mrg", 0.5)
    assert WeightedTrees.from_text("wsj:00/a.mrg") == WeightedTrees("wsj:00/a.mrg")
    odd = tmp_path / "a:2"
    odd.touch()
    assert WeightedTrees.from_text(str(odd)) == WeightedTrees(str(odd))
    assert WeightedTrees.from_text(f"{odd}:3") == WeightedTrees(str(odd), 3.0)


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf"])
def test_weights_must_be_above_zero(weight):
    message = f"a.mrg:{weight}: `weight` must be a finite number above 0"
    with pytest.raises(ValueError, match=message):
        WeightedTrees.from_text(f"a.mrg:{weight}")


# Bad trees in the third line of a file, and their error messages.
BAD = {
    "unbalanced": ("(S (NP (NN fox))", "line 3 needs 1 more closing bracket."),
    "too many": ("(S (NP (NN fox))))", "a closing bracket has no opening bracket"),
    "no words": ("(S (NP (-NONE- *)))", "the tree has no words, only traces"),
    "empty": ("(S (NP ) (NN fox))", "the bracket (NP) has no words"),
    "brackets as words": ("(S (-LRB- () (NN fox))", "the bracket () has no words"),
    "no tag": ("(S fox slept)", "must be alone in a bracket with its tag"),
    "no label": ("( ( (NP (NN fox))) (VP (VBD slept)))", "must have a label"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_tree_is_named_with_file_and_line(tmp_path, name):
    line, message = BAD[name]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        treebank(tmp_path, train=[FOX, "", line, DOG])
    assert str(caught.value).startswith(f"{tmp_path}/train.mrg, line 3: ")


def test_skip_bad_leaves_out_and_counts_bad_trees(tmp_path):
    bad = [line for line, _ in BAD.values()]
    source = treebank(tmp_path, {"skip_bad": True}, train=[FOX, *bad, DOG])
    returned = prepare(source, tmp_path / "data", WordTokenizer)
    split = returned.splits["train"]
    assert (split.pairs_read, split.pairs) == (2 + len(bad), 2)
    assert split.dropped["unreadable"] == len(bad) == len(source.problems["train"])
    assert decoded(tmp_path / "data") == [pair_of(FOX), pair_of(DOG)]
    assert f"dropped: {len(bad)} unreadable" in data.report(returned)


def test_a_training_tree_over_the_limit_is_named_with_file_and_line(tmp_path):
    """FOX has 9 symbols and EOS, one more than the limit of 9."""
    message = (
        f"{tmp_path}/train.mrg, line 3: a side has more tokens than `max_length`, 9. "
        "1 of 2 pairs of the training split are too long. Raise --max_length, or leave "
        "them out with --skip_bad."
    )
    splits = {"train": [DOG, "", FOX]}
    with pytest.raises(ValueError, match=re.escape(message)):
        prepared(tmp_path, {"max_length": 9}, **splits)
    assert not (tmp_path / "data").exists()
    skipped = prepared(tmp_path, {"max_length": 9, "drop_too_long": True}, **splits)
    assert skipped.splits["train"].dropped["too_long"] == 1
    assert decoded(tmp_path / "data") == [pair_of(DOG)]


def test_a_held_out_tree_over_the_limit_is_left_out_of_the_loss_only(tmp_path):
    split = prepared(tmp_path, {"max_length": 9}, train=[DOG], valid=[FOX, DOG]).splits[
        "valid"
    ]
    assert (split.pairs, split.dropped["too_long"]) == (1, 1)
    assert len((tmp_path / "data" / "valid.target").read_text().splitlines()) == 2


def test_other_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="train.mrg is empty; it needs trees in"):
        treebank(tmp_path, train=[])
    with pytest.raises(ValueError, match="The valid split has no correct tree: all 1"):
        treebank(tmp_path, {"skip_bad": True}, valid=["(S"])
    with pytest.raises(ValueError, match="must have trees for the valid split"):
        TreeFiles({"train": [WeightedTrees("a")]})
    weighted = {"train": [WeightedTrees(tmp_path / "train.mrg")]}
    weighted["valid"] = [WeightedTrees(tmp_path / "train.mrg", 2)]
    write_trees(tmp_path / "train.mrg", [FOX])
    with pytest.raises(ValueError, match="Only training trees have weights; trees of"):
        TreeFiles(weighted)
    with pytest.raises(FileNotFoundError, match="No file absent"):
        TreeFiles({**weighted, "valid": [WeightedTrees("absent")]})


def test_a_tokenizer_with_other_special_ids_is_rejected(tmp_path):
    class Other(WordTokenizer):
        eos_id = 2

    message = "The tokenizer's `eos_id` must be 3, as in the target vocabulary"
    with pytest.raises(ValueError, match=message):
        prepare(treebank(tmp_path), tmp_path / "data", Other)


def test_trees_with_unknown_labels_are_not_encoded():
    encoder = TreeSymbols(symbols.SymbolVocabulary(["S", "NP"]))
    known, unknown = encoder.encode(["(S (NP (NN fox)))", "(S (VP (VB go)))"])
    np.testing.assert_array_equal(known, [7, 5, 4, 6, 8])
    assert unknown is None


def test_chunks_keep_trees_with_their_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(part_reader, "_CHUNK", 2)
    lines = tree_lines(5, 7)
    train = [WeightedTrees(write_trees(tmp_path / "a", lines[:3]), 2)]
    train.append(WeightedTrees(write_trees(tmp_path / "b", lines[3:]), 1))
    source = TreeFiles({"train": train, "valid": train[1:]})
    prepare(source, tmp_path / "data", WordTokenizer)
    pairs = [pair_of(str(trees.clean(trees.from_string(line)))) for line in lines]
    expected = [pair for pair in pairs[:3] for _ in range(2)] + pairs[3:]
    assert decoded(tmp_path / "data") == expected


def test_the_treebanks_sample_is_prepared_completely(shared_data, tmp_path):
    """273 trees, none of them bad; subwords decode to the original words."""
    path = shared_data / "treebank" / "dev.mrg"
    if not path.is_file():
        pytest.skip(f"no treebank: {path.parent} is absent")
    bank = [WeightedTrees(path)]
    returned = prepare(
        TreeFiles({"train": bank, "valid": bank}),
        tmp_path / "data",
        lambda texts: tokenization.train_bpe(texts, 1000),
    )
    gold = [trees.clean(tree) for tree in trees.read_trees(path).trees]
    assert returned.splits["train"].pairs == returned.splits["valid"].pairs == 273
    corpus = data.EncodedCorpus.open(tmp_path / "data", "train")
    vocabulary = symbols.load(tmp_path / "data" / "labels.json")
    tokenizer = tokenization.load(tmp_path / "data" / "tokenizer")
    sources, targets = zip(*(corpus[n] for n in range(273)), strict=True)
    assert [vocabulary.decode(ids) for ids in targets] == [*map(linearise, gold)]
    assert tokenizer.decode(sources) == [" ".join(tree.words) for tree in gold]
    written = trees.read_trees(tmp_path / "data" / "valid.target", one_per_line=True)
    assert written.trees == gold
