"""Tokenizing raw English text by the conventions of the Penn Treebank.

Not sacremoses: `penn_tokenize` of version 0.2 raises an error on every text, and the
Moses tokenizer has other conventions ("don 't" instead of "do n't").
"""

from __future__ import annotations

import re

from keras_transformer.treebank import trees

# What may follow an apostrophe that is not an opening quote: elisions, and the second
# part of contractions in text that is already tokenized.
_ELISIONS = "em|tis|twas|til|n|cause|s|m|d|ll|re|ve"

_CHARACTERS = str.maketrans(
    {
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{HORIZONTAL ELLIPSIS}": "...",
        "\N{EM DASH}": "--",
    }
)

_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        # A quotation mark opens after white space or a bracket, else it closes.
        (r'(^|[\s(\[{])"', r"\1 `` "),
        (r'"', " '' "),
        (r"``|''", r" \g<0> "),
        (r"\.{3,}", " ... "),
        (r"-{2,}", " -- "),
        # "5,300" and "9:30" stay one word, and "http://" is the start of one.
        (r",(?!\d)|(?<!\d),", " , "),
        (r":(?![\d/])|(?<!\d):(?=\d)", " : "),
        (r"[;?!%#()\[\]{}]", r" \g<0> "),
        # "US$" and "AT&T" stay one word.
        (r"(?<![A-Z])\$", " $ "),
        (r"\$(?=\d)", "$ "),
        (r"(?<!\w)&|&(?!\w)", " & "),
        # The final period is a word, but the period of a final "U.S." is not split off.
        (r"(?<=[^\s.])(?<!\.[A-Za-z])\.(?=[\s'})\]]*$)", " . "),
        (rf"(?i)(?<!\S)'(?=[a-z])(?!(?:{_ELISIONS})\b)", " ` "),
        (r"(?<=\w)(?:n't|N'T)\b", r" \g<0>"),
        (r"(?i)(?<=\w)'(?:s|m|d|ll|re|ve)\b", r" \g<0>"),
        (r"(?<=[^\s'])'(?=\s|$)", " '"),
        (r"(?i)\b(can)(not)\b", r"\1 \2"),
        (r"(?i)\b(gim|lem)(me)\b", r"\1 \2"),
        (r"(?i)\b(gon|wan)(na)\b", r"\1 \2"),
        (r"(?i)\b(got)(ta)\b", r"\1 \2"),
        # The treebank's own escape: "1\/2".
        (r"(?<!\\)[/*]", r"\\\g<0>"),
    ]
]


def penn_words(text: str) -> list[str]:
    """Return the words of a sentence in the treebank's form.

    Punctuation is split off, contractions are two words ("do n't"), double quotation
    marks become "``" and "''", brackets become names ("-LRB-"), and "/" is escaped with
    a backslash.

    Args:
        text: One English sentence. Only its last period is split off.
    """
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return [trees.escape(word) for word in text.split()]
