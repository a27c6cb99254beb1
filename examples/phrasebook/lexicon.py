"""The words of the phrasebook, as tables.

Nouns:  english[, plural] = article german[, plural]
Verbs:  base, third person, past = infinitive, ich, er, participle
        A bar marks a separable prefix: "an|rufen"; its finite forms come without it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from examples.phrasebook import grammar
from examples.phrasebook.grammar import (
    I_FORM,
    PLURAL,
    SINGULAR,
    Adjective,
    Finite,
    Noun,
    Owner,
    Phrase,
    Pronoun,
    Verb,
)

_GENDER_OF_ARTICLE = {"der": "m", "die": "f", "das": "n"}


def _rows(table: str) -> list[tuple[list[str], list[str]]]:
    """Split a table into rows of (English cells, German cells)."""
    sides = [line.split(" = ") for line in table.strip().splitlines()]
    return [(en.strip().split(", "), de.strip().split(", ")) for en, de in sides]


def _phrases(table: str, make: type = Phrase) -> tuple[Any, ...]:
    return tuple(make(en, de) for (en,), (de,) in _rows(table))


def _nouns(table: str, determiner: str = "the") -> tuple[Noun, ...]:
    nouns = []
    for (english, *english_plural), (german, *german_plural) in _rows(table):
        article, noun = german.split(" ", 1)
        nouns.append(
            Noun(
                english,
                _GENDER_OF_ARTICLE[article],
                noun,
                *english_plural or [""],
                *german_plural or [""],
                determiner=determiner,
            )
        )
    return tuple(nouns)


def _adjectives(table: str) -> tuple[Adjective, ...]:
    return tuple(Adjective(en, *german) for (en,), german in _rows(table))


def _verbs(table: str, auxiliary: str = "haben") -> tuple[Verb, ...]:
    verbs = []
    for english, (infinitive, ich, er, participle) in _rows(table):
        prefix, _, _ = infinitive.rpartition("|")
        infinitive = infinitive.replace("|", "")
        verbs.append(Verb(*english, infinitive, ich, er, participle, prefix, auxiliary))
    return tuple(verbs)


# ---------------------------------------------------------------- places and journeys

CITIES = _phrases("""
    Athens = Athen
    Berlin = Berlin
    Brussels = Brüssel
    Cologne = Köln
    Copenhagen = Kopenhagen
    Hamburg = Hamburg
    Hanover = Hannover
    London = London
    Munich = München
    Paris = Paris
    Prague = Prag
    Rome = Rom
    Venice = Venedig
    Vienna = Wien
    Warsaw = Warschau
    Zurich = Zürich
""")

COUNTRIES = _phrases("""
    Austria = Österreich
    Denmark = Dänemark
    France = Frankreich
    Germany = Deutschland
    Italy = Italien
    Norway = Norwegen
    Poland = Polen
    Portugal = Portugal
    Spain = Spanien
    Sweden = Schweden
""")

PLACES = _nouns("""
    airport = der Flughafen
    bakery = die Bäckerei
    bridge = die Brücke
    bus stop = die Bushaltestelle
    castle = das Schloss
    church = die Kirche
    cinema = das Kino
    hospital = das Krankenhaus
    hotel = das Hotel
    library = die Bibliothek
    market = der Markt
    museum = das Museum
    park = der Park
    pharmacy = die Apotheke
    post office = die Post
    restaurant = das Restaurant
    station = der Bahnhof
    supermarket = der Supermarkt
    swimming pool = das Schwimmbad
    theatre = das Theater
    town hall = das Rathaus
    zoo = der Zoo
""")

# Places without opening hours.
NEVER_CLOSED = {
    "airport",
    "bridge",
    "bus stop",
    "church",
    "hospital",
    "hotel",
    "park",
    "station",
}

LANDMARKS = _nouns("""
    corner = die Ecke
    crossroads = die Kreuzung
    fountain = der Brunnen
    kiosk = der Kiosk
    traffic light = die Ampel
    tree = der Baum
""")

AREAS = _nouns("""
    forest = der Wald
    garden = der Garten
    old town = die Altstadt
    valley = das Tal
    village = das Dorf
""")

CONNECTIONS = _nouns("""
    bus = der Bus
    express train = der Schnellzug
    ferry = die Fähre
    night train = der Nachtzug
    ship = das Schiff
    train = der Zug
""")

TRANSPORT = (
    *CONNECTIONS,
    *_nouns("""
    tram = die Straßenbahn
    underground = die U-Bahn
