"""Articles, cases, agreement and word order against hand-written forms."""

import pytest

from examples.phrasebook import grammar, lexicon

NOUNS = {noun.key: noun for noun in (*lexicon.PLACES, *lexicon.THINGS)}
PEOPLE = {person.key: person for person in lexicon.SLOTS["person"]}
ADJECTIVES = {word.key: word for word in lexicon.ADJECTIVES}
SUBJECTS = {subject.key: subject for subject in lexicon.SLOTS["subject"]}
VERBS = {
    verb.base: verb for verb in (*lexicon.DEEDS, *lexicon.MISHAPS, *lexicon.ROUTINES)
}


@pytest.mark.parametrize(
    ("noun", "nominative", "accusative", "dative"),
    [
        ("station", "der Bahnhof", "den Bahnhof", "dem Bahnhof"),
        ("church", "die Kirche", "die Kirche", "der Kirche"),
        ("museum", "das Museum", "das Museum", "dem Museum"),
    ],
)
def test_the_article_follows_gender_and_case(noun, nominative, accusative, dative):
    forms = [NOUNS[noun].german(case) for case in grammar.CASES]
    assert forms == [nominative, accusative, dative]


@pytest.mark.parametrize(
    ("noun", "form", "german"),
    [
        ("suitcase", "a.nom", "ein Koffer"),
        ("suitcase", "a.acc", "einen Koffer"),
        ("suitcase", "a.dat", "einem Koffer"),
        ("bag", "a.acc", "eine Tasche"),
        ("bag", "a.dat", "einer Tasche"),
        ("book", "a.acc", "ein Buch"),
        ("book", "no.acc", "kein Buch"),
        ("suitcase", "no.acc", "keinen Koffer"),
        ("suitcase", "my.acc", "meinen Koffer"),
        ("suitcase", "this.nom", "dieser Koffer"),
        ("bag", "this.nom", "diese Tasche"),
        ("book", "this.nom", "dieses Buch"),
        ("suitcase", "pronoun.nom", "er"),
        ("bag", "pronoun.nom", "sie"),
        ("book", "pronoun.acc", "es"),
        ("book", "plural", "Bücher"),
    ],
)
def test_determiners_are_inflected(noun, form, german):
    assert NOUNS[noun].german(form) == german


@pytest.mark.parametrize(
    ("noun", "form", "german"),
    [
        ("suitcase", "the.nom", "der rote Koffer"),
        ("suitcase", "the.acc", "den roten Koffer"),
        ("suitcase", "the.dat", "dem roten Koffer"),
        ("bag", "the.acc", "die rote Tasche"),
        ("bag", "the.dat", "der roten Tasche"),
        ("book", "this.nom", "dieses rote Buch"),
        ("suitcase", "a.nom", "ein roter Koffer"),
        ("suitcase", "a.acc", "einen roten Koffer"),
        ("bag", "a.acc", "eine rote Tasche"),
        ("bag", "a.dat", "einer roten Tasche"),
        ("book", "a.acc", "ein rotes Buch"),
        ("book", "no.acc", "kein rotes Buch"),
    ],
)
def test_adjectives_follow_determiner_gender_and_case(noun, form, german):
    assert NOUNS[noun].german(form, ADJECTIVES["red"]) == german


def test_an_adjective_may_lose_a_vowel_before_its_ending():
    suitcase, expensive = NOUNS["suitcase"], ADJECTIVES["expensive"]
    assert suitcase.german("a.acc", expensive) == "einen teuren Koffer"
    assert expensive.german() == "teuer"


@pytest.mark.parametrize(
    ("noun", "form", "german"),
    [
        ("station", "zu.dat", "zum Bahnhof"),
        ("church", "zu.dat", "zur Kirche"),
        ("station", "von.dat", "vom Bahnhof"),
        ("church", "von.dat", "von der Kirche"),
        ("station", "an.dat", "am Bahnhof"),
        ("church", "an.dat", "an der Kirche"),
        ("park", "in.dat", "im Park"),
    ],
)
def test_prepositions_contract_with_the_article(noun, form, german):
    assert NOUNS[noun].german(form) == german


