"""The sentence patterns: a name, an English template, a German template.

Slots are explained in grammar.py, their contents in lexicon.py and values.py. A German
translation is a function of the English sentence: "you" is always the formal "Sie", the
simple past becomes the perfect, and "will" becomes the present.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from examples.phrasebook import grammar, lexicon, values


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A pair of templates with the same slots."""

    name: str
    english: str
    german: str

    @functools.cached_property
    def slots(self) -> tuple[str, ...]:
        """The slots to be drawn, in the order of the English template."""
        names = (*grammar.slots_of(self.english), *grammar.slots_of(self.german))
        return tuple(n for n in dict.fromkeys(names) if n not in lexicon.CONSTANTS)

    @functools.cached_property
    def value_slots(self) -> tuple[str, ...]:
        """The slots that hold numbers, times, dates or prices."""
        return tuple(n for n in self.slots if category(n) in values.VALUE_SLOTS)


@functools.cache
def category(slot: str) -> str:
    """Return what a slot holds: "city2" holds another "city"."""
    return re.sub(r"\d+$", "", slot)


def _patterns(topic: str, *rows: tuple[str, str, str]) -> tuple[Pattern, ...]:
    return tuple(Pattern(f"{topic}.{name}", en, de) for name, en, de in rows)


CLOCK = _patterns(
    "clock",
    (
        "now",
        "It is {clock:words}.",
        "Es ist {clock:words}.",
    ),
    (
        "already",
        "It is already {clock:digits}.",
        "Es ist schon {clock:words}.",
    ),
    (
        "meet",
        "We will meet at {clock:words} {relation} {place}.",
        "Wir treffen uns um {clock:words} {relation} {place:dat}.",
    ),
    (
        "opens",
        "{business} opens at {clock:words}.",
        "{business} macht um {clock:words} auf.",
    ),
    (
        "closes",
        "{business} closes at {clock:digits} on {day}.",
        "{business} macht am {day} um {clock:words} zu.",
    ),
    (
        "every_week",
        "{subject} {routine:finite subject} at {clock:words} every {day}.",
        "{subject} {routine:finite subject} jeden {day} um {clock:words} "
        "{routine:prefix}.",
    ),
    (
        "yesterday",
        "{subject} {routine:past} at {clock:words} yesterday.",
        "{subject} {routine:aux subject} gestern um {clock:words} "
        "{routine:participle}.",
    ),
    (
        "tired",
        "{subject} {sein subject} tired because {somebody} {routine:past} at "
        "{clock:digits}.",
        "{subject} {sein subject} müde, weil {somebody} um {clock:words} "
        "{routine:participle} {routine:aux somebody}.",
    ),
    (
        "meal",
        "{meal} is served from {clock:words} to {clock2:words}.",
        "{meal:the.nom} wird von {clock:words} bis {clock2:words} serviert.",
    ),
    (
        "event",
        "{event} begins on {day} at {clock:words}.",
        "{event} fängt am {day} um {clock:words} an.",
    ),
    (
        "question",
        "Does {event} begin at {clock:digits}?",
        "Fängt {event} um {clock:words} an?",
    ),
    (
        "appointment",
        "{somebody} {haben somebody} an appointment with {person} at {clock:words}.",
        "{somebody} {haben somebody} um {clock:words} einen Termin mit {person:dat}.",
    ),
)