"""),
)

VEHICLES = (
    *CONNECTIONS,
    *_nouns("""
    bicycle = das Fahrrad
    car = das Auto
    motorcycle = das Motorrad
    plane = das Flugzeug
    taxi = das Taxi
"""),
)

RELATIONS = _phrases("""
    behind = hinter
    in front of = vor
    next to = neben
    opposite = gegenüber
""")

SIDES = _phrases("""
    left = links
    right = rechts
""")

STREET_NUMBERS = _adjectives("""
    first = erste, erst
    second = zweite, zweit
    third = dritte, dritt
    fourth = vierte, viert
    fifth = fünfte, fünft
    next = nächste, nächst
""")

COMPARISONS = _phrases("""
    bigger = größer
    cheaper = billiger
    faster = schneller
    more comfortable = bequemer
    more expensive = teurer
    quieter = leiser
    safer = sicherer
    slower = langsamer
""")

# ----------------------------------------------------------------------------- people

PRONOUNS = (
    Pronoun("I", "ich", I_FORM),
    Pronoun("he", "er", SINGULAR),
    Pronoun("she", "sie", SINGULAR),
    Pronoun("we", "wir", PLURAL),
    Pronoun("you", "Sie", PLURAL),
)

# How much oftener than a name a pronoun is a subject: the first person has verb forms
# of its own.
PRONOUN_WEIGHT = 8

NAMES = tuple(
    Noun(name, gender, name, determiner="")
    for gender, names in (
        ("f", "Anna Julia Laura Maria"),
        ("m", "David Max Peter Thomas"),
    )
    for name in names.split()
)

# "Herr" is a weak noun; a title and a surname are inflected together.
SURNAMES = tuple(
    noun
    for name in ("Fischer", "Schmidt", "Weber")
    for noun in (
        Noun(
            f"Mr {name}",
            "m",
            f"Herr {name}",
            accusative=f"Herrn {name}",
            dative=f"Herrn {name}",
            determiner="",
        ),
        Noun(f"Mrs {name}", "f", f"Frau {name}", determiner=""),
    )
)

RELATIVES = (
    *_nouns(
        """
    brother = der Bruder
    daughter = die Tochter
    father = der Vater
    mother = die Mutter
    sister = die Schwester
    son = der Sohn
""",
        determiner="my",
    ),
    Noun("neighbour", "m", "Nachbar", "", "", "Nachbarn", "Nachbarn", "my"),
    Noun("colleague", "m", "Kollege", "", "", "Kollegen", "Kollegen", "my"),
    Noun("parents", "p", "Eltern", determiner="my"),
)

PROFESSIONS = (
    *_nouns("""
    baker = der Bäcker
    boss = der Chef
    dentist = der Zahnarzt
    doctor = der Arzt
    secretary = die Sekretärin
    teacher = der Lehrer
    waiter = der Kellner
"""),
    Noun("children", "p", "Kinder", dative="Kindern"),
    Noun("customer", "m", "Kunde", accusative="Kunden", dative="Kunden"),
)

OWNERS = tuple(
    Owner(english, german)
    for english, german in grammar.A_WORDS.items()
    if english not in ("a", "no")
)

# ----------------------------------------------------------------------------- things

THINGS = _nouns("""
    bag, bags = die Tasche, Taschen
    book, books = das Buch, Bücher
    camera, cameras = die Kamera, Kameras
    coat, coats = der Mantel, Mäntel
    cup, cups = die Tasse, Tassen
    hat, hats = der Hut, Hüte
    jacket, jackets = die Jacke, Jacken
    key, keys = der Schlüssel, Schlüssel
    letter, letters = der Brief, Briefe
    map, maps = die Landkarte, Landkarten
    newspaper, newspapers = die Zeitung, Zeitungen
    passport, passports = der Pass, Pässe
    picture, pictures = das Bild, Bilder
    plate, plates = der Teller, Teller
    shirt, shirts = das Hemd, Hemden
    spoon, spoons = der Löffel, Löffel
    suitcase, suitcases = der Koffer, Koffer
    ticket, tickets = die Fahrkarte, Fahrkarten
    umbrella, umbrellas = der Regenschirm, Regenschirme
    watch, watches = die Uhr, Uhren
""")

FURNITURE = _nouns("""
    bed = das Bett
    box = die Kiste
    chair = der Stuhl
    cupboard = der Schrank
    desk = der Schreibtisch
    shelf = das Regal
    sofa = das Sofa
    table = der Tisch