@pytest.mark.parametrize(
    ("person", "accusative", "dative"),
    [
        ("Anna", "Anna", "Anna"),
        ("Mr Weber", "Herrn Weber", "Herrn Weber"),
        ("Mrs Weber", "Frau Weber", "Frau Weber"),
        ("colleague", "meinen Kollegen", "meinem Kollegen"),
        ("customer", "den Kunden", "dem Kunden"),
        ("parents", "meine Eltern", "meinen Eltern"),
        ("children", "die Kinder", "den Kindern"),
        ("sister", "meine Schwester", "meiner Schwester"),
    ],
)
def test_persons_are_inflected(person, accusative, dative):
    assert PEOPLE[person].german("acc") == accusative
    assert PEOPLE[person].german("dat") == dative


@pytest.mark.parametrize(
    ("owner", "german"),
    [
        ("my", "meinen Koffer"),
        ("your", "Ihren Koffer"),
        ("our", "unseren Koffer"),
        ("his", "seinen Koffer"),
        ("her", "ihren Koffer"),
    ],
)
def test_owners_are_inflected(owner, german):
    word = next(word for word in lexicon.OWNERS if word.key == owner)
    assert NOUNS["suitcase"].german("poss.acc", word) == german
    assert NOUNS["suitcase"].english("poss", word) == f"{owner} suitcase"


@pytest.mark.parametrize(
    ("noun", "adjective", "english"),
    [
        ("umbrella", None, "an umbrella"),
        ("suitcase", None, "a suitcase"),
        ("umbrella", "red", "a red umbrella"),
        ("suitcase", "old", "an old suitcase"),
    ],
)
def test_the_english_article_follows_the_next_sound(noun, adjective, english):
    assert NOUNS[noun].english("a", ADJECTIVES.get(adjective)) == english


@pytest.mark.parametrize(
    ("verb", "subject", "english", "finite", "final", "auxiliary"),
    [
        ("buy", "I", "buy", "kaufe", "kaufe", "habe"),
        ("buy", "Anna", "buys", "kauft", "kauft", "hat"),
        ("pack", "we", "pack", "packen", "einpacken", "haben"),
        ("pack", "he", "packs", "packt", "einpackt", "hat"),
        ("get up", "you", "get up", "stehen", "aufstehen", "sind"),
        ("get up", "parents", "get up", "stehen", "aufstehen", "sind"),
        ("get up", "I", "get up", "stehe", "aufstehe", "bin"),
        ("see", "she", "sees", "sieht", "sieht", "hat"),
    ],
)
def test_verbs_agree_with_their_subject(
    verb, subject, english, finite, final, auxiliary
):
    verb, subject = VERBS[verb], SUBJECTS[subject]
    assert verb.english("finite", subject) == english
    assert verb.german("finite", subject) == finite
    assert verb.german("final", subject) == final
    assert verb.german("aux", subject) == auxiliary


@pytest.mark.parametrize(
    ("verb", "prefix", "infinitive", "with_zu", "participle"),
    [
        ("buy", "", "kaufen", "zu kaufen", "gekauft"),
        ("pack", "ein", "einpacken", "einzupacken", "eingepackt"),
        ("give back", "zurück", "zurückgeben", "zurückzugeben", "zurückgegeben"),
    ],
)
def test_separable_prefixes_stand_where_they_belong(
    verb, prefix, infinitive, with_zu, participle
):
    verb = VERBS[verb]
    assert verb.german("prefix") == prefix
    assert verb.german("infinitive") == infinitive
    assert verb.german("zu") == with_zu
    assert verb.german("participle") == participle


def test_every_separable_participle_starts_with_its_prefix():
    for verb in (*lexicon.VERBS.values(), *VERBS.values(), *lexicon.GIFTS):
        assert verb.participle.startswith(verb.prefix)
        assert verb.infinitive.startswith(verb.prefix)


def test_rendering_closes_gaps_and_starts_with_a_capital():
    fillers = {"buy": VERBS["buy"], "who": SUBJECTS["we"]}
    template = "{who} {buy:finite who} es {buy:prefix}."
    assert grammar.slots_of(template) == ("who", "buy")
    assert grammar.render(template, fillers, "de") == "Wir kaufen es."


def test_the_grammar_does_without_tensorflow(run_apart):
    program = """
from examples import phrasebook
from examples.phrasebook import grammar
next(phrasebook.generate("train", 1))
print({"tensorflow", "tensorflow_datasets", "keras", "numpy"} & set(sys.modules))
"""
    assert run_apart(program) == "set()\n"
