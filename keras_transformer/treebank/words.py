"""Raw English text cut into words as the Penn Treebank has them.

Written from the treebank's conventions, one sentence a text: sacremoses 0.2 has a
`penn_tokenize`, which ends in an error on every text, and the Moses tokenizer's other
conventions ("don 't" for "do n't") are not the treebank's.
"""

from __future__ import annotations

import re

from keras_transformer.treebank import trees

# What may follow an apostrophe that opens no quotation: elisions, and the second words
# of contractions, which stand apart where the text has the treebank's words already.
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
        # A quotation mark opens after white space and brackets, and closes elsewhere.
        (r'(^|[\s(\[{])"', r"\1 `` "),
        (r'"', " '' "),
        (r"``|''", r" \g<0> "),
        (r"\.{3,}", " ... "),
        (r"-{2,}", " -- "),
        # "5,300" and "9:30" are words, and "http://" the beginning of one.
        (r",(?!\d)|(?<!\d),", " , "),
        (r":(?![\d/])|(?<!\d):(?=\d)", " : "),
        (r"[;?!%#()\[\]{}]", r" \g<0> "),
        # "US$" and "AT&T" are words.
        (r"(?<![A-Z])\$", " $ "),
        (r"\$(?=\d)", "$ "),
        (r"(?<!\w)&|&(?!\w)", " & "),
        # The sentence's period; that of "U.S." stays, and stands for both.
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

    Punctuation stands apart, contractions are two words ("do n't"), double quotation
    marks are "``" and "''", brackets have names ("-LRB-") and "/" is written as the
    treebank does, with a backslash before it.

    Args:
        text: One English sentence. Its last period is a word, others belong to theirs.
    """
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return [trees.escape(word) for word in text.split()]
