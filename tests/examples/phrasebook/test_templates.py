"""Sentence patterns: their slots, and hand-written pairs for each phenomenon."""

import pytest

from examples import phrasebook
from examples.phrasebook import corpus, grammar, lexicon, templates, values
from examples.phrasebook.values import Clock, Date, Number, Price, Time

PATTERNS = {pattern.name: pattern for pattern in phrasebook.patterns()}

GOLDEN = {
    "half hours name the next hour": (
        "clock.already",
        {"clock": Clock(2, 30)},
        "It is already 2:30.",
        "Es ist schon halb drei.",
    ),
    "the prefix of a separable verb ends the main clause": (
        "timetable.departure",
        {"connection": "train", "city": "Munich", "time": Time(15, 42)},
        "The train to Munich leaves at 15:42.",
        "Der Zug nach München fährt um 15:42 Uhr ab.",
    ),
    "the verb ends a dass-clause": (
        "timetable.that",
        {"connection": "ferry", "city": "Copenhagen", "time": Time(21, 5)},
        "I know that the ferry to Copenhagen leaves at 21:05.",
        "Ich weiß, dass die Fähre nach Kopenhagen um 21:05 Uhr abfährt.",
    ),
    "the verb ends an ob-clause": (
        "direction.whether",
        {"place": "church", "relation": "next to", "place2": "station"},
        "I do not know whether the church is next to the station.",
        "Ich weiß nicht, ob die Kirche neben dem Bahnhof ist.",
    ),
    "the auxiliary ends a weil-clause": (
        "thing.because",
        {
            "subject": "she",
            "mood": "sad",
            "somebody": "I",
            "mishap": "lose",
            "thing": "key",
            "owner": "her",
        },
        "She is sad because I lost her key.",
        "Sie ist traurig, weil ich ihren Schlüssel verloren habe.",
    ),
    "a wenn-clause is followed by the verb": (
        "weather.if",
        {"weather": "cold", "somebody": "we"},
        "If it is cold, we will stay at home.",
        "Wenn es kalt ist, bleiben wir zu Hause.",
    ),
    "the verb is second after an adverbial": (
        "thing.inversion",
        {"when": "tomorrow", "subject": "I", "deed": "bring along", "thing": "book"},
        "Tomorrow I will bring along the book.",
        "Morgen bringe ich das Buch mit.",
    ),
    "the perfect of motion takes sein": (
        "travel.perfect",
        {"subject": "parents", "country": "Italy", "past": "last week"},
        "My parents travelled to Italy last week.",
        "Meine Eltern sind letzte Woche nach Italien gereist.",
    ),
    "the participle ends the perfect": (
        "people.perfect",
        {
            "subject": "Anna",
            "encounter": "call",
            "person": "colleague",
            "past": "yesterday",
        },
        "Anna called my colleague yesterday.",
        "Anna hat gestern meinen Kollegen angerufen.",
    ),
    "the infinitive ends a modal clause": (
        "people.modal",
        {
            "subject": "you",
            "modal": "must",
            "encounter": "pick up",
            "person": "Mr Weber",
            "when": "on Monday evening",
        },
        "You must pick up Mr Weber on Monday evening.",
        "Sie müssen am Montagabend Herrn Weber abholen.",
    ),
    "zu goes between prefix and verb": (
        "thing.valuation",
        {"valuation": "important", "deed": "bring along", "thing": "umbrella"},
        "It is important to bring along an umbrella.",
        "Es ist wichtig, einen Regenschirm mitzubringen.",
    ),
    "a place takes the dative": (
        "thing.lies",
        {"item": "book", "position": "under", "furniture": "table"},
        "The book is lying under the table.",
        "Das Buch liegt unter dem Tisch.",
    ),
    "a direction takes the accusative": (
        "thing.put",
        {"subject": "he", "item": "book", "position": "under", "furniture": "table"},
        "He put the book under the table.",
        "Er hat das Buch unter den Tisch gelegt.",
    ),
    "the receiver is dative and the gift accusative": (
        "thing.gift",
        {
            "subject": "we",
            "gift": "give",
            "person": "sister",
            "thing": "hat",
            "adjective": "blue",
        },
        "We gave my sister a blue hat.",
        "Wir haben meiner Schwester einen blauen Hut gegeben.",
    ),
    "ohne takes the accusative": (
        "people.without",
        {"place": "cinema", "person": "brother"},
        "We will not go to the cinema without my brother.",
        "Wir gehen nicht ohne meinen Bruder zum Kino.",
    ),
    "mit takes the dative": (
        "travel.by",
        {
            "subject": "I",
            "city": "Vienna",
            "vehicle": "train",
            "when": "tomorrow",
        },
        "I will travel to Vienna by train tomorrow.",
        "Ich reise morgen mit dem Zug nach Wien.",
    ),
    "a pronoun has the gender of its noun": (
        "price.too_expensive",
        {"thing": "bag", "euros": Number(47)},
        "The bag is too expensive because it costs €47.",
        "Die Tasche ist zu teuer, weil sie 47 Euro kostet.",
    ),
    "prices are spelled": (
        "price.this",
        {"thing": "coat", "adjective": "old", "price": Price(12, 50)},
        "This old coat costs twelve euros fifty.",
        "Dieser alte Mantel kostet zwölf Euro fünfzig.",
    ),
    "digits become words": (
        "number.need",
        {"count": Number(21), "thing": "plate"},
        "We need 21 plates.",
        "Wir brauchen einundzwanzig Teller.",
    ),
    "large numbers are one German word": (
        "number.large",
        {"big": Number(21_400)},
        "The large number is twenty-one thousand four hundred.",
        "Die große Zahl ist einundzwanzigtausendvierhundert.",
    ),
    "grouped digits change their separator": (
        "price.house",
        {"space": "flat", "comfort": "quiet", "big": Number(250_300)},
        "The quiet flat costs €250,300.",
        "Die ruhige Wohnung kostet 250.300 Euro.",
    ),
    "the day of a date is dative after am": (
        "date.birthday",
        {"owner": "your", "date": Date(3, 17)},
        "Your birthday is on the seventeenth of March.",
        "Ihr Geburtstag ist am siebzehnten März.",
    ),
    "the day of a date is nominative as the subject": (
        "date.tomorrow",
        {"date": Date(10, 3)},
        "Tomorrow is the third of October.",
        "Morgen ist der dritte Oktober.",
    ),
    "directions use the polite imperative": (
        "direction.past",
        {"place": "church", "side": "left", "landmark": "traffic light"},
        "Go past the church and then turn left at the traffic light.",
        "Gehen Sie an der Kirche vorbei und biegen Sie dann an der Ampel links ab.",
    ),
}


