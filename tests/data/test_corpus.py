"""The encoded corpus on disk."""

import numpy as np
import pytest

from keras_transformer.data.corpus import CorpusWriter, EncodedCorpus

SOURCES = [[7, 5], [4], [9, 8, 6, 5, 4]]
TARGETS = [[11], [12, 4, 7], []]


def written(folder, vocab_size=13, sources=SOURCES, targets=TARGETS):
    with CorpusWriter(folder, vocab_size, eos_id=3) as writer:
        for source, target in zip(sources, targets, strict=True):
            writer.append([np.array(source, int)], [np.array(target, int)])
    return EncodedCorpus.from_folder(folder, pad_id=0)


def test_pairs_come_back_as_written_with_eos_at_the_end(tmp_path):
    corpus = written(tmp_path / "train")
    assert len(corpus) == 3
    for index, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        found = corpus[index]
        assert [side.tolist() for side in found] == [[*source, 3], [*target, 3]]
        assert found[0].dtype == np.int32
    assert corpus[-1][0].tolist() == [9, 8, 6, 5, 4, 3]


def test_lengths_count_eos(tmp_path):
    corpus = written(tmp_path / "train")
    assert corpus.source_lengths.tolist() == [3, 2, 6]
    assert corpus.target_lengths.tolist() == [2, 4, 1]
    assert corpus.lengths.tolist() == [3, 4, 6]
    assert corpus.lengths.dtype == np.int32


def test_target_tokens_are_counted(tmp_path, monkeypatch):
    """In several blocks."""
    monkeypatch.setattr("keras_transformer.data.corpus._CHECKED_TOKENS", 3)
    counts = written(tmp_path / "train").target_counts(13)
    assert counts.tolist() == [0, 0, 0, 3, 1, 0, 0, 1, 0, 0, 0, 1, 1]


def test_rows_are_gathered_in_order_and_padded(tmp_path):
    source, target = written(tmp_path / "train").rows(np.array([2, -1, 0]), 7, 5)
    np.testing.assert_array_equal(
        source, [[9, 8, 6, 5, 4, 3, 0], [0] * 7, [7, 5, 3, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(target, [[3, 0, 0, 0, 0], [0] * 5, [11, 3, 0, 0, 0]])
    assert source.dtype == target.dtype == np.int32


def test_several_pairs_are_gathered_into_a_row(tmp_path):
    source, target = written(tmp_path / "train").rows(
        np.array([[1, 0, -1], [-1, -1, -1], [2, 2, 1]]), 14, 7
    )
    np.testing.assert_array_equal(source[0], [4, 3, 7, 5, 3] + [0] * 9)
    np.testing.assert_array_equal(source[2], [9, 8, 6, 5, 4, 3] * 2 + [4, 3])
    np.testing.assert_array_equal(
        target, [[12, 4, 7, 3, 11, 3, 0], [0] * 7, [3, 3, 12, 4, 7, 3, 0]]
    )


@pytest.mark.parametrize("wrong", [[7, 3], [3, 3, 3]])
def test_pairs_with_another_eos_cannot_be_told_apart_in_a_row(tmp_path, wrong):
    written(tmp_path / "train").check_segments(3)
    corpus = written(tmp_path / "other", targets=[[11], wrong, []])
    message = r"`pack` tells pairs apart by EOS.*Received: \d EOS \(3\) in 3 sentences"
    with pytest.raises(ValueError, match=message + " of the target. Train without"):
        corpus.check_segments(3)


def test_sentences_without_eos_cannot_be_told_apart_in_a_row(tmp_path):
    """As many of EOS as sentences, but one of them is inside."""
    tokens, offsets = np.array([5, 3, 3, 6]), np.array([0, 2, 4])
    whole = np.array([5, 3, 6, 3]), offsets
    EncodedCorpus(whole, whole, pad_id=0).check_segments(3)
    with pytest.raises(ValueError, match="sentences of the source"):
        EncodedCorpus((tokens, offsets), whole, pad_id=0).check_segments(3)


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [(256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "uint32")],
)
def test_ids_are_stored_in_the_smallest_type_that_holds_them(
    tmp_path, vocab_size, dtype
):
    corpus = written(tmp_path / "train", vocab_size, [[vocab_size - 1]], [[4]])
    stored = np.load(tmp_path / "train" / "source_tokens.npy")
    assert stored.dtype == dtype
    assert corpus[0][0].tolist() == [vocab_size - 1, 3]


def test_tokens_are_mapped_not_read(tmp_path):
    corpus = written(tmp_path / "train")
    tokens, _ = corpus._sides[0]
    assert isinstance(tokens.base, np.memmap)


def test_many_appends_equal_one(tmp_path):
    written(tmp_path / "many")
    with CorpusWriter(tmp_path / "one", 13, eos_id=3) as writer:
        writer.append(
            [np.array(ids) for ids in SOURCES], [np.array(t) for t in TARGETS]
        )
    for name in ("source_tokens", "source_offsets", "target_tokens", "target_offsets"):
        many, one = (tmp_path / side / f"{name}.npy" for side in ("many", "one"))
        assert many.read_bytes() == one.read_bytes()


def test_corpus_of_no_pairs_opens(tmp_path):
    assert len(written(tmp_path / "test", sources=[], targets=[])) == 0


def test_index_outside_the_corpus_is_refused(tmp_path):
    with pytest.raises(IndexError, match="pair 3 of 3"):
        written(tmp_path / "train")[3]


def test_unfinished_folder_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt), CorpusWriter(tmp_path, 13, 3) as writer:
        writer.append([np.array([4])], [np.array([5])])
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="is damaged.* Prepare it again with bin/prep"):
        EncodedCorpus.from_folder(tmp_path, pad_id=0)


@pytest.mark.parametrize("name", ["source_tokens", "target_offsets"])
def test_truncated_file_is_refused(tmp_path, name):
    written(tmp_path / "train")
    path = tmp_path / "train" / f"{name}.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(ValueError, match=r"The encoded corpus in .*train is damaged"):
        EncodedCorpus.from_folder(tmp_path / "train", pad_id=0)


def test_sides_of_different_length_are_refused(tmp_path):
    written(tmp_path / "a")
    written(tmp_path / "b", sources=SOURCES[:2], targets=TARGETS[:2])
    for name in ("target_tokens.npy", "target_offsets.npy"):
        (tmp_path / "b" / name).replace(tmp_path / "a" / name)
    with pytest.raises(ValueError, match="tokens and offsets do not match"):
        EncodedCorpus.from_folder(tmp_path / "a", pad_id=0)


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ([[5, 6]], [[13]], "target side .* each below 13 .* ids up to 13"),
        ([[5, 0, 6]], [[7]], r"source side .* none of them padding \(0\)"),
    ],
)
def test_ids_that_are_no_words_are_found(tmp_path, sources, targets, message):
    corpus = written(tmp_path / "train", 17, sources, targets)
    with pytest.raises(ValueError, match=message):
        corpus.check_ids(13, 13)
    written(tmp_path / "good").check_ids(13, 13)
