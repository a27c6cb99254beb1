"""How times, dates, prices and numbers are written, and which are held out."""

import pytest

from examples.phrasebook import values
from examples.phrasebook.values import Clock, Date, Number, Price, Time

# All twelve positions of the minute hand, and the turn of the clock.
SPOKEN_TIMES = [
    (Clock(3, 0), "three o'clock", "drei Uhr"),
    (Clock(1, 0), "one o'clock", "ein Uhr"),
    (Clock(3, 5), "five past three", "fünf nach drei"),
    (Clock(3, 10), "ten past three", "zehn nach drei"),
    (Clock(3, 15), "quarter past three", "Viertel nach drei"),
    (Clock(3, 20), "twenty past three", "zwanzig nach drei"),
    (Clock(3, 25), "twenty-five past three", "fünf vor halb vier"),
    (Clock(2, 30), "half past two", "halb drei"),
    (Clock(3, 35), "twenty-five to four", "fünf nach halb vier"),
    (Clock(3, 40), "twenty to four", "zwanzig vor vier"),
    (Clock(3, 45), "quarter to four", "Viertel vor vier"),
    (Clock(3, 50), "ten to four", "zehn vor vier"),
    (Clock(3, 55), "five to four", "fünf vor vier"),
    (Clock(1, 15), "quarter past one", "Viertel nach eins"),
    (Clock(12, 30), "half past twelve", "halb eins"),
    (Clock(12, 45), "quarter to one", "Viertel vor eins"),
    (Clock(11, 55), "five to twelve", "fünf vor zwölf"),
]


@pytest.mark.parametrize(("clock", "english", "german"), SPOKEN_TIMES)
def test_clock_times_are_spoken_as_by_hand(clock, english, german):
    assert clock.english("words") == english
    assert clock.german("words") == german


@pytest.mark.parametrize(
    ("value", "form", "english", "german"),
    [
        (Clock(3, 5), "digits", "3:05", None),
        (Time(15, 42), "digits", "15:42", "15:42 Uhr"),
        (Time(23, 7), "digits", "23:07", "23:07 Uhr"),
        (Date(3, 17), "digits", "17 March", "17. März"),
        (Price(12, 50), "digits", "€12.50", "12,50 Euro"),
        (Price(12, 50), "words", "twelve euros fifty", "zwölf Euro fünfzig"),
        (
            Price(31, 95),
            "words",
            "thirty-one euros ninety-five",
            "einunddreißig Euro fünfundneunzig",
        ),
        (Number(214), "digits", "214", "214"),
        (Number(21_400), "grouped", "21,400", "21.400"),
        (Number(47), "words", "forty-seven", "siebenundvierzig"),
    ],
)
def test_values_are_written_as_by_hand(value, form, english, german):
    assert value.english(form) == english
    if german is not None:
        assert value.german(form) == german


def test_dates_in_words_take_the_ending_of_their_case():
    date = Date(3, 17)
    assert date.english("words") == "the seventeenth of March"
    assert date.german("words.nom") == "siebzehnte März"
    assert date.german("words.dat") == "siebzehnten März"


@pytest.mark.parametrize("slot", sorted(values.OTHER_SLOTS))
def test_about_a_sixth_of_the_values_are_held_out(slot):
    """Each held-out split gets 8 %; hashing 132 clock times varies by a few percent."""
    domain = values.OTHER_SLOTS[slot]
    for split in (values.VALIDATION, values.TEST):
        share = sum(value.split == split for value in domain) / len(domain)
        assert 0.03 < share < 0.14


def test_numbers_that_others_are_made_of_are_never_held_out():
    basic = [*range(21), *range(30, 100, 10), *range(100, 1000, 100), 1000, 1_000_000]
    assert {Number(value).split for value in basic} == {values.TRAIN}


def test_some_two_digit_numbers_are_held_out_for_each_split():
    splits = [Number(value).split for value in range(21, 100)]
    assert splits.count(values.VALIDATION) >= 3
    assert splits.count(values.TEST) >= 3


@pytest.mark.parametrize(
    ("parts", "of"),
    [
        (range(1, 13), lambda clock: clock.hour),
        (range(0, 60, 5), lambda clock: clock.minute),
    ],
)
def test_training_has_each_hour_and_minute_of_the_clock(parts, of):
    clocks = [c for c in values.OTHER_SLOTS["clock"] if c.split == values.TRAIN]
    assert {of(clock) for clock in clocks} == set(parts)


def test_training_has_each_day_and_month():
    dates = [d for d in values.OTHER_SLOTS["date"] if d.split == values.TRAIN]
    assert {date.day for date in dates} == set(range(1, 32))
    assert {date.month for date in dates} == set(range(1, 13))