TIMETABLE = _patterns(
    "timetable",
    (
        "departure",
        "{connection} to {city} leaves at {time:digits}.",
        "{connection} nach {city} fährt um {time:digits} ab.",
    ),
    (
        "arrival",
        "The train from {city} arrives at {time:digits} on platform {platform:digits}.",
        "Der Zug aus {city} kommt um {time:digits} auf Gleis {platform:digits} an.",
    ),
    (
        "that",
        "I know that {connection} to {city} leaves at {time:digits}.",
        "Ich weiß, dass {connection} nach {city} um {time:digits} abfährt.",
    ),
    (
        "whether",
        "Do you know whether {connection} from {city} arrives at {time:digits}?",
        "Wissen Sie, ob {connection} aus {city} um {time:digits} ankommt?",
    ),
    (
        "both",
        "{transport} leaves at {time:digits} and arrives at {time2:digits}.",
        "{transport} fährt um {time:digits} ab und kommt um {time2:digits} an.",
    ),
    (
        "if",
        "If {transport} arrives at {time:digits}, I will call {person}.",
        "Wenn {transport} um {time:digits} ankommt, rufe ich {person:acc} an.",
    ),
    (
        "arrived",
        "{connection} from {city} arrived at {time:digits} yesterday.",
        "{connection} aus {city} ist gestern um {time:digits} angekommen.",
    ),
    (
        "late",
        "{connection} to {city} is {count:digits} minutes late.",
        "{connection} nach {city} hat {count:words} Minuten Verspätung.",
    ),
    (
        "journey",
        "The journey from {city} to {city2} takes {count:words} minutes.",
        "Die Fahrt von {city} nach {city2} dauert {count:words} Minuten.",
    ),
)

NUMBERS = _patterns(
    "number",
    (
        "is",
        "The number is {hundreds:words}.",
        "Die Zahl ist {hundreds:words}.",
    ),
    (
        "not",
        "The number is not {count:words} but {hundreds:words}.",
        "Die Zahl ist nicht {count:words}, sondern {hundreds:words}.",
    ),
    (
        "large",
        "The large number is {big:words}.",
        "Die große Zahl ist {big:words}.",
    ),
    (
        "people",
        "{crowd:words} people live in {city}.",
        "In {city} wohnen {crowd:words} Menschen.",
    ),
    (
        "need",
        "We need {count:digits} {thing:plural}.",
        "Wir brauchen {count:words} {thing:plural}.",
    ),
    (
        "deed",
        "{subject} {deed:past} {count:words} {thing:plural}.",
        "{subject} {deed:aux subject} {count:words} {thing:plural} {deed:participle}.",
    ),
    (
        "age",
        "{person} {sein person} {count:words} years old.",
        "{person} {sein person} {count:words} Jahre alt.",
    ),
    (
        "lived",
        "{subject} {haben subject} lived in {city} for {count:words} years.",
        "{subject} {live:finite subject} seit {count:words} Jahren in {city}.",
    ),
    (
        "tickets",
        "I would like {count:words} tickets to {city}, please.",
        "Ich möchte bitte {count:words} Fahrkarten nach {city}.",
    ),
    (
        "nights",
        "We rented {space:a comfort} for {count:words} nights.",
        "Wir haben {space:a.acc comfort} für {count:words} Nächte gemietet.",
    ),
    (
        "page",
        "Please turn to page {page:digits}.",
        "Bitte schlagen Sie Seite {page:digits} auf.",
    ),
    (
        "bus",
        "Bus number {line:digits} goes to {place}.",
        "Die Buslinie {line:digits} fährt {place:zu.dat}.",
    ),
    (
        "degrees",
        "It is {degrees:words} degrees in {city} today.",
        "In {city} sind es heute {degrees:words} Grad.",
    ),
    (
        "kilometres",
        "It is {distance:digits} kilometres from {city} to {city2}.",
        "Von {city} nach {city2} sind es {distance:digits} Kilometer.",
    ),
    (
        "metres",
        "{place} is {distance:digits} metres from here.",
        "{place} ist {distance:digits} Meter von hier entfernt.",
    ),
    (
        "built",
        "{place} was built in {year:digits}.",
        "{place} wurde {year:digits} gebaut.",
    ),
    (
        "born",
        "{person} {wurde person} born in {city} in {birth_year:digits}.",
        "{person} {wurde person} {birth_year:digits} in {city} geboren.",
    ),
)