""")

# Prepositions with the dative for a place and the accusative for a direction.
POSITIONS = _phrases("""
    behind = hinter
    in front of = vor
    next to = neben
    on = auf
    under = unter
""")

OPENABLES = _nouns("""
    door = die Tür
    drawer = die Schublade
    garage = die Garage
    parcel = das Paket
    tin = die Dose
    window = das Fenster
""")

DEVICES = _nouns("""
    computer = der Computer
    heating = die Heizung
    lamp = die Lampe
    light = das Licht
    oven = der Ofen
    radio = das Radio
    television = der Fernseher
""")

ADJECTIVES = _adjectives("""
    beautiful = schön
    big = groß
    black = schwarz
    blue = blau
    cheap = billig
    expensive = teuer, teur
    green = grün
    heavy = schwer
    new = neu
    old = alt
    red = rot
    small = klein
    white = weiß
    yellow = gelb
""")

ROOMS = _nouns("""
    double room = das Doppelzimmer
    flat = die Wohnung
    holiday home = das Ferienhaus
    house = das Haus
    kitchen = die Küche
    office = das Büro
    single room = das Einzelzimmer
""")

COMFORTS = _adjectives("""
    beautiful = schön
    cheap = billig
    clean = sauber
    comfortable = bequem
    quiet = ruhig
    small = klein
    warm = warm
""")

# ------------------------------------------------------------------------ food, health

BEVERAGES = _phrases("""
    apple juice = Apfelsaft
    beer = Bier
    milk = Milch
    orange juice = Orangensaft
    red wine = Rotwein
    water = Wasser
""")

VESSELS = _nouns(
    """
    bottle = die Flasche
    glass = das Glas
    jug = der Krug
""",
    determiner="a",
)

GROCERIES = _phrases("""
    apples = Äpfel
    bananas = Bananen
    butter = Butter
    cheese = Käse
    fish = Fisch
    potatoes = Kartoffeln
    rice = Reis
    salt = Salz
    sugar = Zucker
    tomatoes = Tomaten
""")

DISHES = _nouns("""
    bread = das Brot
    cake = der Kuchen
    coffee = der Kaffee
    meat = das Fleisch
    rice = der Reis
    salad = der Salat
    soup = die Suppe
    tea = der Tee
""")

FLAVOURS = _phrases("""
    cold = kalt
    hot = heiß
    salty = salzig
    sour = sauer
    spicy = scharf
    sweet = süß
""")

MEALS = _nouns(
    """
    breakfast = das Frühstück
    dinner = das Abendessen
    lunch = das Mittagessen
""",
    determiner="",
)

BODY_PARTS = _nouns("""
    arm = der Arm
    back = der Rücken
    eye = das Auge
    foot = der Fuß
    hand = die Hand
    head = der Kopf
    knee = das Knie
    leg = das Bein
    shoulder = die Schulter
    tooth = der Zahn
""")

# ------------------------------------------------------------------ time, appointments

WEEKDAYS = _phrases("""
    Monday = Montag
    Tuesday = Dienstag
    Wednesday = Mittwoch
    Thursday = Donnerstag
    Friday = Freitag
    Saturday = Samstag
    Sunday = Sonntag
""")

PARTS_OF_DAY = _phrases("""
    morning = morgen
    evening = abend
""")

FUTURE = (
    *_phrases("""
    at the weekend = am Wochenende
    in autumn = im Herbst
    in spring = im Frühling
    in summer = im Sommer
    in winter = im Winter
    later = später
    next month = nächsten Monat
    next week = nächste Woche
    next year = nächstes Jahr
    soon = bald
    the day after tomorrow = übermorgen
    this afternoon = heute Nachmittag
    this evening = heute Abend
    today = heute
    tomorrow = morgen
    tomorrow evening = morgen Abend
"""),
    *(Phrase(f"on {day.english_text}", f"am {day.german_text}") for day in WEEKDAYS),
    *(
        Phrase(
            f"on {day.english_text} {part.english_text}",
            f"am {day.german_text}{part.german_text}",
        )
        for day in WEEKDAYS
        for part in PARTS_OF_DAY
    ),
)

PAST = (
    *_phrases("""
    last month = letzten Monat
    last summer = letzten Sommer
    last week = letzte Woche
    last winter = letzten Winter
    last year = letztes Jahr
    the day before yesterday = vorgestern
    this morning = heute Morgen
    yesterday = gestern
    yesterday evening = gestern Abend
