"""Random corpora with lengths typical of news."""

import numpy as np

from benchmarks.lib import synthetic_corpus
from keras_transformer import config


def test_lengths_have_the_documented_distribution():
    sources, targets = synthetic_corpus.lengths_like_news(100_000, seed=3)
    assert 24 <= np.median(sources) <= 26
    assert sources.min() >= 2
    assert max(sources.max(), targets.max()) == 256
    inner = (sources > 10) & (targets < 200)
    spread = np.std(np.log(targets[inner] / sources[inner]))
    np.testing.assert_allclose(spread, 0.15, atol=0.02)
    again = synthetic_corpus.lengths_like_news(100_000, seed=3)
    np.testing.assert_array_equal(sources, again[0])


def test_a_corpus_has_the_given_lengths():
    corpus = synthetic_corpus.random_corpus(np.array([2, 5]), np.array([3, 1]), seed=1)
    assert corpus.source_lengths.tolist() == [2, 5]
    assert corpus.target_lengths.tolist() == [3, 1]
    source, target = corpus[1]
    assert target.tolist() == [config.EOS_ID]
    assert source[-1] == config.EOS_ID
    assert min(source[:-1]) > config.EOS_ID
    corpus.check_ids(37_000, 37_000)