PRICES = _patterns(
    "price",
    (
        "thing",
        "{thing} costs {price:digits}.",
        "{thing} kostet {price:digits}.",
    ),
    (
        "this",
        "{thing:this adjective} costs {price:words}.",
        "{thing:this.nom adjective} kostet {price:words}.",
    ),
    (
        "plural",
        "{count:words} {thing:plural} cost {price:digits}.",
        "{count:words} {thing:plural} kosten {price:digits}.",
    ),
    (
        "altogether",
        "That is {price:words} altogether.",
        "Das macht zusammen {price:words}.",
    ),
    (
        "paid",
        "{subject} paid {euros:words} euros for {thing}.",
        "{subject} {haben subject} {euros:words} Euro für {thing:acc} bezahlt.",
    ),
    (
        "too_expensive",
        "{thing} is too expensive because {thing:pronoun} costs €{euros:digits}.",
        "{thing} ist zu teuer, weil {thing:pronoun.nom} {euros:digits} Euro kostet.",
    ),
    (
        "night",
        "{space:the comfort} costs €{sum:digits} a night.",
        "{space:the.nom comfort} kostet {sum:digits} Euro pro Nacht.",
    ),
    (
        "house",
        "{space:the comfort} costs €{big:grouped}.",
        "{space:the.nom comfort} kostet {big:grouped} Euro.",
    ),
    (
        "kilo",
        "A kilo of {groceries} costs {price:digits}.",
        "Ein Kilo {groceries} kostet {price:digits}.",
    ),
    (
        "sold",
        "{subject} sold {thing:a adjective} for {price:words}.",
        "{subject} {haben subject} {thing:a.acc adjective} für {price:words} verkauft.",
    ),
)

DATES = _patterns(
    "date",
    (
        "today",
        "Today is {day}, {date:digits}.",
        "Heute ist {day}, der {date:digits}.",
    ),
    (
        "tomorrow",
        "Tomorrow is {date:words}.",
        "Morgen ist der {date:words.nom}.",
    ),
    (
        "yesterday",
        "Yesterday was {date:words}.",
        "Gestern war der {date:words.nom}.",
    ),
    (
        "birthday",
        "{owner} birthday is on {date:words}.",
        "{owner} Geburtstag ist am {date:words.dat}.",
    ),
    (
        "born",
        "{subject} {wurde subject} born on {date:words}.",
        "{subject} {wurde subject} am {date:words.dat} geboren.",
    ),
    (
        "holiday",
        "{owner} holiday lasts from {date:digits} to {date2:digits}.",
        "{owner} Urlaub dauert vom {date:digits} bis zum {date2:digits}.",
    ),
    (
        "takes_place",
        "{event} takes place in {city} on {date:digits}.",
        "{event} findet am {date:digits} in {city} statt.",
    ),
    (
        "hope",
        "{subject} {hope:finite subject} that {event} takes place on {date:digits}.",
        "{subject} {hope:finite subject}, dass {event} am {date:digits} stattfindet.",
    ),
    (
        "appointment",
        "{subject} {haben subject} an appointment with {person} on {date:digits}.",
        "{subject} {haben subject} am {date:digits} einen Termin mit {person:dat}.",
    ),
    (
        "cancel",
        "{somebody} {modal somebody} cancel {event} on {date:digits}.",
        "{somebody} {modal somebody} {event:acc} am {date:digits} absagen.",
    ),
)

DIRECTIONS = _patterns(
    "direction",
    (
        "where",
        "Excuse me, where is {place} in {city}?",
        "Entschuldigung, wo ist {place} in {city}?",
    ),
    (
        "way",
        "Can you show {person} the way to {place}?",
        "Können Sie {person:dat} den Weg {place:zu.dat} zeigen?",
    ),
    (
        "get",
        "How do I get from {place} to {place2}?",
        "Wie komme ich {place:von.dat} {place2:zu.dat}?",
    ),
    (
        "is",
        "{place} is {relation} {place2}.",
        "{place} ist {relation} {place2:dat}.",
    ),
    (
        "whether",
        "I do not know whether {place} is {relation} {place2}.",
        "Ich weiß nicht, ob {place} {relation} {place2:dat} ist.",
    ),
    (
        "turn",
        "Turn {side} at {landmark} {relation} {place}.",
        "Biegen Sie {landmark:an.dat} {relation} {place:dat} {side} ab.",
    ),
    (
        "past",
        "Go past {place} and then turn {side} at {landmark}.",
        "Gehen Sie {place:an.dat} vorbei und biegen Sie dann {landmark:an.dat} "
        "{side} ab.",
    ),
    (
        "street",
        "Take the {nth} street on the {side} after {landmark}.",
        "Nehmen Sie nach {landmark:dat} die {nth} Straße {side}.",
    ),
    (
        "through",
        "Go through {area} to {place}.",
        "Gehen Sie durch {area:acc} bis {place:zu.dat}.",
    ),
    (
        "in",
        "There is {landmark:a} in {area}.",
        "{area:in.dat} gibt es {landmark:a.acc}.",
    ),
    (
        "if",
        "If you turn {side} at {landmark}, you will see {place}.",
        "Wenn Sie {landmark:an.dat} {side} abbiegen, sehen Sie {place:acc}.",
    ),
    (
        "stop",
        "{transport} stops {relation} {place}.",
        "{transport} hält {relation} {place:dat}.",
    ),
)

