"""A BPE vocabulary learns more pieces, and old text keeps its tokens."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from keras_transformer import tokenization
from keras_transformer.tokenization import extension
from tests.small_models import LINES

OLD = ["the cat sits", "the dog sits", "a cat and a dog", "dogs sit there"] * 5
NEW = ["snowboard snowboards the snow", "surfboard and snowboard", "ночь ночи"] * 5


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.train_bpe(OLD, vocab_size=290)


def neighbours(tokenizer, texts):
    rows = tokenizer.encode(texts)
    pairs = [np.stack([row[:-1], row[1:]], axis=1) for row in rows]
    return np.unique(np.concatenate(pairs), axis=0)


def test_new_text_gets_shorter_and_old_text_stays(tokenizer):
    found = extension.extend(tokenizer, NEW, 25, neighbours=neighbours(tokenizer, OLD))
    longer = found.tokenizer
    assert set("ночи") <= set(found.characters)
    assert "\u2581snowboard" in found.merges
    assert longer.vocab_size == tokenizer.vocab_size + 25
    (tokens,) = longer.encode(["snowboard"])
    assert longer.pieces(tokens).numpy().tolist() == ["\u2581snowboard".encode()]
    for own, before in zip(longer.encode(OLD), tokenizer.encode(OLD), strict=True):
        assert own.tolist() == before.tolist()
    assert longer.decode(longer.encode(NEW)) == NEW
    in_graph = longer.tokenize(tf.constant(NEW)).to_list()
    assert in_graph == [row.tolist() for row in longer.encode(NEW)]


def test_each_new_piece_is_made_of_old_ones(tokenizer):
    found = extension.extend(tokenizer, NEW, 20)
    names = found.tokenizer.pieces(np.arange(290, 310)).numpy()
    for name, ids in zip(names, found.replaced, strict=True):
        assert max(ids) < tokenizer.vocab_size
        text = name.decode().replace("\u2581", " ")
        assert tokenizer.decode([ids]) == [text.strip()]


def test_letters_digits_and_punctuation_are_not_joined(tokenizer):
    text = ["snow, 2024, surf. 2024"] * 9
    found = extension.extend(tokenizer, text, 40)
    assert "\u25812024" in found.merges
    for piece in found.merges:
        assert piece.removeprefix("\u2581").isalpha() or piece[1:].isdigit()
    digits = tokenization.train_bpe(
        [*OLD, *map(str, range(10))], 300, split_digits=True
    )
    found = extension.extend(digits, text, 40)
    assert found.merges and not any("20" in piece for piece in found.merges)


@hypothesis.given(st.lists(st.text("abcd", min_size=1), min_size=2, max_size=9))
@hypothesis.settings(max_examples=30, deadline=None)
def test_any_old_text_keeps_its_tokens(tokenizer, words):
    old, new = [" ".join(words[::2])], [" ".join(words[1::2])] * 3
    pairs = neighbours(tokenizer, old)
    try:
        found = extension.extend(tokenizer, new, 20, neighbours=pairs)
    except ValueError:
        return  # every pair of the new text is in the old one
    assert found.tokenizer.encode(old)[0].tolist() == tokenizer.encode(old)[0].tolist()


def test_symbols_become_one_piece(tokenizer):
    found = extension.extend(tokenizer, [], 0, symbols=["<bt>", ">>fr<<"])
    assert found.tokenizer.has_symbol("<bt>")
    assert found.tokenizer.languages == {"fr": 291}
    (tokens,) = found.tokenizer.encode(["<bt> the cat"])
    (plain,) = tokenizer.encode(["the cat"])
    assert tokens.tolist() == [290, *plain.tolist()]
    assert tokenizer.decode([found.replaced[0]]) == ["<bt>"]


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["the"], {}, "No piece could be added: no two pieces occur side by"),
        ([""], {}, "There is no text to learn a vocabulary from"),
        (
            NEW,
            {"symbols": ["<a b>"]},
            "`symbols` must be tags such .* Received: '<a b>'",
        ),
        (NEW, {"symbols": ["<a>", "<a>"]}, "The vocabulary has <a> already"),
    ],
)
def test_what_cannot_be_added_is_named(tokenizer, texts, options, message):
    with pytest.raises(ValueError, match=message):
        extension.extend(tokenizer, texts, 5, **options)


def test_other_kinds_are_refused():
    other = tokenization.train_wordpiece(LINES * 5, vocab_size=100)
    with pytest.raises(ValueError, match="of the kind wordpiece has no known merges"):
        extension.extend(other, NEW, 5)
