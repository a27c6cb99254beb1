"""Number words against hand-written ones."""

import pytest

from examples.phrasebook import numbers

CARDINALS = [
    (0, "zero", "null"),
    (1, "one", "eins"),
    (7, "seven", "sieben"),
    (12, "twelve", "zwölf"),
    (16, "sixteen", "sechzehn"),
    (17, "seventeen", "siebzehn"),
    (20, "twenty", "zwanzig"),
    (21, "twenty-one", "einundzwanzig"),
    (30, "thirty", "dreißig"),
    (66, "sixty-six", "sechsundsechzig"),
    (77, "seventy-seven", "siebenundsiebzig"),
    (100, "one hundred", "einhundert"),
    (101, "one hundred and one", "einhunderteins"),
    (121, "one hundred and twenty-one", "einhunderteinundzwanzig"),
    (212, "two hundred and twelve", "zweihundertzwölf"),
    (
        999,
        "nine hundred and ninety-nine",
        "neunhundertneunundneunzig",
    ),
    (1000, "one thousand", "eintausend"),
    (1001, "one thousand and one", "eintausendeins"),
    (2300, "two thousand three hundred", "zweitausenddreihundert"),
    (21_000, "twenty-one thousand", "einundzwanzigtausend"),
    (21_400, "twenty-one thousand four hundred", "einundzwanzigtausendvierhundert"),
    (101_000, "one hundred and one thousand", "einhunderteintausend"),
    (
        999_999,
        "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
    (1_000_000, "one million", "eine Million"),
]

# Irregular ordinals, the border between -te and -ste, and compounds of irregular ones.
ORDINALS = [
    (1, "first", "erste"),
    (2, "second", "zweite"),
    (3, "third", "dritte"),
    (4, "fourth", "vierte"),
    (5, "fifth", "fünfte"),
    (7, "seventh", "siebte"),
    (8, "eighth", "achte"),
    (9, "ninth", "neunte"),
    (12, "twelfth", "zwölfte"),
    (16, "sixteenth", "sechzehnte"),
    (19, "nineteenth", "neunzehnte"),
    (20, "twentieth", "zwanzigste"),
    (21, "twenty-first", "einundzwanzigste"),
    (23, "twenty-third", "dreiundzwanzigste"),
    (30, "thirtieth", "dreißigste"),
    (31, "thirty-first", "einunddreißigste"),
]


@pytest.mark.parametrize(("number", "english", "german"), CARDINALS)
def test_cardinals_are_spelled_as_by_hand(number, english, german):
    assert numbers.english_cardinal(number) == english
    assert numbers.german_cardinal(number) == german


@pytest.mark.parametrize(("number", "english", "german"), ORDINALS)
def test_ordinals_are_spelled_as_by_hand(number, english, german):
    assert numbers.english_ordinal(number) == english
    assert numbers.german_ordinal(number) == german
    assert numbers.german_ordinal(number, "en") == german + "n"


def test_only_a_final_one_changes_before_a_noun():
    assert numbers.german_before_noun(1) == "ein"
    assert numbers.german_before_noun(11) == "elf"
    assert numbers.german_before_noun(21) == "einundzwanzig"


def test_no_two_numbers_are_spelled_alike():
    sample = [*range(2000), *range(2000, 1_000_001, 997), 1_000_000]
    assert len({numbers.english_cardinal(n) for n in sample}) == len(set(sample))
    assert len({numbers.german_cardinal(n) for n in sample}) == len(set(sample))


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("einundzwanzig", ["ein", "und", "zwanzig"]),
        ("siebenundsiebzig", ["sieben", "und", "siebzig"]),
        ("achtzehn", ["achtzehn"]),
        ("einhunderteins", ["ein", "hundert", "eins"]),
        (
            "sechshunderteinundzwanzigtausendachtzehn",
            ["sechs", "hundert", "ein", "und", "zwanzig", "tausend", "achtzehn"],
        ),
        ("Vierundfünfzigtausend", ["vier", "und", "fünfzig", "tausend"]),
        ("Bahnhof", ["Bahnhof"]),
        ("zweite", ["zweite"]),
    ],
)
def test_german_numbers_split_into_their_parts(word, parts):
    assert numbers.german_parts(word) == parts


def test_the_parts_of_every_compound_spell_it():
    for number in [*range(1000), *range(1000, 1_000_000, 991)]:
        word = numbers.german_cardinal(number)
        assert "".join(numbers.german_parts(word)) == word


@pytest.mark.parametrize("number", [-1, 1_000_001])
@pytest.mark.parametrize(
    "spell",
    [numbers.english_cardinal, numbers.german_cardinal, numbers.german_before_noun],
)
def test_a_number_out_of_range_is_refused(spell, number):
    message = rf"`number` must be between 0 and 1000000\. Received: number={number}\."
    with pytest.raises(ValueError, match=message):
        spell(number)


@pytest.mark.parametrize("number", [0, 32])
@pytest.mark.parametrize("spell", [numbers.english_ordinal, numbers.german_ordinal])
def test_a_day_out_of_range_is_refused(spell, number):
    message = rf"`number` must be between 1 and 31\. Received: number={number}\."
    with pytest.raises(ValueError, match=message):
        spell(number)