TRAVEL = _patterns(
    "travel",
    (
        "by",
        "{subject} will travel to {city} by {vehicle:bare} {when}.",
        "{subject} {travel:finite subject} {when} mit {vehicle:dat} nach {city}.",
    ),
    (
        "inversion",
        "{when} {subject} will travel to {country}.",
        "{when} {travel:finite subject} {subject} nach {country}.",
    ),
    (
        "perfect",
        "{subject} travelled to {country} {past}.",
        "{subject} {sein subject} {past} nach {country} gereist.",
    ),
    (
        "modal",
        "{subject} {modal subject} travel to {city} {when}.",
        "{subject} {modal subject} {when} nach {city} reisen.",
    ),
    (
        "come_back",
        "I think that {somebody} will come back from {city} {when}.",
        "Ich glaube, dass {somebody} {when} aus {city} {come_back:final somebody}.",
    ),
    (
        "change",
        "{subject} {modal subject} change trains in {city}.",
        "{subject} {modal subject} in {city} umsteigen.",
    ),
    (
        "comparison",
        "{vehicle} is {comparison} than {vehicle2}.",
        "{vehicle} ist {comparison} als {vehicle2}.",
    ),
    (
        "next",
        "When does {connection:the next} from {city} to {city2} leave?",
        "Wann fährt {connection:the.nom next} von {city} nach {city2} ab?",
    ),
    (
        "stay",
        "{subject} will stay in {city} until {day}.",
        "{subject} {stay:finite subject} bis {day} in {city}.",
    ),
    (
        "with",
        "{subject} {frequency} {travel:finite subject} with {thing:a adjective}.",
        "{subject} {travel:finite subject} {frequency} mit {thing:a.dat adjective}.",
    ),
    (
        "without",
        "{subject} {frequency} {travel:finite subject} without {thing:poss owner}.",
        "{subject} {travel:finite subject} {frequency} ohne {thing:poss.acc owner}.",
    ),
)

