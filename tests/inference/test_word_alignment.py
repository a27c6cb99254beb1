"""Words aligned by the attention between their pieces."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.tokenization import train_bpe
from keras_transformer.translation.word_alignment import (
    arguments_of,
    pieces_without_ends,
    word_alignment,
    word_weights,
)
from tests.small_models import LINES, TOKENIZERS


def test_a_normalized_text_with_other_words_has_none():
    attention = np.ones([2, 3])
    pieces = ["▁1", "▁1/2", "▁cups"], ["▁eine", "▁Tasse"]
    assert word_alignment("1½ cups", "eine Tasse", *pieces, attention) == ()


def test_each_target_word_has_the_source_word_that_its_pieces_look_at_most():
    """The last column, EOS, has the largest weights and does not count."""
    attention = np.array(
        [
            # A     do    g     </s>
            [0.10, 0.20, 0.20, 0.50],  # Hund
            [0.30, 0.10, 0.00, 0.60],  # e
            [0.11, 0.10, 0.00, 0.79],  # ein
            [0.00, 0.00, 0.00, 1.00],  # </s>
        ]
    )
    pieces = ["▁A", "▁do", "g"], ["▁Hund", "e", "▁ein"]
    # 0.4 on "A" and 0.5 on "dog" for "Hunde"; "ein" looks at "A" by 0.01 more.
    assert word_alignment("A dog", "Hunde ein", *pieces, attention) == ((0, 1), (1, 0))


def test_the_answer_to_a_text_is_aligned():
    """As a server gives it: lists, with ends and padding; the target was cut."""
    row = {
        "translation": "Hunde ein",
        "source_pieces": ["▁A", "▁do", "g", "</s>", ""],
        "target_pieces": ["▁Hund", "e", "▁ein"],
        "attention": [
            [0.1, 0.2, 0.2, 0.5, 0.0],
            [0.3, 0.1, 0.0, 0.6, 0.0],
            [0.2, 0.1, 0.0, 0.7, 0.0],
        ],
    }
    given = arguments_of("A dog", row)
    assert word_alignment(*given) == ((0, 1), (1, 0))
    # [Hunde, ein] by [A, dog]
    np.testing.assert_allclose(word_weights(*given), [[0.4, 0.5], [0.2, 0.1]])
    assert word_weights("A big dog", *given[1:]) is None
    assert pieces_without_ends(["a", "</s>"], ["b", "</s>", ""]) == (["a"], ["b"])


def test_texts_without_words_have_no_alignment():
    nothing = np.zeros([1, 1])
    assert word_alignment("", "", [], [], nothing) == ()
    assert word_alignment("A", "", ["▁A"], [], nothing) == ()
    assert word_alignment("", "A", [], ["▁A"], nothing) == ()


SENTENCE = "A dog runs! one two"
# What is before the sentence, after it, and the number of its first word.
AROUND = [
    *((space, "", 0) for space in ("\n", "\t", "\u00a0", "\u200b", "\u3000", "\ufeff")),
    *(("", space, 0) for space in ("\r\n", "\t\t", "\u00a0 \u00a0", "\u2028", "\x1f")),
    ("  \u00a0", "\u202f ", 0),
    ("\u00a0 \t ", " \u200b", 2),
    (" \u3000 \u3000 \u3000", "", 2),
]
AROUND_MARKERS = [
    (">>de<< ", "", 1),
    (">>de<<\u00a0", "\n", 0),
    ("\u00a0>>de<<\u200b ", "", 1),
    ("\u00a0 >>de<< \t ", "\u3000", 3),
    ("<news> ", "\t", 1),
    ("<news>\u00a0 ", "", 1),
    ("\ufeff<news>\u3000", "", 0),
    ("\t >>de<< <news> \u00a0", "", 3),
]
KINDS = {
    **{kind: (TOKENIZERS[kind], AROUND) for kind in ("bpe", "wordpiece")},
    "markers": (
        lambda: train_bpe(LINES * 5, 303, symbols=(">>de<<", ">>fr<<", "<news>")),
        AROUND + AROUND_MARKERS,
    ),
}


@pytest.mark.long(first=1)
@pytest.mark.parametrize("kind", ["markers", "bpe", "wordpiece"])
def test_white_space_around_a_text_changes_no_word_of_a_piece(kind):
    """But that words of white space count, and words of markers."""
    make_tokenizer, around = KINDS[kind]
    tokenizer = make_tokenizer()
    size = {"vocab_size": tokenizer.vocab_size, "d_model": 6, "d_ff": 6}
    model = Transformer(ModelConfig(num_layers=2, num_heads=2, **size))
    translator = Translator(model, tokenizer, beam_size=1, extra_decode_length=1)
    texts = [before + SENTENCE + after for before, after, _ in around]
    outputs = translator.align_batch(tf.constant([SENTENCE, *texts]))
    num_tokens = np.sum(outputs["source_pieces"].numpy() != b"", axis=1)
    plain, *found = outputs["source_words"].numpy()
    plain = plain[: num_tokens[0] - 1]
    for words, end, (*text, first) in zip(found, num_tokens[1:], around, strict=True):
        of_sentence = words[end - 1 - len(plain) : end - 1]
        # The first piece may be a space of its own.
        assert np.max(of_sentence, initial=-1) == plain.max() + first, text
        is_word = of_sentence >= 0
        np.testing.assert_array_equal(of_sentence[is_word], plain[is_word] + first)
        assert set(words[end - 1 :]) == {-1}
