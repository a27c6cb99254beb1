"""Words and the pieces that spell them."""

import pytest

from keras_transformer.words import words_of_pieces, words_of_text


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("A dog runs.", ["▁A", "▁do", "g", "▁run", "s", "."], [0, 1, 1, 2, 2, 2]),
        ("  A   dog ", ["▁A", "▁dog"], [0, 1]),
        ("A dog", ["▁", "A", "▁", "dog"], [-1, 0, -1, 1]),
        # A language that the model's tokenizer puts before the text.
        ("A dog", [">>de<<", "▁A", "▁dog"], [-1, 0, 1]),
        ("A dog", ["▁>>de<<", "▁A", "▁dog"], [-1, 0, 1]),
        # One that is in the text.
        (">>de<< A dog", [">>de<<", "▁A", "▁dog"], [0, 1, 2]),
        ("A 犬 runs", ["▁A", "▁", "<unk>", "▁runs"], [0, 1, 1, 2]),
        ("A é b", ["▁A", "▁", "<0xC3>", "<0xA9>", "▁b"], [0, -1, 1, 1, 2]),
        # Cut to the length that the model reads.
        ("A dog runs", ["▁A", "▁d"], [0, 1]),
        # Outer white space has no pieces.
        ("\u00a0A dog\t", ["▁A", "▁dog"], [0, 1]),
        ("\u00a0 \t A dog \u200b", ["▁A", "▁dog"], [2, 3]),
        ("\u00a0 A dog", [">>de<<", "▁A", "▁do", "g"], [-1, 1, 2, 2]),
        ("A dog\u00a0", ["▁A", "▁dog", "\u00a0"], [0, 1, 1]),
        ("", [], []),
        ("", [">>de<<"], [-1]),
    ],
)
def test_pieces_belong_to_the_words_that_they_spell(text, pieces, words):
    assert words_of_pieces(text, pieces).tolist() == words


def test_a_normalized_text_with_other_words_has_none():
    assert words_of_pieces("1½ cups", ["▁1", "▁1/2", "▁cups"]) is None


def test_words_are_what_spaces_separate():
    assert words_of_text("  A\u00a0dog  runs\t. ") == ["A\u00a0dog", "runs\t."]
    assert words_of_text("") == []
