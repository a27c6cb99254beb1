"""What is drawn: sizes, splits, words, and that it is the same everywhere."""

import collections
import hashlib
import itertools
import random
import re

import pytest

from examples import phrasebook
from examples.phrasebook import corpus, values

HELD_OUT = ("validation", "test")
SMALL = {"train": 3001, "validation": 53, "test": 59}

# SHA-256 of `pairs_text` of the default corpus.
FINGERPRINT = "188f7ff6965b1874c7b530a8c20e80d8bad3e509b7e66f12e8c0a4a9371e99cc"

MONTHS = "|".join(name for row in values.MONTHS for name in row[:2])
# Numerals in either language, longest reading first.
NUMERALS = re.compile(
    rf"\d+:\d\d|€?\d+[.,]\d\d(?!\d)|\d+\.? (?:{MONTHS})|\d+(?:[.,]\d{{3}})*"
)


def pairs_text(splits) -> bytes:
    """Write all pairs of a corpus as one text."""
    lines = (
        "\t".join((split, *example.pair))
        for split in values.SPLITS
        for example in splits[split]
    )
    return "\n".join(lines).encode("utf-8")


def words(examples, language) -> collections.Counter:
    """Count the words of one side."""
    side = ("en", "de").index(language)
    return collections.Counter(
        word
        for example in examples
        for word in phrasebook.words_of(example.pair[side], language)
    )


def numerals(examples, side) -> set[str]:
    return {n for e in examples for n in NUMERALS.findall(e.pair[side])}


def test_the_default_sizes_are_kept(default_corpus):
    sizes = {split: len(examples) for split, examples in default_corpus.items()}
    assert sizes == {"train": 24_000, "validation": 500, "test": 500}


def test_the_default_corpus_is_always_the_same(default_corpus):
    """A change here changes every published number."""
    digest = hashlib.sha256(pairs_text(default_corpus)).hexdigest()
    assert digest == FINGERPRINT


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_pairs_do_not_depend_on_pythons_hash_seed(run_apart, hash_seed):
    program = """
from examples import phrasebook
for pair in phrasebook.generate("train", 211, seed=3):
    print(*pair, sep="\\t")
"""
    lines = run_apart(program, PYTHONHASHSEED=hash_seed).splitlines()
    expected = phrasebook.generate("train", 211, seed=3)
    assert lines == ["\t".join(pair) for pair in expected]


def test_seeds_draw_different_pairs():
    first, second = (set(phrasebook.generate("train", 211, seed=s)) for s in (0, 1))
    assert len(first & second) < 20


def test_no_seed_trains_on_what_another_holds_out(default_corpus):
    other = phrasebook.build(SMALL, seed=7)
    trained = {example.english for example in default_corpus["train"]}
    for split in HELD_OUT:
        assert not trained & {example.english for example in other[split]}


def test_a_smaller_training_split_is_the_start_of_a_larger_one(default_corpus):
    pairs = list(phrasebook.generate("train", 211))
    assert pairs == [example.pair for example in default_corpus["train"][:211]]


def test_no_english_sentence_appears_twice(default_corpus):
    sentences = [e.english for examples in default_corpus.values() for e in examples]
    assert len(set(sentences)) == len(sentences) == 25_000


@pytest.mark.parametrize(
    ("split", "other"), list(itertools.combinations(values.SPLITS, 2))
)
@pytest.mark.parametrize("side", [0, 1], ids=["english", "german"])
def test_no_sentence_is_in_two_splits(default_corpus, split, other, side):
    first, second = (
        {example.pair[side] for example in default_corpus[name]}
        for name in (split, other)
    )
    assert not first & second


def value_keys(example):
    """Return the keys of its numbers, times, dates and prices, "price 12.50"."""
    return [
        filler.key
        for filler in example.fillers.values()
        if isinstance(filler, values.Value)
    ]


@pytest.mark.parametrize("split", HELD_OUT)
def test_no_held_out_value_is_trained(default_corpus, split):
    """Values as the generator knows them, in digits or in words."""
    trained, held_out = (
        {key for example in default_corpus[name] for key in value_keys(example)}
        for name in ("train", split)
    )
    assert len(held_out) > 100
    assert {key.split()[0] for key in held_out} == {
        "number",
        "clock",
        "time",
        "date",
        "price",
    }
    assert not trained & held_out


@pytest.mark.parametrize("split", HELD_OUT)
@pytest.mark.parametrize("side", [0, 1], ids=["english", "german"])
def test_no_held_out_numeral_is_written_in_training(default_corpus, split, side):
    """Values as a reader of the text finds them: 15:42, €12.50, 17 March, 347."""
    held_out = numerals(default_corpus[split], side)
    assert len(held_out) > 60
    assert not held_out & numerals(default_corpus["train"], side)


