"""The configuration of the how-to cleans a noisy corpus, which can be prepared then."""

import random
import re
import shutil

import pytest

from benchmarks.lib import noisy_corpus
from examples import phrasebook
from keras_transformer import data
from keras_transformer.data import corpora
from tests.data.word_tokenizer import WordTokenizer

GOOD = [(f"The dog {n}.", f"Der schöne Hund {n}.") for n in range(100)]


def test_a_fifth_of_the_pairs_is_spoiled_in_five_ways():
    kinds, pairs = noisy_corpus.with_noise(GOOD, random.Random(1))
    for kind, found, good in zip(kinds, pairs, GOOD, strict=True):
        assert (found == good) == (kind == "good")
        assert found[0] == good[0]
    counts = {kind: kinds.count(kind) for kind in set(kinds) - {"good"}}
    assert counts == dict.fromkeys(
        ("partner", "language", "copied", "cut", "encoding"), 4
    )
    spoiled = dict(zip(kinds, pairs, strict=True))
    assert spoiled["cut"][1] == "Der schöne"
    assert "schÃ¶ne" in spoiled["encoding"][1]


def test_pairs_that_were_kept_are_counted_by_kind():
    pairs = [("a", "b"), ("a", "b"), ("c", "d")]
    found = noisy_corpus.kinds_of(pairs[1:], pairs, ["good", "partner", "cut"])
    assert found.total() == 2 and found["cut"] == 1


@pytest.mark.release
def test_a_cleaned_corpus_is_prepared(repository, tmp_path):
    if shutil.which("opusfilter") is None:
        pytest.skip("needs OpusFilter: the extra `filter`")
    good = [*phrasebook.generate("train", 2000)]
    kinds, pairs = noisy_corpus.with_noise(good, random.Random(0))
    noisy_corpus.clean(tmp_path, pairs)
    kept = noisy_corpus.kinds_of(
        noisy_corpus.read_pairs(tmp_path / "clean", "clean"), pairs, kinds
    )
    assert kept["good"] > 0.7 * kinds.count("good")
    for kind in ("language", "copied", "encoding"):
        assert kept[kind] < 0.1 * kinds.count(kind)
    page = (repository / "docs/how_to/cleaning.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "corpora.yaml").write_text(blocks[1])
    for side, texts in zip(("en", "de"), zip(*good[:9], strict=True), strict=True):
        (tmp_path / f"dev.{side}").write_text("\n".join(texts) + "\n")
    given = corpora.read(tmp_path / "corpora.yaml")
    result = data.prepare_corpora(given, tmp_path / "data", WordTokenizer)
    assert result.splits["train"].pairs_read == kept.total()
