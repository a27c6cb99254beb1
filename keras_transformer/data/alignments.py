"""Which words of a training pair translate each other: files in Moses format."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_transformer import text_files, wording
from keras_transformer.words import words_of_text

# Pairs of a source word and a target word, from 0.
Links = Sequence[tuple[int, int]]

_LINE = re.compile(rb"\s*(\d{1,9}-\d{1,9}(\s+|$))*")


class WordAlignments:
    """A file with the alignment of each pair of a corpus, as aligners write it.

    Line n has "i-j" for each word i of source n that word j of target n translates,
    counted from 0, where words are what spaces separate. An empty line: not aligned.

    Args:
        path: The file, plain or .gz.
        is_reversed: Whether the words of the targets come first, "j-i".

    Raises:
        FileNotFoundError: If there is no such file.

    Examples:
        >>> with open("train.links", "w") as file:
        ...     print("0-0 1-2", file=file)
        ...
        >>> list(kt.data.WordAlignments("train.links"))
        [[(0, 0), (1, 2)]]
    """

    def __init__(self, path: str | os.PathLike, is_reversed: bool = False):
        if not pathlib.Path(path).is_file():
            raise FileNotFoundError(f"No file {path}. Check train_alignments.")
        self._path, self._is_reversed = path, is_reversed

    def __iter__(self) -> Iterator[Links]:
        """Yield the links of each pair; ValueError for a line of another form."""
        for number, line in enumerate(text_files.iterate_lines(self._path), start=1):
            if not _LINE.fullmatch(line):
                raise ValueError(
                    f"{self._path} line {number} must have pairs of numbers such as "
                    f'"0-0 1-2". Received: {line[:100].decode("utf-8", "replace")!r}.'
                )
            numbers = [*map(int, line.replace(b"-", b" ").split())]
            sides = numbers[::2], numbers[1::2]
            yield [*zip(*(sides[::-1] if self._is_reversed else sides), strict=True)]

    def check(
        self, pairs: Iterable[tuple[str, str] | None]
    ) -> Iterator[tuple[str, str] | None]:
        """Yield all pairs of the corpus.

        Args:
            pairs: Texts of source and target; None: not known.

        Raises:
            ValueError: If a line has another form or a number beyond the words of its
                pair, or the file has another number of lines than there are pairs.
        """
        num_pairs = num_lines = 0
        for pair, links in itertools.zip_longest(pairs, self, fillvalue=False):
            num_pairs += pair is not False
            num_lines += links is not False
            if num_pairs == num_lines:
                if pair:
                    self._check_words(pair, links, num_lines)
                yield pair
        if num_pairs != num_lines:
            raise ValueError(
                f"{self._path} has {wording.count(num_lines, 'line')} for "
                f"{wording.count(num_pairs, 'pair')}; line n must align pair n. Align "
                "the files that are prepared."
            )

    def _check_words(self, pair, links, number):
        sizes = [len(words_of_text(text)) for text in pair]
        for link in links:
            if not (link[0] < sizes[0] and link[1] < sizes[1]):
                raise ValueError(
                    f"{self._path} line {number} aligns word {link[0]} of a source of "
                    f"{wording.count(sizes[0], 'word')} with word {link[1]} of a "
                    f"target of {wording.count(sizes[1], 'word')}, counted from 0. "
                    "Words are what spaces separate: align these texts, not texts "
                    "tokenized in another way."
                )


def align_tokens(
    tokenizer: Any,
    links: Sequence[Links],
    texts: Sequence[Sequence[str]],
    tokens: Sequence[Sequence[np.ndarray]],
) -> list[np.ndarray]:
    """Return which tokens of some pairs translate each other.

    Every token of a word is aligned with every token of the words it is linked to.

    Args:
        tokenizer: The tokenizer of both sides.
        links: Of the words of each pair.
        texts: The sources, and the targets.
        tokens: Their ids, without EOS.

    Returns:
        For each pair int `[links, 2]`, a source token and a target token, in order;
        none if it is not known which words the tokens spell.
    """
    words = (
        tokenizer.words_of_tokens(*side, is_target=number == 1)
        for number, side in enumerate(zip(texts, tokens, strict=True))
    )
    return [_token_links(*pair) for pair in zip(links, *words, strict=True)]


def _token_links(links, source_words, target_words):
    if source_words is None or target_words is None or not links:
        return np.zeros((0, 2), int)
    first, second = np.transpose(links)
    sizes = [
        max(linked.max(), words.max(initial=0)) + 2
        for linked, words in ((first, source_words), (second, target_words))
    ]
    is_linked = np.zeros(sizes, bool)
    is_linked[first, second] = True
    # Tokens of no word have the number -1: the last row and column are without links.
    return np.argwhere(is_linked[source_words][:, target_words])
