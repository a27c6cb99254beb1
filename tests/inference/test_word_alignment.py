"""Words aligned by the attention between their pieces."""

import numpy as np

from keras_transformer.inference.word_alignment import (
    arguments_of,
    pieces_without_ends,
    word_alignment,
    word_weights,
)


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
