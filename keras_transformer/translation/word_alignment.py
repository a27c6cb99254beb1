"""Which word of a source each word of its translation comes from, by attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer.words import words_of_pieces


def word_alignment(
    source: str,
    target: str,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    attention: np.ndarray,
    words_of_source: Sequence[int] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Align words by the attention between their pieces.

    Words are what spaces separate. Each target word is aligned to the source word that
    its pieces look at most; weights on EOS do not count.

    Args:
        source: The source text.
        target: Its translation.
        source_pieces: Pieces of the source, without EOS.
        target_pieces: Pieces of the translation, without EOS.
        attention: float `[target_length, source_length]`, at least as long as the
            pieces.
        words_of_source: The number of the word of each source piece, -1 for none; None:
            as the pieces spell the source.

    Returns:
        Pairs of a source word and a target word, from 0, in order; none if a text is
        not what its pieces spell, as after a normalization that adds spaces.
    """
    weights = word_weights(
        source, target, source_pieces, target_pieces, attention, words_of_source
    )
    if weights is None or not weights.size:
        return ()
    best = weights.argmax(axis=1)
    pairs = [(int(best[number]), number) for number in weights.any(axis=1).nonzero()[0]]
    return tuple(sorted((source, int(target)) for source, target in pairs))


def word_weights(
    source: str,
    target: str,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    attention: np.ndarray,
    words_of_source: Sequence[int] | None = None,
) -> np.ndarray | None:
    """Return how much the pieces of each word look at each word of the source.

    Args:
        source: Same as in `word_alignment`.
        target: Same as in `word_alignment`.
        source_pieces: Same as in `word_alignment`.
        target_pieces: Same as in `word_alignment`.
        attention: Same as in `word_alignment`.
        words_of_source: Same as in `word_alignment`.

    Returns:
        float `[target words, source words]`; None if a text is not what its pieces
        spell.
    """
    if words_of_source is None:
        words_of_source = words_of_pieces(source, source_pieces)
    else:
        words_of_source = np.asarray(words_of_source)[: len(source_pieces)]
    words_of_target = words_of_pieces(target, target_pieces)
    if words_of_source is None or words_of_target is None:
        return None
    weights = attention[: len(target_pieces), : len(source_pieces)]
    # Pieces without a word belong to none of them.
    return _is_in_word(words_of_target).T @ weights @ _is_in_word(words_of_source)


def arguments_of(source: str, row: Mapping[str, Any]) -> tuple:
    """Return the arguments of `word_alignment` from the answer to one text.

    Args:
        source: The text.
        row: Outputs of the signature `align` for it by name, texts as str.
    """
    pieces = pieces_without_ends(row["source_pieces"], row["target_pieces"])
    attention, words = np.asarray(row["attention"]), row.get("source_words")
    return source, row["translation"], *pieces, attention, words


def pieces_without_ends(
    source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the pieces of a source and of its translation without EOS and padding.

    Args:
        source_pieces: Pieces with EOS, then "".
        target_pieces: The same; without EOS if it was cut at the output limit.
    """
    *source, end = (piece for piece in source_pieces if piece)
    target = [piece for piece in target_pieces if piece]
    return source, target[:-1] if target[-1:] == [end] else target


def _is_in_word(words: np.ndarray) -> np.ndarray:
    """Return which piece belongs to which word, float `[pieces, words]`."""
    numbers = np.arange(words.max(initial=-1) + 1)
    return (words[:, np.newaxis] == numbers).astype(np.float64)
