"""Alignments of training pairs, from files in Moses format to the encoded corpus."""

import gzip

import numpy as np
import pytest

from keras_transformer import config, data, tokenization
from keras_transformer.data import corpora
from keras_transformer.data.alignments import WordAlignments, align_tokens
from keras_transformer.documents import protection
from tests.data.word_tokenizer import WordTokenizer, write_lines
from tests.preparation_options import with_values

SOURCES = ["a b", "c", "", "b c a"]
TARGETS = ["x y z", "y", "x", "z x"]
LINES = ["0-0 1-2 1-1", "", "", "2-0 0-1"]


def files(folder, lines=LINES, sources=SOURCES, targets=TARGETS, prefix=""):
    """A source whose training pairs are aligned; validation pairs are not."""
    paths = [
        write_lines(folder / f"{prefix}{side}", *texts)
        for side, texts in (("source", sources), ("target", targets))
    ]
    aligned = WordAlignments(write_lines(folder / f"{prefix}aligned", *lines))
    return data.TextFiles({"train": paths, "valid": paths}, "en", "de", aligned)


def links_of(data_dir):
    """For each pair, the aligned (source token, target token), from its matrix."""
    corpus = data.EncodedCorpus.open(data_dir, "train", is_aligned=True)
    sizes = max(corpus.source_lengths), max(corpus.target_lengths)
    *_, aligned = corpus.rows(np.arange(len(corpus)), *sizes)
    return [[(s, t) for t, s in np.argwhere(matrix).tolist()] for matrix in aligned]


def test_alignments_are_those_of_the_pairs_that_are_kept(tmp_path):
    """The third pair is blank; the second has no alignment."""
    result = data.prepare(files(tmp_path), tmp_path / "data", WordTokenizer)
    assert links_of(tmp_path / "data") == [
        [(0, 0), (1, 1), (1, 2)],
        [],
        [(2, 0), (0, 1)],
    ]
    assert result.splits["train"].aligned_pairs == 2
    assert result.splits["valid"].aligned_pairs == 0
    assert data.read_metadata(tmp_path / "data") == result
    assert "a word; 2 aligned" in data.report(result)


def test_rows_have_alignments_where_they_have_pairs(tmp_path):
    data.prepare(files(tmp_path), tmp_path / "data", WordTokenizer)
    corpus = data.EncodedCorpus.open(tmp_path / "data", "train", is_aligned=True)
    source, target, aligned = corpus.rows(np.array([2, -1, 0]), 7, 5)
    assert source.shape == (3, 7) and target.shape == (3, 5)
    expected = np.zeros((3, 5, 7), bool)
    expected[0, [0, 1], [2, 0]] = True
    expected[2, [0, 1, 2], [0, 1, 1]] = True
    np.testing.assert_array_equal(aligned, expected)
    plain = data.EncodedCorpus.open(tmp_path / "data", "train")
    assert len(plain.rows(np.array([2]), 7, 5)) == 2


def test_a_corpus_without_alignments_cannot_be_opened_with_them(tmp_path):
    data.prepare(files(tmp_path), tmp_path / "data", WordTokenizer)
    with pytest.raises(ValueError, match="corpus in .*valid is damaged"):
        data.EncodedCorpus.open(tmp_path / "data", "valid", is_aligned=True)


def test_numbers_of_tokens_above_255_are_kept(tmp_path):
    """The type of the numbers follows from the length limit."""
    text = " ".join("abcde" * 80)
    source = files(tmp_path, ["399-257"], [text], [text])
    data.prepare(source, tmp_path / "data", WordTokenizer, with_values(max_length=500))
    assert links_of(tmp_path / "data") == [[(399, 257)]]


