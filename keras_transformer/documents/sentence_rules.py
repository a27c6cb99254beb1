"""Where sentences end: one table of rules for Python and for a TensorFlow graph.

A text consists of words and spaces. A word with an end mark ends a sentence unless the
words before and after it tell that the sentence goes on. Each rule is a regular
expression that matches whole texts, in the form that RE2 and `regex` share.
`documents.text` and `documents.graph_text` both apply them with `ends`, so that both
find the same sentences. Imports no TensorFlow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import regex

from keras_transformer import language_tokens
from keras_transformer.white_space import SPACES

# These are classes, between brackets. A line break or a tab ends a sentence.
LINE_ENDS = "\n\r\v\f\t\x1c\x1d\x1e\x85\u2028\u2029"
# Some quotation marks close in one language and open in another.
_QUOTES = "\"'”’“‘»«›‹」』"
CLOSING = f"{_QUOTES})\\]*_"
_OPENING_CLASS = "\"'“„‚‘’«»‹›(\\[¿¡*_‒–—―「『（"
ENDS = ".!?…‽؟۔\u037e։"
# Chinese, Japanese, Devanagari, Ethiopic, Khmer and Burmese need no space after a mark.
_WIDE_ENDS = "。！？｡।॥።។။"
WIDE = f"{_WIDE_ENDS}、，；："
# A title such as 《你是谁？》 ends no sentence.
_WIDE_CLOSING = "\"'”’」』）)】〕"
_NO_WORD = f"{SPACES}>"
_OPENING = f"[{_OPENING_CLASS}]*"

LINE_END = f"\r\n|[{LINE_ENDS}]"
INNER_SPACES = f"[{''.join(each for each in SPACES if each not in LINE_ENDS)}]+"
# The mark of a quote in an e-mail, which may touch a language token.
ANGLE = ">"
# A language token is one word. French has a space before a mark.
WORD = "|".join(
    [
        language_tokens.TOKEN,
        ANGLE,
        "[?!]+[ \u00a0\u202f]+»",
        f"[^{_NO_WORD}{WIDE}]*[{ENDS}][\u00a0\u202f]+»",
        f"[^{_NO_WORD}{WIDE}]*(?:[{WIDE}][{_WIDE_CLOSING}》〉]*)+",
        f"[^{_NO_WORD}]+",
    ]
)
# A capital letter.
CAPITAL = r"[\p{Lu}]"
# What a sentence or a clause may end with.
MARK = regex.compile(f"[{ENDS}{WIDE}]")
# A word after whose end a text can be divided.
WIDE_WORD = f".*[{WIDE}][{_WIDE_CLOSING}》〉]*"
# The signs of a list or a heading, if a space follows.
BULLET = r"[-*+•‣⁃▪●◦–—]|#{1,6}|\(?[\p{Nd}]{1,3}[.)]|\(?[\p{L}]\)"
# Those that may be the beginning of a date instead, as in "3. Oktober 1990".
_NUMBER_BULLET = r"[\p{Nd}]{1,3}\."

# Abbreviations within a sentence. "z.B" stands for "z. B" too, "vgl" for "Vgl" too.
_WITHIN = {
    "": "Dr Drs Prof Mr Mrs Ms Mx St Ste vs cf ca viz e.g i.e Sr Mt Lt Cmdr Sgt"
    " Capt Gen",
    "cs": "např tzv tj Ing Mgr Bc MUDr JUDr PhDr RNDr doc sv nám ul zvl popř resp",
    "da": "f.eks bl.a dvs d.v.s hr fr jf evt inkl såk",
    "de": "Hr Hrn Fr Dipl Dipl.-Ing Ing Mag med phil jur rer nat bzw vgl evtl inkl exkl"
    " incl ggf sog resp z.B d.h u.a o.ä s.o s.u u.U v.a i.d.R z.T bspw insb d.i"
    " geb Hl Frl Abg",
    "el": "κ κκ π.χ δηλ καθ δρ αγ λεωφ στρατ",
    "en": "Gen Sen Rep Gov Col Capt Cpt Maj Lt Cmdr Adm Sgt Rev Hon Pres Messrs Ft esp"
    " approx Supt Insp Msgr",
    "es": "Sra Sres Sras Srta Dra Dres Ud Uds Lic Ing Arq Gral p.ej EE Av Avda aprox"
    " Excmo Excma Ilmo Fdo Sto Sta",
    "fi": "esim toht prof vrt",
    "fr": "MM Mme Mmes Mlle Mlles Mgr Me p.ex c.-à-d av apr env boul bd Vve",
    "hi": "डॉ प्रो रु श्री सुश्री बी सी डी एफ जी एच आई जे के एल एम एन पी क्यू आर एस टी"
    " यू वी डब्ल्यू एक्स वाई",
    "hu": "pl ill ifj özv Szt vö",
    "it": "sig sigg sig.ra dott prof avv ing arch geom on mons p.es cav rag spett egr",
    "nb": "f.eks bl.a dvs hr fr jf evt inkl",
    "nl": "dhr mevr mw bijv d.w.z o.a m.n ir drs ing mr i.v.m t.a.v i.p.v t.o.v evt",
    "pl": "np prof inż mgr hab ul al pl m.in tj tzn tzw im św ks dot gen płk red ok",
    "pt": "Sra Srs Sras Dra Dras Exmo Exma Profa Eng Av p.ex aprox Ilmo Sto Sta",
    "ro": "dl dna d-na dra prof ing str bd ex Sf",
    "ru": "т.е т.к т.н проф акад доц ул пр пл пер им ген св напр см ср гр инж тов обл",
    "sk": "napr tzv tj Ing Mgr Bc MUDr JUDr PhDr RNDr doc sv nám ul popr",
    "sv": "t.ex bl.a d.v.s dvs s.k fr.o.m t.o.m jfr resp",
    "tr": "Doç Yrd Uzm Op Öğr Gör bkz örn Alb Gen Cad Mah Sok",
    "uk": "т.зв проф акад доц вул просп ім ген св напр див",
}
_BEFORE_NUMBER = {
    "": "no nos nr num fig figs vol vols art p pp ch § tel ext al",
    "cs": "č str obr tab kap odst roč čl",
    "da": "s kap stk",
    "de": "Abb Tab Kap Bd Bde S Abs Ziff Anm Aufl Nrn",
    "el": "σελ αρ κεφ εικ τηλ",
    "en": "sec secs eq eqs tab ref refs Rev Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct"
    " Nov Dec",
    "es": "pág págs cap núm tít",
    "fr": "chap éd pag",
    "it": "pag pagg cap sez",
    "nl": "blz hfst afb",
    "pl": "s str godz rys tab rozdz poz ust pkt tel",
    "pt": "pág págs cap núm",
    "ru": "рис табл с стр гл п пп ст тел кв",
    "sv": "s sid kap kl",
    "tr": "s sf Md",
    "uk": "рис табл с стор гл п ст тел",
}
# After these, and after initials, only a word from `_BEGINNINGS` begins a sentence.
_UNCLEAR = {
    "": "a.m p.m Inc Ltd Co Corp Bros Ph.D",
    "ar": "ق.م",
    "de": "Jh Jhs Mio Mrd",
    "ru": "млн млрд тыс",
    "uk": "млн млрд тис",
}
# These look like initials and end a sentence before any capital letter.
_CLEAR = {
    "fr": "J.-C",
    "pl": "r",
    "ru": "т.д т.п н.э",
}
_BEGINNINGS = {
    "ar": "ثم",
    "cs": "Ale A Já Je Jeho Její Jejich Byl Byla Bylo Když Ten Ta To Tento Tato V Ve Na"
    " Po Pak Potom Poté Proto Tam Do Od Za Oba Podle",
    "da": "Men Og Jeg Du Han Hun Den Det De Vi Der Dette Hans Hendes I På Da Så Efter",
    "de": "Aber Als Am An Auch Auf Aus Bei Beide Beim Bis Da Dabei Dafür Damit Danach"
    " Dann Daran Darauf Das Dass Davon Dazu Dem Den Denn Der Des Deshalb Die Dies"
    " Diese Dieser Dieses Doch Dort Du Durch Ein Eine Einem Einen Einer Er Es Für"
    " Gestern Heute Hier Ich Ihm Ihr Ihre Ihren Im In Ist Jetzt Kein Keine Man"
    " Mein Meine Mit Nach Nein Nicht Niemand Noch Nun Nur Ob Ohne Sein Seine"
    " Seinen Seit Sie So Trotz Um Und Unter Viele Vielleicht Vom Von Vor Wann"
    " Warum Was Wegen Weil Wenn Wer Wie Wir Wo Zu Zudem Zum Zur Zwei",
    "el": "Ο Η Το Οι Τα Τον Την Του Της Ένας Μια Μία Και Αλλά Αυτός Αυτή Αυτό Στη Στο"
    " Στην Στον Στις Με Για Από Όταν Αν Μετά Δεν Πριν",
    "en": "A After All Also Although An And Another As At Because Both But By Did Do"
    " Don't For From Give He Her Here His How However I If In Is It Its It's Just"
    " Let Look Many Maybe Most My No Nobody Not Nothing Now Of On Once One Only Or"
    " Our Perhaps Please She Since So Some Still That The Their Then There These"
    " They This Those Though Thus To Today Two Under Until We Were What When Where"
    " Which While Who Why With Yes Yet You Your",
    "es": "A Al Ahora Allí Aunque Como Con Cuando De Del Desde Después El Ella Ellos En"
    " Era Es Esta Este Esto Fue Ha Hay La Las Le Lo Los Luego Más Me Mi Muchos No"
    " Nos Nunca Para Pero Por Porque Que Se Si Sin Sobre Su Sus También Tiene Todo"
    " Tras Un Una Y Ya Yo",
    "fi": "Hän Se Ne Me Te He Minä Sinä Tämä Mutta Ja Kun Jos Sitten Nyt",
    "fr": "À Alors Après Au Aussi Autre Aux Avec Avant Ce Cela Ces Cet Cette Chaque"
    " Comme D'après Dans De Depuis Des Deux Donc Du Elle Elles En Enfin Est Et Eux"
    " Il Ils Je L La Le Les Leur Leurs Lors Lui Mais Même Moi Mon Ne Ni Non Nos"
    " Notre Nous On Or Ou Où Par Parce Pas Personne Plus Pour Pourquoi Puis Quand"
    " Que Quel Qui Sa Sans Se Selon Ses Si Son Sous Sur Ta Tous Tout Très Tu Un"
    " Une Voici Voilà Vos Votre Vous Y",
    "hu": "A Az Ez És De Ő Ők Mi Ha Most Aztán Nem",
    "it": "A Ad Al Alla Allora Anche Che Chi Ci Come Con Da Dal Del Di Dopo Dove E È"
    " Essi Gli Ha Ho I Il In Invece Io La Le Lei Lo Loro Lui Ma Mentre Mi Nel"
    " Nella Noi Non Ora Per Perché Poi Quando Questa Questo Se Si Sono Su Tra Tu"
    " Tutti Un Una Uno",
    "nb": "Men Og Jeg Du Han Hun Den Det De Vi Der Dette Hans Hennes I På Da Så Etter",
    "nl": "Aan Als Bij Daar Daarna Dan Dat De Deze Die Dit Een En Er Haar Het Hier Hij"
    " Hun Ik In Is Je Maar Met Mijn Na Naar Nee Niet Nu Of Om Ook Op Over Te Toen"
    " Tot Uit Van Veel Voor Waar Waarom Wanneer Wat We Wie Wij Ze Zij Zijn Zo",
    "pl": "A Ale Bo Był Była Było Co Dla Do Gdy I Ich Ja Jak Jego Jej Jest Już Kiedy"
    " Kto Na Nad Nie Nikt O Obok On Ona Oni Po Pod Potem Przed Przy Są Ta Tam Ten"
    " Teraz Tak To W We Więc Wtedy Z Za Ze",
    "pt": "A À Ainda Ao As Assim Até Com Como Da De Depois Do E É Ela Elas Ele Eles Em"
    " Era Essa Esse Esta Este Eu Foi Há Já Mas Muitos Na Não Nas No Nos O Os Ou"
    " Para Pela Pelo Pois Por Porque Quando Que Quem São Se Sem Seu Seus Sua"
    " Também Tem Um Uma",
    "ro": "Un O El Ea Ei Și Dar În La Pe De Cu Nu Eu Noi Acest Această Apoi Când",
    "ru": "А Без Был Была Были Было В Вот Все Всё Вы Где Да Для До Его Ее Её Если Есть"
    " За И Из Или Им Их К Как Когда Который Кто Мы На Не Нет Но О Об Он Она Они"
    " Оно От Очень По Под Пока После Потом При Рядом С Сейчас Со Так Там Теперь То"
    " Тогда Только Ты У Уже Что Чтобы Эта Эти Это Этот Я",
    "sv": "Men Och Jag Du Han Hon Den Det De Vi Här Där Detta Hans Hennes I På När Så",
    "tr": "Ama Ben Biz Bir Bu Bunlar Bunun Çok Çünkü Daha Ertesi Fakat Her İki İşte Kim"
    " O Onlar Onun Orada Sen Siz Sonra Şimdi Şu Ve Yine",
    "uk": "А Але В Вона Вони Він Воно Для До За З І Й Його Її Як Якщо Коли Ми На Не Ні"
    " Після По При Потім Та Там Тоді Ти У Це Цей Ця Що Я",
}
_BEGINNINGS["sk"] = _BEGINNINGS["cs"]
# Who says the quotation before it, where the words for it have no small letter.
_ATTRIBUTION = {
    "ar": "و?(?:سأل|قال|صاح|أجاب|هتف|ردّ|همس)[^ ]*",
    "en": "(?:[^ ]+ ){1,2}(?:said|says|asked|asks|cried|shouted|replied|answered|added"
    "|whispered|wrote|told|called|yelled|exclaimed|muttered)[,.:]?",
    "hi": "(?:[^ ]+ ){1,2}(?:पूछा|कहा|बोला|बोली|चिल्लाया|चिल्लाई)[,।]?",
    "ja": "(?:と|って|を|が|の|など).*",
    "zh": "[^“‘「『]{0,12}(?:说|説|說|道|喊|问|問|叫)[，。：！]?",
}
# Languages with a point after ordinal numbers, and what begins no sentence after one.
_ORDINAL_LANGUAGES = (
    *("cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nb", "pl"),
    *("sk", "sl", "sr", "tr"),
)
_COUNTED = {
    "": "FC SC SV FK HC Liga",
    "cs": "ledna února března dubna května června července srpna září října listopadu"
    " prosince století ročník místo světová",
    "da": "januar februar marts april maj juni juli august september oktober november"
    " december århundrede",
    "de": "Januar Jänner Februar März April Mai Juni Juli August September Oktober"
    " November Dezember Jahrhundert Jahrhunderts Jh Weltkrieg Weltkriegs"
    " Bundesliga Platz Klasse Stock Mal Tag",
    "fi": "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta"
    " elokuuta syyskuuta lokakuuta marraskuuta joulukuuta",
    "hu": "század századi században",
    "nb": "januar februar mars april mai juni juli august september oktober november"
    " desember århundre",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września"
    " października listopada grudnia wiek wieku miejsce",
    "sk": "januára februára marca apríla mája júna júla augusta septembra októbra"
    " novembra decembra storočie storočí",
    "tr": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık"
    " Dünya yüzyıl yüzyılda yüzyılın",
}
# No text matches this: it is a space, of which words have none.
_NEVER = "\\x00"
# Other codes of languages.
_SAME = {
    **{"ara": "ar", "arb": "ar", "ces": "cs", "cze": "cs", "dan": "da", "deu": "de"},
    **{"ger": "de", "ell": "el", "gre": "el", "eng": "en", "spa": "es", "fin": "fi"},
    **{"fra": "fr", "fre": "fr", "hin": "hi", "hun": "hu", "ita": "it", "jpn": "ja"},
    **{"kor": "ko", "nld": "nl", "dut": "nl", "no": "nb", "nn": "nb", "nob": "nb"},
    **{"nor": "nb", "nno": "nb", "pol": "pl", "por": "pt", "ron": "ro", "rum": "ro"},
    **{"rus": "ru", "slk": "sk", "slo": "sk", "swe": "sv", "tur": "tr", "ukr": "uk"},
    **{"zho": "zh", "chi": "zh", "cmn": "zh", "tha": "th"},
}


class Rules(NamedTuple):
    """The regular expressions of a language.

    They match a word; a word with the one before it ("context"); or the three words
    after it.
    """

    # Word: may end a sentence; does so without a space after it; also ends a quotation.
    end: str
    wide_end: str
    quotation: str
    # After: who says a quotation.
    attribution: str
    # Context: an abbreviation within a sentence.
    within: str
    # Word: an abbreviation before a number. After: a number.
    before_number: str
    number: str
    # Context: an abbreviation or initials, unclear or clear as above.
    unclear: str
    clear: str
    # After: a word that often begins a sentence.
    beginning: str
    # Word: an ordinal number, if the language writes them with a point; the same in any
    # language. After: what it counts.
    ordinal: str
    any_ordinal: str
    counted: str
    # Word: dots; dots alone. After: a capital letter; the English "I".
    dots: str
    bare_dots: str
    capital: str
    first_person: str
    # After: the rest of a sentence; the same unless the line has small letters alone;
    # the same in form, but not the rest of one.
    rest: str
    small_rest: str
    no_rest: str


@functools.lru_cache(maxsize=64)
def rules_of(language: str) -> Rules:
    """Return the rules of a language.

    Args:
        language: Code such as "de", "pt-BR", "en_XX" or "deu_Latn"; without rules of
            its own, as "": abbreviations and beginnings of all languages.
    """
    code = regex.split("[-_]", language)[0].lower()
    known = _SAME.get(code, code)
    languages = sure = {"", known}
    if not known or not any(
        known in table for table in (_WITHIN, _BEGINNINGS, _ATTRIBUTION)
    ):
        # "ok." is an abbreviation in Polish only, so before "The" it ends a sentence.
        languages = {*_WITHIN, *_BEGINNINGS, *_ATTRIBUTION}
    before = f"(?:.* )?{_OPENING}(?:[\\p{{L}}]{{1,2}}['’])?"
    number = r"(?:[\p{Nd}]{1,2}|[IVX]+)\."
    # Greek asks with a semicolon. Thai and Lao have no full stop.
    ends = f"{ENDS}{';' if known == 'el' else ''}"
    return Rules(
        end=f".*[{ends}{_WIDE_ENDS}][{CLOSING}{_WIDE_CLOSING}\u00a0\u202f ]*"
        rf"(?:\[[\p{{Nd}}a-z]{{1,3}}\]|[\p{{So}}])*",
        wide_end=f".*[{_WIDE_ENDS}][{_WIDE_CLOSING}]*",
        quotation=f".*[{ends}{_WIDE_ENDS}][{CLOSING}{_WIDE_CLOSING}]*[{_QUOTES}]",
        attribution=f"(?:{_joined(_ATTRIBUTION, languages)})(?: .*)?",
        within=f"{before}(?:{_words(_WITHIN, sure)})\\.|.*[\u0e00-\u0eff]\\.",
        before_number=f"{before}(?:{_words(_BEFORE_NUMBER, languages)})\\."
        rf"|{_OPENING}[\p{{L}}]+str\.",
        number=rf"{_OPENING}(?:[\p{{Nd}}].*|(?:[VX]|[IVXLC]{{2,}})(?:[^\p{{L}}].*)?)",
        unclear=rf"{before}(?:[\p{{L}}]|[\p{{Lu}}]\.-[\p{{Lu}}]|(?:[\p{{L}}]\.)+[\p{{Lu}}]"
        f"|{_words(_UNCLEAR, languages)}|{_words(_WITHIN, languages - sure)})\\.",
        clear=f"{before}(?:{_words(_CLEAR, languages)})\\.",
        beginning=f"{_OPENING}(?:{_words(_BEGINNINGS, languages)})(?:[ ,:;'’!?].*)?",
        ordinal={"ko": r"[\p{Nd}]+\."}.get(
            known, _OPENING + number if known in _ORDINAL_LANGUAGES else _NEVER
        ),
        any_ordinal=_OPENING + number,
        counted=rf"(?:[\p{{Nd}}]{{1,2}}\. [\p{{Nd}}]|{_words(_COUNTED, languages)})"
        r"(?:[^\p{L}].*)?",
        dots=f".*(?:…|\\.\\.)[{CLOSING}]*",
        bare_dots="[.…]+",
        capital=rf"{_OPENING}[\p{{Lu}}].*",
        first_person="I(?:['’ ].*)?",
        rest=r"[,;:)\]»].*",
        small_rest=rf"(?:[-‒–—―]+ )?{_OPENING}[\p{{Ll}}](?:[^\p{{Lu}}].*)?",
        # Dutch "’s Avonds".
        no_rest=r"['’‘][\p{Ll}] [\p{Lu}].*",
    )


def ends(
    is_like: Callable[[str, Any], Any],
    rules: Rules,
    before: Any,
    words: Any,
    after: Any,
    has_space: Any,
    has_capitals: Any,
) -> Any:
    """Return which words end a sentence.

    Args:
        is_like: Takes a regular expression and texts; returns an array or a tensor of
            bools: whether it matches each text as a whole.
        rules: Those of the language.
        before: The word before each in its line, "" for none.
        words: Words that `rules.end` matches.
        after: The next three words of the line, with a space between them.
        has_space: Bools: whether there is a space after each word.
        has_capitals: Bools: whether the line of each word has a capital letter.
    """
    context = before + " " + words
    is_beginning = is_like(rules.beginning, after)
    is_ordinal = is_like(rules.ordinal, words) & ~is_beginning
    is_ordinal |= is_like(rules.any_ordinal, words) & is_like(rules.counted, after)
    is_unclear = is_like(rules.unclear, context) & ~is_like(rules.clear, context)
    is_abbreviation = (
        is_like(rules.within, context)
        | (is_like(rules.before_number, words) & is_like(rules.number, after))
        | (is_unclear & ~is_beginning)
    )
    is_bare = is_like(rules.bare_dots, words)
    is_bare &= ~is_beginning | is_like(rules.first_person, after)
    is_pause = is_bare | (is_like(rules.dots, words) & ~is_like(rules.capital, after))
    is_rest = is_like(rules.small_rest, after) & has_capitals
    is_rest &= ~is_like(rules.no_rest, after)
    is_rest |= is_like(rules.rest, after)
    is_attributed = is_like(rules.quotation, words) & ~is_beginning
    is_attributed &= is_like(rules.attribution, after)
    goes_on = is_abbreviation | is_ordinal | is_pause | is_rest
    is_wide = is_like(rules.wide_end, words)
    return (is_wide | (has_space & ~goes_on)) & ~is_attributed


def is_bullet(
    is_like: Callable[[str, Any], Any], rules: Rules, words: Any, after: Any
) -> Any:
    """Return which words are signs of a list if they begin a line before a space."""
    is_date = is_like(_NUMBER_BULLET, words) & is_like(rules.counted, after)
    return is_like(BULLET, words) & ~is_date


@functools.cache
def compiled(pattern: str) -> regex.Pattern:
    """Return a regular expression of this table for Python."""
    return regex.compile(pattern, regex.DOTALL)


def _joined(table: Mapping[str, str], languages: Iterable[str]) -> str:
    """Return the expressions that a table has for languages, as alternatives."""
    return (
        "|".join(table[code] for code in sorted(languages) if code in table) or _NEVER
    )


def _words(table: Mapping[str, str], languages: Iterable[str]) -> str:
    """Return the words that a table has for languages, as alternatives."""
    words = sorted({word for code in languages for word in table.get(code, "").split()})
    both = [
        f"[{word[0].upper()}{word[0]}]{word[1:]}" if word[0].islower() else word
        for word in words
    ]
    return "|".join(both).replace(".", r"\. ?") or _NEVER
