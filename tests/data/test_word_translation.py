"""IBM model 1 on an encoded corpus."""

import collections

import numpy as np
import pytest

from keras_transformer.data import word_translation
from keras_transformer.data.corpus import CorpusWriter, EncodedCorpus

NONE = np.zeros(0, int)


def corpus_of(folder, pairs):
    with CorpusWriter(folder, 23, eos_id=3) as writer:
        for source, target in pairs:
            writer.append([np.array(source, int)], [np.array(target, int)])
    return EncodedCorpus.from_folder(folder, pad_id=0)


def test_words_go_with_their_translations(tmp_path):
    """Each word is beside others; 17 is in every sentence, so EOS explains it."""
    pairs = [([4, 5], [14, 15, 17]), ([5, 6], [17, 16, 15]), ([6, 4], [14, 17, 16])]
    corpus = corpus_of(tmp_path, pairs * 2)
    table = word_translation.likeliest_translations(corpus, 23, 3, NONE)
    assert table.shape == (23, 3)
    assert table[4:7, 0].tolist() == [14, 15, 16]
    assert table[3, 0] == 17
    assert np.all(table[7:] == -1)
    without = word_translation.likeliest_translations(corpus, 23, 1, np.array([14]))
    assert 14 not in without
    assert without[5:7, 0].tolist() == [15, 16]


def test_the_order_is_that_of_the_equations(tmp_path):
    """Brown et al. 1993, Eq. 17, five times, with loops over words."""
    draw = np.random.default_rng(7)
    pairs = [
        (draw.integers(4, 9, draw.integers(5)), draw.integers(9, 23, draw.integers(7)))
        for _ in range(11)
    ]
    sentences = [([*source.tolist(), 3], target.tolist()) for source, target in pairs]
    probability = collections.defaultdict(lambda: 1.0)
    for _ in range(5):
        expected = collections.Counter()
        for source, target in sentences:
            for word in target:
                total = sum(probability[each, word] for each in source)
                for each in source:
                    expected[each, word] += probability[each, word] / total
        totals = collections.Counter()
        for (each, _), count in expected.items():
            totals[each] += count
        for key, count in expected.items():
            probability[key] = count / totals[key[0]]
    table = word_translation.likeliest_translations(
        corpus_of(tmp_path, pairs), 9, 14, NONE
    )
    for source in range(9):
        found = [word for word in table[source].tolist() if word >= 0]
        assert {*found} == {word for each, word in expected if each == source}
        counts = [expected[source, word] for word in found]
        assert np.all(np.diff(counts) <= 1e-12)


@pytest.mark.parametrize("pairs", [[], [([4, 5], [])]])
def test_a_corpus_without_target_words_has_no_translations(tmp_path, pairs):
    table = word_translation.likeliest_translations(
        corpus_of(tmp_path, [*pairs, ([5], [])]), 7, 2, NONE
    )
    assert np.all(table == -1)


def test_of_a_large_corpus_some_sentences_are_read(tmp_path, monkeypatch):
    """Five pairs of 2 * 1 links; of 4 links, every third pair: the first and fourth."""
    pairs = [([4 + number], [14 + number]) for number in range(5)]
    monkeypatch.setattr(word_translation, "_MOST_LINKS", 4)
    table = word_translation.likeliest_translations(
        corpus_of(tmp_path, pairs), 9, 1, NONE
    )
    assert table[4:, 0].tolist() == [14, -1, -1, 17, -1]
