"""The reader of spans."""

import time

import pytest

from keras_transformer import spans
from keras_transformer.spans import Glossary, Term

GLOSSARY = Glossary([Term(term, None) for term in ("dog", "a b", "1 1", ".", "나")])


def found(text, kinds=("tags", "urls", "numbers"), glossary=GLOSSARY):
    return [span.original for span in spans.find(text, kinds, glossary)]


@pytest.mark.parametrize(
    "part",
    [
        *("1", "a", "<", ".", "@", "가", "狗", "1.", "a.", "1 234 ", "1 ", "a@b."),
        *("http://.", "http://a(", "<a ", "+49 ", "(030) ", "1年1月", "1e-", "가나 "),
    ],
)
def test_long_texts_are_read_in_linear_time(part):
    text = (part * 100_000)[:100_000] + "x"
    start = time.process_time()
    spans.find(text, spans.KINDS, GLOSSARY)
    # At most 2 s where measured; a quadratic pattern takes minutes.
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nr.5, ...5, 5x, 80er", ["5", "5"]),
        ("1 250gb, 1920x1080, 120km/h, 5m²", ["1", "1920x1080", "120km/h", "5m²"]),
        ("2024-01-02T10:00:00+01:00 05.03.1924 1000", None),
        ("3月5日2人 5時 2024年に", ["3月5日", "2", "5", "2024"]),
        ("In 2019 2020, in (2024) 10-12", ["2019", "2020", "2024", "10-12"]),
    ],
)
def test_numbers_are_found_in_hard_places(text, expected):
    assert found(text, glossary=Glossary()) == (expected or text.split())


def test_the_longest_of_spans_that_begin_together_is_the_owner():
    glossary = Glossary([Term("2024", "x"), Term("5 dogs", "y"), Term("7", "z")])
    read = spans.find("2024-01-02 5 dogs 7", ["numbers"], glossary)
    assert [(span.kind, span.wanted) for span in read] == [
        ("numbers", "2024-01-02"),
        ("terms", "y"),
        ("terms", "z"),
    ]


def test_terms_are_whole_words():
    glossary = Glossary([Term(".NET", None), Term("C++", None), Term("straße", None)])
    text = "ASP.NET C++x .NET C++, STRASSE"
    assert found(text, (), glossary) == [".NET", "C++", "STRASSE"]


def test_a_korean_word_may_have_the_particle_that_fits_its_end():
    glossary = Glossary([Term("나", None), Term("책 집", None)])
    text = "나는 나은 나이 책 집에서는 \u1102\u1161\u1102\u1173\u11ab"
    assert found(text, (), glossary) == ["나", "책 집", "\u1102\u1161"]
