"""Tokenizing raw English into the Penn Treebank's words."""

import pytest

from keras_transformer.treebank import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('He said (quietly): "It isn\'t."', "He said -LRB- quietly -RRB- : "
         "`` It is n't . ''"),
        ("The dogs' bowl; it's Ann's, I can't.",
         "The dogs ' bowl ; it 's Ann 's , I ca n't ."),
        ("$3,000 at 9:30 -- 5% of US$7", "$ 3,000 at 9:30 -- 5 % of US$ 7"),
        ("AT&T & co. [a] {b}", "AT&T & co. -LSB- a -RSB- -LCB- b -RCB-"),
        ("Mr. Fox left the U.S.", "Mr. Fox left the U.S."),
        ("He left.)", "He left . -RRB-"),
        ("“Ann—now…” ‘Yes,’ he said!", "`` Ann -- now ... '' ` Yes , ' he said !"),
        ("1/2 or 1\\/2 of http://a.b*", "1\\/2 or 1\\/2 of http:\\/\\/a.b\\*"),
        ("I cannot, gonna 'em '80s", "I can not , gon na 'em '80s"),
        ("``a'' b", "`` a '' b"),
        ("a\N{NO-BREAK SPACE}b\t 狗 \U0001f600", "a b 狗 \U0001f600"),
        ("( ) :) -LRB-", "-LRB- -RRB- : -RRB- -LRB-"),
        (" \t ", ""),
        ("...", "..."),
    ],
)  # fmt: skip
def test_text_becomes_the_treebanks_words(text, expected):
    assert words.penn_words(text) == expected.split()


def test_words_in_the_treebanks_form_are_unchanged():
    sentence = "`` The -LRB- 3\\/4 -RRB- fox did n't , '' Mr. Dog 's `` U.S. '' says ."
    assert words.penn_words(sentence) == sentence.split()