def test_tokens_are_aligned_as_their_words_are(tmp_path):
    """In every encoding of a pair, with placeholders, and after a tag."""
    texts = ["Bert lives at the old mill", "with 42 green hats"]
    translations = ["an der Mühle lebt Bert", "mit 42 Hüten"]
    lines = ["0-4 1-3 2-0 5-2", "0-0 1-1 2-2 3-2"] * 9
    source = files(tmp_path, lines, texts * 9, translations * 9)
    result = data.prepare(
        source,
        tmp_path / "data",
        lambda texts: tokenization.train_bpe(
            texts, 300, symbols=config.PairEncoding(placeholders=4).symbols
        ),
        with_values(subword_encodings=3, subword_dropout=0.5, placeholders=4),
    )
    assert result.splits["train"].aligned_pairs == 3 * 18
    corpus = data.EncodedCorpus.open(tmp_path / "data", "train")
    tokenizer = tokenization.load(tmp_path / "data" / "tokenizer")
    for number, found in enumerate(links_of(tmp_path / "data")):
        words = []
        for ids in corpus[number]:
            pieces = [piece.decode() for piece in tokenizer.pieces(ids[:-1]).numpy()]
            numbers = np.cumsum([piece.startswith("▁") for piece in pieces]) - 1
            # A space of its own belongs to no word.
            words.append(np.where(np.array(pieces) == "▁", -1, numbers))
        linked = {(words[0][first], words[1][second]) for first, second in found}
        pairs = [link.split("-") for link in lines[number % 2].split()]
        assert linked == {(int(first), int(second)) for first, second in pairs}
        # Every token of a word with every token of the other.
        assert len(found) == sum(
            np.sum(words[0] == first) * np.sum(words[1] == second)
            for first, second in linked
        )


def test_tokens_whose_words_are_not_known_are_not_aligned():
    class Normalizing(WordTokenizer):
        def words_of_tokens(self, texts, tokens, is_target=False):
            found = super().words_of_tokens(texts, tokens)
            return [None, *found[1:]] if is_target else found

    tokenizer = Normalizing(["a b"])
    tokens = [tokenizer.encode(["a b", "b"])] * 2
    texts = [["a b", "b"]] * 2
    first, second = align_tokens(tokenizer, [[(0, 0)], [(0, 0)]], texts, tokens)
    assert first.tolist() == [] and second.tolist() == [[0, 0]]


def test_tokens_of_no_word_are_not_aligned():
    """Such as a language before a source, or a space of its own."""

    class Telling(WordTokenizer):
        def words_of_tokens(self, texts, tokens, is_target=False):
            return [np.array([-1, 0, 1]) for _ in texts]

    tokens = [[np.array([9, 4, 5])]] * 2
    links = [[(0, 1), (1, 0)]]
    (found,) = align_tokens(Telling(["a b"]), links, [["a b"]] * 2, tokens)
    assert found.tolist() == [[1, 2], [2, 1]]


def test_a_pair_whose_number_of_words_changes_is_not_aligned(tmp_path):
    """A placeholder stands for the two words of a term."""

    class Placing(WordTokenizer):
        placeholders = {"<ph1>": 9}

    glossary = protection.Glossary([protection.Term("a b", "x y")])
    result = data.prepare(
        files(tmp_path),
        tmp_path / "data",
        Placing,
        with_values(placeholders=1, placeholder_rate=0.999, glossary=glossary),
    )
    assert links_of(tmp_path / "data") == [[], [], [(2, 0), (0, 1)]]
    assert result.splits["train"].aligned_pairs == 1


MIXTURE = """
corpora:
  - {name: both, source: source, target: target, alignments: aligned,
     both_directions: true, tag: <news>}
  - {name: plain, source: plain, target: target}
  - {name: dev, split: valid, source: dev, target: dev}
"""


def write_mixture(folder, text=MIXTURE):
    files(folder)
    write_lines(folder / "plain", "a", "b", "", "c")
    write_lines(folder / "dev", "a b")
    (folder / "corpora.yaml").write_text(text)
    return folder / "corpora.yaml"


