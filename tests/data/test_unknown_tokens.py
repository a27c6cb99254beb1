"""What a given vocabulary lacks is told when text is encoded."""

import pytest

from keras_transformer import data, tokenization
from keras_transformer.config import PairEncoding
from keras_transformer.data import corpora
from keras_transformer.tokenization.sentence_piece import SentencePieceTokenizer
from tests.data.word_tokenizer import write_lines
from tests.preparation_options import with_values
from tests.small_models import LINES, vocabulary

PREFIX = ">>de<<"
SOURCES = ["A dog \u732b\u72d0 runs", "two \u732b", "one"]
TARGETS = ["l\u00e4uft \u00fcden \u00c4", "f\u00fcnf", "zwei"]


def prepared(folder, tokenizer, **options):
    sides = SOURCES, TARGETS
    paths = {
        split: [
            write_lines(folder / f"{split}.{side}", *lines[:size])
            for side, lines in zip(("en", "de"), sides, strict=True)
        ]
        for split, size in (("train", 3), ("valid", 1))
    }
    source = data.TextFiles(paths, "en", "de")
    return data.prepare(
        source, folder / "data", lambda _: tokenizer, with_values(**options)
    )


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_unknown_tokens_are_told_with_the_commonest_characters(tmp_path, prefix):
    symbols = [PREFIX] * bool(prefix)
    tokenizer = SentencePieceTokenizer(vocabulary(user_defined_symbols=symbols))
    found = prepared(tmp_path, tokenizer, prefix=prefix)
    train = found.splits["train"]
    assert (train.source_unknown, train.target_unknown) == (2, 3)
    assert train.source_lacking == {"\u732b": 2, "\u72d0": 1}
    assert train.target_lacking == {"\u00fc": 2, "\u00c4": 1}
    assert found.splits["valid"].target_lacking["\u00fc"] == 1
    assert data.read_metadata(tmp_path / "data") == found
    said = [line for line in data.report(found).split("\n") if "lacks" in line]
    assert len(said) == 2
    assert f"2 tokens of sources ({2 / train.source_tokens:.2%}): '\u732b' 2" in said[0]
    assert f"3 tokens of targets ({3 / train.target_tokens:.2%}): '\u00fc' 2" in said[0]


def test_the_ten_commonest_of_all_corpora_are_told(tmp_path):
    """Each corpus lacks 20 letters, of which one comes more often."""
    letters = [chr(code) for code in range(0x430, 0x444)]
    for name, often in (("one", letters[5]), ("other", letters[7])):
        lines = [f"two {letter} {often}" for letter in letters]
        write_lines(tmp_path / f"{name}.en", *lines)
        write_lines(tmp_path / f"{name}.de", *["zwei"] * len(letters))
    (tmp_path / "corpora.yaml").write_text(
        "corpora:\n"
        "  - {name: one, source: one.en, target: one.de}\n"
        "  - {name: other, source: other.en, target: other.de}\n"
        "  - {name: dev, split: valid, source: one.de, target: one.de}\n"
    )
    given = corpora.read(tmp_path / "corpora.yaml")
    tokenizer = SentencePieceTokenizer(vocabulary())
    found = data.prepare_corpora(given, tmp_path / "data", lambda _: tokenizer)
    assert found.splits["train"].source_unknown == 80
    [told] = [line for line in data.report(found).split("\n") if "lacks" in line]
    first, second, *others = told.split("): ")[1].split(". ")[0].split(", ")
    assert {first, second} == {f"{letters[5]!r} 22", f"{letters[7]!r} 22"}
    assert len(others) == 8


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "bytes"])
def test_nothing_is_told_where_all_characters_can_be_written(tmp_path, kind):
    if kind == "bytes":
        proto = vocabulary(vocab_size=340, byte_fallback=True)
        tokenizer = SentencePieceTokenizer(proto)
    else:
        train = getattr(tokenization, f"train_{kind}")
        tokenizer = train(LINES * 5, {"bpe": 300, "wordpiece": 120}[kind])
    found = prepared(tmp_path, tokenizer)
    assert "lacks" not in data.report(found)
    assert found.splits["train"].source_unknown == 0


def test_placeholders_are_not_lacking(tmp_path):
    encoding = {"placeholders": 2, "placeholder_rate": 0.9}
    symbols = [*PairEncoding(placeholders=2).symbols]
    tokenizer = SentencePieceTokenizer(vocabulary(user_defined_symbols=symbols))
    found = prepared(tmp_path, tokenizer, **encoding)
    assert set(found.splits["train"].source_lacking) == {"\u732b", "\u72d0"}
