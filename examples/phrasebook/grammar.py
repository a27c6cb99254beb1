"""Inflection and agreement: how the words of a sentence get their forms.

A *filler* is a pair of an English and a German expression. It offers

    english(form, partner), german(form, partner) -> str

where `form` is a dotted name such as "acc", "a.acc" or "zu.dat", and `partner` is the
filler it agrees with, if any: the subject of a verb, the adjective or owner of a noun.
A template names fillers in braces: "{who} {buy:finite who} {thing:a.acc adjective}".
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

ENGLISH, GERMAN = LANGUAGES = ("en", "de")

# First person singular, third person singular, and all plurals; the formal "Sie" has
# plural forms too, and English verbs know no more either ("you are", "we are").
I_FORM, SINGULAR, PLURAL = ("1s", "3s", "p")

GENDERS = ("m", "f", "n", "p")  # "p" is the plural, which has one gender only
CASES = ("nom", "acc", "dat")

# Endings in the order of GENDERS.
THE = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
}
THIS_ENDINGS = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
}
A_ENDINGS = {
    "nom": ("", "e", "", "e"),
    "acc": ("en", "e", "", "e"),
    "dat": ("em", "er", "em", "en"),
}
# Adjectives after "der" and "dieser" (weak), and after "ein", "mein", "kein" (mixed).
WEAK_ENDINGS = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en", "en", "en", "en"),
}
MIXED_ENDINGS = {
    "nom": ("er", "e", "es", "en"),
    "acc": ("en", "e", "es", "en"),
    "dat": ("en", "en", "en", "en"),
}
PRONOUNS = {"nom": ("er", "sie", "es", "sie"), "acc": ("ihn", "sie", "es", "sie")}

# Determiners that take the endings of "ein": English word -> German stem.
A_WORDS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "Ihr",
    "our": "unser",
    "his": "sein",
    "her": "ihr",
}

CONTRACTIONS = {
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "an dem": "am",
    "in dem": "im",
}
PREPOSITIONS = frozenset(("an", "in", "von", "zu"))

# Vowels that are spoken as consonants: "a university", "a euro".
_AN = re.compile(r"(?!uni|use|euro)[aeiou]", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Phrase:
    """An expression with one form in each language."""

    english_text: str
    german_text: str

    @property
    def key(self) -> str:
        return self.english_text

    def english(self, form: str = "", partner: Any = None) -> str:
        return self.english_text

    def german(self, form: str = "", partner: Any = None) -> str:
        return self.german_text


@dataclasses.dataclass(frozen=True)
class Owner(Phrase):
    """A possessive determiner: my, your, our, his, her; the German text is its stem."""


@dataclasses.dataclass(frozen=True)
class Pronoun(Phrase):
    """A personal pronoun as a subject."""

    person: str


@dataclasses.dataclass(frozen=True)
class Adjective(Phrase):
    """An adjective; the German text is the predicate, "teuer"."""

    # What endings are put on, where it is not the predicate: "teur".
    stem: str = ""

    def attribute(self, endings: Mapping[str, tuple], case: str, gender: str) -> str:
        """Return the German form in front of a noun."""
        return (self.stem or self.german_text) + _ending(endings, case, gender)


@dataclasses.dataclass(frozen=True)
class Noun:
    """A noun with its article, a person, or a name.

    Forms: a case ("acc") takes the noun's own determiner; "a.acc", "this.acc", "no.acc"
    another one; "poss.acc owner" the owner's; "zu.dat" puts a preposition in front and
    contracts it; "bare" and "plural" stand alone; "pronoun.nom" stands for the noun.
    English ignores case and prepositions. The partner may be an adjective or an owner.
    """

    english_noun: str
    gender: str
    german_noun: str
    english_plural: str = ""
    german_plural: str = ""
    # The singular of weak nouns ("Kollegen") or the plural ("Kindern") in other cases.
    accusative: str = ""
    dative: str = ""
    # "the", "a", "my" or, for names and substances, "".
    determiner: str = "the"

    @property
    def key(self) -> str:
        return self.english_noun

    @property
    def person(self) -> str:
        return PLURAL if self.gender == "p" else SINGULAR

    def english(self, form: str = "nom", partner: Any = None) -> str:
        determiner, _, _ = self._read(form)
        if determiner == "plural":
            return _join(_text(partner), self.english_plural)
        if determiner == "pronoun":
            return "they" if self.gender == "p" else "it"
        if determiner == "poss":
            return f"{partner.english_text} {self.english_noun}"
        words = _join(_text(partner), self.english_noun)
        if determiner == "a":
            determiner = "an" if _AN.match(words) else "a"
        return _join(determiner, words)

    def german(self, form: str = "nom", partner: Any = None) -> str:
        determiner, preposition, case = self._read(form)
        if determiner == "plural":
            return self.german_plural
        if determiner == "pronoun":
            return _ending(PRONOUNS, case, self.gender)
        article, endings = self._article(determiner, case, partner)
        lead = _join(preposition, article)
        adjective = ""
        if isinstance(partner, Adjective):
            adjective = partner.attribute(endings, case, self.gender)
        return _join(CONTRACTIONS.get(lead, lead), adjective, self._in_case(case))

    def _read(self, form: str) -> tuple[str, str, str]:
        """Read a form as (determiner, preposition, case)."""
        determiner, preposition, case = self.determiner, "", "nom"
        for part in form.split("."):
            if part in CASES:
                case = part
            elif part in PREPOSITIONS:
                preposition = part
            else:
                determiner = "" if part == "bare" else part
        return determiner, preposition, case

    def _article(self, determiner: str, case: str, partner: Any) -> tuple[str, Mapping]:
        if not determiner:
            return "", MIXED_ENDINGS
        if determiner == "the":
            return _ending(THE, case, self.gender), WEAK_ENDINGS
        if determiner == "this":
            return "dies" + _ending(THIS_ENDINGS, case, self.gender), WEAK_ENDINGS
        is_owned = determiner == "poss"
        stem = partner.german_text if is_owned else A_WORDS[determiner]
        return stem + _ending(A_ENDINGS, case, self.gender), MIXED_ENDINGS

    def _in_case(self, case: str) -> str:
        other = {"nom": "", "acc": self.accusative, "dat": self.dative}[case]
        return other or self.german_noun


@dataclasses.dataclass(frozen=True)
class Verb:
    """A verb; its prefix, if separable, stands apart in main clauses only.

    English forms: "base", "past", "finite subject". German forms: "finite subject"
    (without prefix), "prefix", "final subject" (finite at the end of a clause, with its
    prefix), "infinitive", "zu" (infinitive with zu), "participle", and "aux subject",
    the auxiliary of the perfect.
    """

    base: str
    third_person: str
    past: str
    infinitive: str
    ich: str
    er: str
    participle: str
    prefix: str = ""
    auxiliary: str = "haben"

    @property
    def key(self) -> str:
        return self.base

    def english(self, form: str, partner: Any = None) -> str:
        if form == "finite":
            singular = partner.person == SINGULAR
            return self.third_person if singular else self.base
        return {"base": self.base, "past": self.past}[form]

    def german(self, form: str, partner: Any = None) -> str:
        stem = self.infinitive.removeprefix(self.prefix)
        if form in ("finite", "final"):
            finite = {I_FORM: self.ich, SINGULAR: self.er, PLURAL: stem}[partner.person]
            return self.prefix * (form == "final") + finite
        if form == "zu":
            link = "zu" if self.prefix else "zu "
            return f"{self.prefix}{link}{stem}"
        if form == "aux":
            return AUXILIARIES[self.auxiliary].german("", partner)
        return {
            "prefix": self.prefix,
            "infinitive": self.infinitive,
            "participle": self.participle,
        }[form]


@dataclasses.dataclass(frozen=True)
class Finite:
    """A word with nothing but finite forms: auxiliaries and modals.

    Each language's forms are in the order I, he, we.
    """

    english_forms: tuple[str, str, str]
    german_forms: tuple[str, str, str]

    @property
    def key(self) -> str:
        return self.english_forms[2]

    def english(self, form: str = "", partner: Any = None) -> str:
        return self._of(self.english_forms, partner)

    def german(self, form: str = "", partner: Any = None) -> str:
        return self._of(self.german_forms, partner)

    def _of(self, forms: tuple[str, str, str], partner: Any) -> str:
        return forms[(I_FORM, SINGULAR, PLURAL).index(partner.person)]


AUXILIARIES = {
    "haben": Finite(("have", "has", "have"), ("habe", "hat", "haben")),
    "sein": Finite(("am", "is", "are"), ("bin", "ist", "sind")),
    "war": Finite(("was", "was", "were"), ("war", "war", "waren")),
    "wurde": Finite(("was", "was", "were"), ("wurde", "wurde", "wurden")),
}


def slots_of(template: str) -> tuple[str, ...]:
    """Return the names of the slots of a template, each once, in order."""
    names = [part for _, *slot in _parse(template) for part in (slot[0], slot[2])]
    return tuple(dict.fromkeys(name for name in names if name))


def render(template: str, fillers: Mapping[str, Any], language: str) -> str:
    """Fill a template and make it a sentence: first letter upper case, no gaps.

    Args:
        template: Text with slots `{name}`, `{name:form}` or `{name:form partner}`.
        fillers: A filler or a value for each slot.
        language: "en" or "de".
    """
    method = {ENGLISH: "english", GERMAN: "german"}[language]

    text = ""
    for literal, name, form, partner in _parse(template):
        text += literal
        if name:
            arguments = [form, fillers[partner]] if partner else [form] if form else []
            text += getattr(fillers[name], method)(*arguments)
    # An empty slot (a verb without prefix) leaves a space before the full stop.
    text = re.sub(r" +([ .,?!])", r"\1", text).strip()
    return text[0].upper() + text[1:]


_SLOT = re.compile(r"\{(\w+)(?::([\w.]+))?(?: (\w+))?\}")


@functools.cache
def _parse(template: str) -> tuple[tuple[str, str, str, str], ...]:
    """Split a template into (text before the slot, name, form, partner)."""
    parts, end = [], 0
    for slot in _SLOT.finditer(template):
        parts.append((template[end : slot.start()], *slot.groups(default="")))
        end = slot.end()
    return (*parts, (template[end:], "", "", ""))


def _ending(endings: Mapping[str, tuple], case: str, gender: str) -> str:
    return endings[case][GENDERS.index(gender)]


def _join(*words: str) -> str:
    return " ".join(word for word in words if word)


def _text(partner: Any) -> str:
    return partner.english_text if isinstance(partner, Adjective) else ""