def test_corpora_have_alignments_of_their_own(tmp_path):
    """Transposed in the other direction; two symbols come before each source."""
    given = corpora.read(write_mixture(tmp_path))
    data.prepare_corpora(given, tmp_path / "data", WordTokenizer)
    forward = [[(2, 0), (3, 1), (3, 2)], [], [(4, 0), (2, 1)]]
    backward = [[(2, 0), (3, 1), (4, 1)], [], [(3, 0), (2, 2)]]
    found = links_of(tmp_path / "data")
    assert [sorted(pair) for pair in found] == [
        *(sorted(pair) for pair in forward + backward),
        [],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("alignments: aligned", "alignments: none", "no file .*none. Correct `al"),
        ("alignments: aligned", "alignments: 3", "`alignments` must be text"),
        (
            "source: dev",
            "alignments: aligned, source: dev",
            "`alignments` is for split",
        ),
        (
            "source: plain, target: target",
            "dataset: 'tfds:a', alignments: aligned",
            "`dataset` and `alignments` exclude each other",
        ),
        ("source: plain, ", "alignments: aligned, ", "give `source` and `target`"),
    ],
)
def test_alignments_of_corpora_that_do_not_fit_are_refused(tmp_path, old, new, message):
    path = write_mixture(tmp_path, MIXTURE.replace(old, new))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        corpora.read(path)


def test_other_alignments_make_another_corpus_hash(tmp_path):
    hashes = {}
    for name, lines in (("one", LINES), ("other", ["0-0", *LINES[1:]])):
        source = files(tmp_path, lines)
        result = data.prepare(source, tmp_path / name, WordTokenizer)
        hashes[name] = result.corpus_hash
        assert data.corpus_hash(tmp_path / name) == result.corpus_hash
    paths = (tmp_path / "source", tmp_path / "target")
    plain = data.TextFiles({"train": paths, "valid": paths}, "en", "de")
    hashes["none"] = data.prepare(plain, tmp_path / "none", WordTokenizer).corpus_hash
    assert len(set(hashes.values())) == 3


def test_a_compressed_file_is_read(tmp_path):
    paths = [write_lines(tmp_path / name, "a b") for name in ("source", "target")]
    with gzip.open(tmp_path / "aligned.gz", "wb") as file:
        file.write(b"1-0\n")
    source = data.TextFiles(
        {"train": paths, "valid": paths},
        "en",
        "de",
        WordAlignments(tmp_path / "aligned.gz"),
    )
    data.prepare(source, tmp_path / "data", WordTokenizer)
    assert links_of(tmp_path / "data") == [[(1, 0)]]


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (
            1,
            "0-0 1",
            r'aligned line 1 must have pairs of .*"0-0 1-2". Received: .0-0 1',
        ),
        (2, "0:0", "aligned line 2 must have pairs"),
        (2, "0-0-0", "aligned line 2 must have pairs"),
        (2, "-1-0", "aligned line 2 must have pairs"),
        (
            2,
            "1-0",
            "line 2 aligns word 1 of a source of 1 word with word 0 of a target",
        ),
        (3, "0-0", "line 3 aligns word 0 of a source of 0 words with"),
        (4, "0-2", "word 2 of a target of 2 words, counted from 0. Words are what"),
        (4, "", None),
    ],
)
def test_a_wrong_line_is_named(tmp_path, number, line, message):
    lines = [*LINES]
    lines[number - 1] = line
    source = files(tmp_path, lines)
    if message is None:
        data.prepare(source, tmp_path / "data", WordTokenizer)
        return
    with pytest.raises(ValueError, match=message) as error:
        data.prepare(source, tmp_path / "data", WordTokenizer)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINES[:3], "aligned has 3 lines for 4 pairs; line n must align pair n"),
        ([*LINES, ""], "aligned has 5 lines for 4 pairs"),
    ],
)
def test_another_number_of_lines_is_refused(tmp_path, lines, message):
    with pytest.raises(ValueError, match=message):
        data.prepare(files(tmp_path, lines), tmp_path / "data", WordTokenizer)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No file .*none. Check train_align"):
        WordAlignments(tmp_path / "none")