def sentence(name: str, words: dict) -> phrasebook.Example:
    """Render a pattern with fillers named by their keys."""
    fillers = {}
    for slot, word in words.items():
        options = lexicon.SLOTS.get(templates.category(slot), ())
        named = {option.key: option for option in options}
        fillers[slot] = word if isinstance(word, values.Value) else named[word]
    return corpus.render(PATTERNS[name], fillers)


@pytest.mark.parametrize("phenomenon", GOLDEN)
def test_sentences_are_as_written_by_hand(phenomenon):
    name, words, english, german = GOLDEN[phenomenon]
    assert sentence(name, words).pair == (english, german)


def test_there_are_at_least_40_patterns_with_names_of_their_own():
    assert len(phrasebook.patterns()) == len(PATTERNS) >= 40


@pytest.mark.parametrize("name", PATTERNS)
def test_both_sides_of_a_pattern_use_the_same_slots(name):
    """Otherwise the German side would depend on what the English does not say."""
    pattern = PATTERNS[name]
    sides = [
        {s for s in grammar.slots_of(side) if s not in lexicon.CONSTANTS}
        for side in (pattern.english, pattern.german)
    ]
    assert sides[0] == sides[1]


@pytest.mark.parametrize("name", PATTERNS)
def test_every_slot_of_a_pattern_has_fillers(name):
    for slot in PATTERNS[name].slots:
        category = templates.category(slot)
        assert lexicon.SLOTS.get(category) or category in values.VALUE_SLOTS


def test_every_kind_of_filler_is_used_by_a_pattern():
    used = {
        templates.category(slot)
        for pattern in phrasebook.patterns()
        for slot in pattern.slots
    }
    assert used == set(lexicon.SLOTS) | values.VALUE_SLOTS