"""),
    *(
        Phrase(f"last {day.english_text}", f"letzten {day.german_text}")
        for day in WEEKDAYS
    ),
)

FREQUENCIES = _phrases("""
    always = immer
    never = nie
    often = oft
    rarely = selten
    sometimes = manchmal
    usually = meistens
""")

EVENTS = _nouns("""
    concert = das Konzert
    course = der Kurs
    exam = die Prüfung
    exhibition = die Ausstellung
    festival = das Festival
    guided tour = die Führung
    meeting = die Besprechung
    party = die Feier
    wedding = die Hochzeit
""")

WEATHER = _phrases("""
    cloudy = bewölkt
    cold = kalt
    dry = trocken
    hot = heiß
    stormy = stürmisch
    sunny = sonnig
    warm = warm
    windy = windig
""")

LANGUAGES_SPOKEN = _phrases("""
    English = Englisch
    French = Französisch
    German = Deutsch
    Italian = Italienisch
    Japanese = Japanisch
    Polish = Polnisch
    Russian = Russisch
    Spanish = Spanisch
    Swedish = Schwedisch
    Turkish = Türkisch
""")

MOODS = _phrases("""
    angry = wütend
    disappointed = enttäuscht
    happy = glücklich
    nervous = nervös
    sad = traurig
    surprised = überrascht
""")

VALUATIONS = _phrases("""
    dangerous = gefährlich
    difficult = schwierig
    easy = leicht
    important = wichtig
    impossible = unmöglich
    necessary = nötig
    possible = möglich
    useful = nützlich
""")

# ------------------------------------------------------------------------------ verbs

# With a thing as the object.
DEEDS = _verbs("""
    borrow, borrows, borrowed = aus|leihen, leihe, leiht, ausgeliehen
    bring along, brings along, brought along = mit|bringen, bringe, bringt, mitgebracht
    buy, buys, bought = kaufen, kaufe, kauft, gekauft
    give back, gives back, gave back = zurück|geben, gebe, gibt, zurückgegeben
    look for, looks for, looked for = suchen, suche, sucht, gesucht
    order, orders, ordered = bestellen, bestelle, bestellt, bestellt
    pack, packs, packed = ein|packen, packe, packt, eingepackt
    sell, sells, sold = verkaufen, verkaufe, verkauft, verkauft
    take along, takes along, took along = mit|nehmen, nehme, nimmt, mitgenommen
    throw away, throws away, threw away = weg|werfen, werfe, wirft, weggeworfen
    unpack, unpacks, unpacked = aus|packen, packe, packt, ausgepackt
""")

# That happen to somebody.
MISHAPS = _verbs("""
    break, breaks, broke = kaputt|machen, mache, macht, kaputtgemacht
    find, finds, found = finden, finde, findet, gefunden
    forget, forgets, forgot = vergessen, vergesse, vergisst, vergessen
    lose, loses, lost = verlieren, verliere, verliert, verloren
    see, sees, saw = sehen, sehe, sieht, gesehen
""")

# With a receiver in the dative.
GIFTS = _verbs("""
    bring, brings, brought = bringen, bringe, bringt, gebracht
    give, gives, gave = geben, gebe, gibt, gegeben
    lend, lends, lent = leihen, leihe, leiht, geliehen
    send, sends, sent = schicken, schicke, schickt, geschickt
    show, shows, showed = zeigen, zeige, zeigt, gezeigt
""")

# With a person as the object.
ENCOUNTERS = _verbs("""
    ask, asks, asked = fragen, frage, fragt, gefragt
    call, calls, called = an|rufen, rufe, ruft, angerufen
    invite, invites, invited = ein|laden, lade, lädt, eingeladen
    meet, meets, met = treffen, treffe, trifft, getroffen
    pick up, picks up, picked up = ab|holen, hole, holt, abgeholt
    visit, visits, visited = besuchen, besuche, besucht, besucht
""")

HOBBIES = _verbs("""
    cook, cooks, cooked = kochen, koche, kocht, gekocht
    dance, dances, danced = tanzen, tanze, tanzt, getanzt
    paint, paints, painted = malen, male, malt, gemalt
    read, reads, read = lesen, lese, liest, gelesen
    sing, sings, sang = singen, singe, singt, gesungen
    work, works, worked = arbeiten, arbeite, arbeitet, gearbeitet
    write, writes, wrote = schreiben, schreibe, schreibt, geschrieben