THINGS = _patterns(
    "thing",
    (
        "will",
        "{subject} will {deed:base} {thing:a adjective} {when}.",
        "{subject} {deed:finite subject} {when} {thing:a.acc adjective} {deed:prefix}.",
    ),
    (
        "inversion",
        "{when} {subject} will {deed:base} {thing}.",
        "{when} {deed:finite subject} {subject} {thing:acc} {deed:prefix}.",
    ),
    (
        "modal",
        "{subject} {modal subject} {deed:base} {thing:poss owner} {when}.",
        "{subject} {modal subject} {when} {thing:poss.acc owner} {deed:infinitive}.",
    ),
    (
        "perfect",
        "{subject} {deed:past} {thing:the adjective} {past}.",
        "{subject} {deed:aux subject} {past} {thing:acc adjective} {deed:participle}.",
    ),
    (
        "mishap",
        "{subject} {mishap:past} {thing:poss owner} {past}.",
        "{subject} {mishap:aux subject} {past} {thing:poss.acc owner} "
        "{mishap:participle}.",
    ),
    (
        "that",
        "{subject} {say:finite subject} that {somebody} {mishap:past} {thing}.",
        "{subject} {say:finite subject}, dass {somebody} {thing:acc} "
        "{mishap:participle} {mishap:aux somebody}.",
    ),
    (
        "because",
        "{subject} {sein subject} {mood} because {somebody} {mishap:past} "
        "{thing:poss owner}.",
        "{subject} {sein subject} {mood}, weil {somebody} {thing:poss.acc owner} "
        "{mishap:participle} {mishap:aux somebody}.",
    ),
    (
        "if",
        "If you find {thing:the adjective}, please call {person}.",
        "Wenn Sie {thing:acc adjective} finden, rufen Sie bitte {person:acc} an.",
    ),
    (
        "valuation",
        "It is {valuation} to {deed:base} {thing:a}.",
        "Es ist {valuation}, {thing:a.acc} {deed:zu}.",
    ),
    (
        "belongs",
        "{thing:the adjective} belongs to {person}.",
        "{thing:nom adjective} gehört {person:dat}.",
    ),
    (
        "gift",
        "{subject} {gift:past} {person} {thing:a adjective}.",
        "{subject} {gift:aux subject} {person:dat} {thing:a.acc adjective} "
        "{gift:participle}.",
    ),
    (
        "present",
        "{thing:this} is a present for {person}.",
        "{thing:this.nom} ist ein Geschenk für {person:acc}.",
    ),
    (
        "no",
        "{somebody} {haben somebody} {thing:no adjective}.",
        "{somebody} {haben somebody} {thing:no.acc adjective}.",
    ),
    (
        "not",
        "{thing:this} is not {adjective}.",
        "{thing:this.nom} ist nicht {adjective}.",
    ),
    (
        "and",
        "{thing:poss owner} is {adjective} and {adjective2}.",
        "{thing:poss.nom owner} ist {adjective} und {adjective2}.",
    ),
    (
        "where",
        "Where is {thing:poss owner}?",
        "Wo ist {thing:poss.nom owner}?",
    ),
    (
        "how_much",
        "How much does {thing:the adjective} cost?",
        "Wie viel kostet {thing:nom adjective}?",
    ),
    (
        "lies",
        "{item} is lying {position} {furniture}.",
        "{item} liegt {position} {furniture:dat}.",
    ),
    (
        "put",
        "{subject} put {item} {position} {furniture}.",
        "{subject} {haben subject} {item:acc} {position} {furniture:acc} gelegt.",
    ),
)

HOUSE = _patterns(
    "house",
    (
        "open",
        "Please open {openable:the adjective}.",
        "Bitte machen Sie {openable:acc adjective} auf.",
    ),
    (
        "close",
        "{somebody} {modal somebody} close {openable:the adjective}.",
        "{somebody} {modal somebody} {openable:acc adjective} zumachen.",
    ),
    (
        "opened",
        "{subject} opened {openable} {past}.",
        "{subject} {haben subject} {past} {openable:acc} aufgemacht.",
    ),
    (
        "cold",
        "It is cold because {somebody} did not close {openable}.",
        "Es ist kalt, weil {somebody} {openable:acc} nicht zugemacht {haben somebody}.",
    ),
    (
        "switch_on",
        "{subject} switched on {device} {past}.",
        "{subject} {haben subject} {past} {device:acc} eingeschaltet.",
    ),
    (
        "switch_off",
        "Please switch off {device} {when}.",
        "Bitte schalten Sie {when} {device:acc} aus.",
    ),
    (
        "forgot",
        "{subject} forgot to switch off {device}.",
        "{subject} {haben subject} vergessen, {device:acc} auszuschalten.",
    ),
    (
        "available",
        "Do you have {space:a comfort} in {city}?",
        "Haben Sie {space:a.acc comfort} in {city}?",
    ),
)