@pytest.mark.parametrize("split", HELD_OUT)
def test_no_held_out_combination_is_trained(default_corpus, split):
    trained, held_out = (
        {
            (e.pattern, *((slot, f.key) for slot, f in e.fillers.items()))
            for e in default_corpus[name]
        }
        for name in ("train", split)
    )
    assert len(held_out) == 500
    assert not trained & held_out


@pytest.mark.parametrize("split", HELD_OUT)
def test_held_out_sentences_use_nearly_all_patterns(default_corpus, split):
    used = {example.pattern for example in default_corpus[split]}
    assert len(used) > 0.95 * len(phrasebook.patterns())


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("split", HELD_OUT)
def test_every_held_out_word_is_trained(default_corpus, split, language):
    trained = words(default_corpus["train"], language)
    assert not set(words(default_corpus[split], language)) - set(trained)


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_held_out_word_is_trained_in_a_small_corpus_too(language):
    splits = phrasebook.build(SMALL, seed=5)
    trained = words(splits["train"], language)
    for split in HELD_OUT:
        assert not set(words(splits[split], language)) - set(trained)


@pytest.mark.parametrize("language", ["en", "de"])
def test_training_has_at_least_400_word_types(default_corpus, language):
    """Lower-cased, without digits; number compounds count by their parts."""
    trained = words(default_corpus["train"], language)
    types = {word.lower() for word in trained if not word.isdigit()}
    assert 400 <= len(types) <= 1000


@pytest.mark.parametrize("side", [0, 1], ids=["english", "german"])
def test_sentences_are_short(default_corpus, side):
    lengths = [
        len(example.pair[side].split())
        for examples in default_corpus.values()
        for example in examples
    ]
    assert min(lengths) >= 3
    assert max(lengths) <= 16
    assert 6 < sum(lengths) / len(lengths) < 10


def test_sentences_have_no_leftovers_of_templates(default_corpus):
    for examples in default_corpus.values():
        for text in (text for example in examples for text in example.pair):
            assert re.fullmatch(r"\S+( \S+)+[.?]", text)
            assert text[0].isupper() or text[0].isdigit() or text[0] == "€"
            assert not re.search(r"[{}|_]| [.,?!]|\.\.", text)


def test_the_german_translation_is_a_function_of_the_english():
    """Draw each pattern often, without the removal of doubles."""
    rng = random.Random(11)
    german_of = {}
    for pattern in phrasebook.patterns():
        for _ in range(150):
            fillers = corpus._draw_fillers(pattern, "train", rng.choice)
            example = corpus.render(pattern, fillers)
            german = german_of.setdefault(example.english, example.german)
            assert german == example.german


def test_words_are_runs_of_letters_digits_and_number_parts():
    english = phrasebook.words_of("At 3:05, twenty-one o'clock!", "en")
    assert english == ["At", "3", "0", "5", "twenty", "one", "o'clock"]
    german = phrasebook.words_of("Die U-Bahn hat einundzwanzig Minuten.", "de")
    assert german == ["Die", "U", "Bahn", "hat", "ein", "und", "zwanzig", "Minuten"]


def test_generate_gives_the_pairs_of_build(default_corpus):
    pairs = list(phrasebook.generate("test", 53))
    assert pairs == [example.pair for example in default_corpus["test"][:53]]


def test_an_unknown_split_is_refused():
    message = r"`split` must be one of 'train', 'validation', 'test'\. Received: 'valid"
    with pytest.raises(ValueError, match=message):
        phrasebook.generate("valid", 3)
    with pytest.raises(ValueError, match=message):
        phrasebook.build({"valid": 3})


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match="`pairs of test` must be at least 0"):
        phrasebook.build({"test": -1})


def test_a_size_that_is_no_integer_is_refused():
    with pytest.raises(TypeError, match=r"`pairs of train` must be an integer\. Rec"):
        phrasebook.generate("train", 2.5)


@pytest.mark.parametrize(
    ("sizes", "remedy"),
    [
        ({}, "no more sentences. Received: 24000."),
        ({"train": 3}, "more pairs of train help. Received: 500."),
    ],
)
def test_more_than_the_grammar_offers_is_refused(monkeypatch, sizes, remedy):
    """One pattern of one clock time has at most 144 sentences."""
    pattern = next(p for p in phrasebook.patterns() if p.name == "clock.now")
    monkeypatch.setattr(corpus.templates, "ALL", (pattern,))
    with pytest.raises(ValueError, match=r"must be at most \d+: the gr") as error:
        phrasebook.build(sizes)
    assert str(error.value).endswith(remedy)


def test_a_training_split_without_the_words_of_the_others_is_refused():
    with pytest.raises(ValueError, match="more pairs of train help"):
        phrasebook.build({"train": 2})