""")

ROUTINES = _verbs(
    """
    get up, gets up, got up = auf|stehen, stehe, steht, aufgestanden
    come back, comes back, came back = zurück|kommen, komme, kommt, zurückgekommen
    go out, goes out, went out = aus|gehen, gehe, geht, ausgegangen
    set off, sets off, set off = los|fahren, fahre, fährt, losgefahren
    wake up, wakes up, woke up = auf|wachen, wache, wacht, aufgewacht
""",
    auxiliary="sein",
)

MODALS = (
    Finite(("can", "can", "can"), ("kann", "kann", "können")),
    Finite(("must", "must", "must"), ("muss", "muss", "müssen")),
    Finite(("should", "should", "should"), ("sollte", "sollte", "sollten")),
    Finite(("want to", "wants to", "want to"), ("will", "will", "wollen")),
    Finite(
        ("would like to", "would like to", "would like to"),
        ("möchte", "möchte", "möchten"),
    ),
    Finite(
        ("am allowed to", "is allowed to", "are allowed to"),
        ("darf", "darf", "dürfen"),
    ),
)

# Verbs that a template names outright, with "_" for a space.
VERBS = {
    verb.base.replace(" ", "_"): verb
    for verb in (
        *_verbs("""
    hope, hopes, hoped = hoffen, hoffe, hofft, gehofft
    live, lives, lived = wohnen, wohne, wohnt, gewohnt
    make, makes, made = machen, mache, macht, gemacht
    say, says, said = sagen, sage, sagt, gesagt
    speak, speaks, spoke = sprechen, spreche, spricht, gesprochen
    think, thinks, thought = glauben, glaube, glaubt, geglaubt
    wait, waits, waited = warten, warte, wartet, gewartet
"""),
        *_verbs(
            """
    stay, stays, stayed = bleiben, bleibe, bleibt, geblieben
    travel, travels, travelled = reisen, reise, reist, gereist
""",
            auxiliary="sein",
        ),
        *ENCOUNTERS,
        *ROUTINES,
    )
}

_PERSONS = (*NAMES, *SURNAMES, *RELATIVES, *PROFESSIONS)


def _only(nouns: tuple[Noun, ...], keys: Collection[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in nouns if noun.key in keys)


def _without(nouns: tuple[Noun, ...], keys: Collection[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in nouns if noun.key not in keys)


# What stands in a slot. A digit after the name ("city2") asks for another one.
SLOTS: dict[str, tuple[Any, ...]] = {
    "adjective": ADJECTIVES,
    "area": (*AREAS, *_only(PLACES, {"park"})),
    "beverage": BEVERAGES,
    "body": BODY_PARTS,
    "business": _without(PLACES, NEVER_CLOSED),
    "city": CITIES,
    "comfort": COMFORTS,
    "comparison": COMPARISONS,
    "connection": CONNECTIONS,
    "country": COUNTRIES,
    "day": WEEKDAYS,
    "deed": DEEDS,
    "device": DEVICES,
    "dish": DISHES,
    "encounter": ENCOUNTERS,
    "event": EVENTS,
    "flavour": FLAVOURS,
    "frequency": FREQUENCIES,
    "furniture": FURNITURE,
    "gift": GIFTS,
    "groceries": GROCERIES,
    "hobby": HOBBIES,
    "item": _without(THINGS, {"cup", "plate", "suitcase"}),
    "landmark": (*LANDMARKS, *PLACES),
    "language": LANGUAGES_SPOKEN,
    "meal": MEALS,
    "mishap": MISHAPS,
    "modal": MODALS,
    "mood": MOODS,
    "nth": STREET_NUMBERS,
    "openable": OPENABLES,
    "owner": OWNERS,
    "past": PAST,
    "person": _PERSONS,
    "place": PLACES,
    "position": POSITIONS,
    "relation": RELATIONS,
    "routine": ROUTINES,
    "side": SIDES,
    "somebody": (*PRONOUNS * PRONOUN_WEIGHT, *NAMES, *SURNAMES, *RELATIVES),
    "space": ROOMS,
    "subject": (*PRONOUNS * PRONOUN_WEIGHT, *_PERSONS),
    "thing": THINGS,
    "transport": TRANSPORT,
    "valuation": VALUATIONS,
    "vehicle": VEHICLES,
    "vessel": VESSELS,
    "weather": WEATHER,
    "when": FUTURE,
}

# What a template may name without drawing it.
CONSTANTS: dict[str, Any] = {
    **VERBS,
    **grammar.AUXILIARIES,
    "can": MODALS[0],
    "would_like": MODALS[4],
    "next": STREET_NUMBERS[-1],
}