PEOPLE = _patterns(
    "people",
    (
        "modal",
        "{subject} {modal subject} {encounter:base} {person} {when}.",
        "{subject} {modal subject} {when} {person:acc} {encounter:infinitive}.",
    ),
    (
        "perfect",
        "{subject} {encounter:past} {person} {past}.",
        "{subject} {encounter:aux subject} {past} {person:acc} {encounter:participle}.",
    ),
    (
        "will",
        "{subject} will {encounter:base} {person} {when}.",
        "{subject} {encounter:finite subject} {when} {person:acc} {encounter:prefix}.",
    ),
    (
        "that",
        "{somebody} {think:finite somebody} that {subject} {encounter:past} {person}.",
        "{somebody} {think:finite somebody}, dass {subject} {person:acc} "
        "{encounter:participle} {encounter:aux subject}.",
    ),
    (
        "pick_up",
        "{subject} will pick {person} up from {place}.",
        "{subject} {pick_up:finite subject} {person:acc} {place:von.dat} ab.",
    ),
    (
        "wait",
        "{subject} will wait for {person} {relation} {place}.",
        "{subject} {wait:finite subject} {relation} {place:dat} auf {person:acc}.",
    ),
    (
        "without",
        "We will not go to {place} without {person}.",
        "Wir gehen nicht ohne {person:acc} {place:zu.dat}.",
    ),
    (
        "if",
        "If {somebody} {call:finite somebody}, please pick up {person}.",
        "Wenn {somebody} {call:final somebody}, holen Sie bitte {person:acc} ab.",
    ),
    (
        "speak",
        "{subject} {speak:finite subject} {language} with {person}.",
        "{subject} {speak:finite subject} mit {person:dat} {language}.",
    ),
    (
        "learn",
        "{subject} {modal subject} learn {language} in {country}.",
        "{subject} {modal subject} in {country} {language} lernen.",
    ),
    (
        "hobby",
        "{subject} {frequency} {hobby:finite subject} in the evening.",
        "{subject} {hobby:finite subject} abends {frequency}.",
    ),
    (
        "hobby_with",
        "{subject} will {hobby:base} with {person} {when}.",
        "{subject} {hobby:finite subject} {when} mit {person:dat}.",
    ),
)

EVENTS = _patterns(
    "event",
    (
        "postpone",
        "{subject} {modal subject} postpone {event} until {day}.",
        "{subject} {modal subject} {event:acc} auf {day} verschieben.",
    ),
    (
        "invite",
        "{somebody} invited {person} to {event}.",
        "{somebody} {haben somebody} {person:acc} {event:zu.dat} eingeladen.",
    ),
    (
        "before",
        "{subject} will call {person} before {event}.",
        "{subject} {call:finite subject} {person:acc} vor {event:dat} an.",
    ),
    (
        "because",
        "{subject} {sein subject} {mood} because {somebody} cancelled {event}.",
        "{subject} {sein subject} {mood}, weil {somebody} {event:acc} abgesagt "
        "{haben somebody}.",
    ),
)

FOOD = _patterns(
    "food",
    (
        "order",
        "{somebody} would like {vessel} of {beverage}, please.",
        "{somebody} {would_like somebody} bitte {vessel:acc} {beverage}.",
    ),
    (
        "kilo",
        "{subject} {modal subject} buy a kilo of {groceries} {when}.",
        "{subject} {modal subject} {when} ein Kilo {groceries} kaufen.",
    ),
    (
        "too",
        "{dish} is too {flavour}.",
        "{dish} ist zu {flavour}.",
    ),
    (
        "that",
        "{subject} {think:finite subject} that {dish} is too {flavour}.",
        "{subject} {think:finite subject}, dass {dish} zu {flavour} ist.",
    ),
    (
        "make",
        "{subject} will make {meal} {when}.",
        "{subject} {make:finite subject} {when} {meal:the.acc}.",
    ),
)

HEALTH_AND_WEATHER = _patterns(
    "health",
    (
        "hurts",
        "{body:poss owner} has been hurting since {day}.",
        "{body:poss.nom owner} tut seit {day} weh.",
    ),
    (
        "doctor",
        "I must see the doctor {when} because {body:my} hurts.",
        "Ich muss {when} zum Arzt gehen, weil {body:my.nom} wehtut.",
    ),
) + _patterns(
    "weather",
    (
        "was",
        "It was {weather} in {city} {past}.",
        "In {city} war es {past} {weather}.",
    ),
    (
        "if",
        "If it is {weather}, {somebody} will stay at home.",
        "Wenn es {weather} ist, {stay:finite somebody} {somebody} zu Hause.",
    ),
)

ALL: tuple[Pattern, ...] = (
    *CLOCK,
    *TIMETABLE,
    *NUMBERS,
    *PRICES,
    *DATES,
    *DIRECTIONS,
    *TRAVEL,
    *THINGS,
    *HOUSE,
    *PEOPLE,
    *EVENTS,
    *FOOD,
    *HEALTH_AND_WEATHER,
)
