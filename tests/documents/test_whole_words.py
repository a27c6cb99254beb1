"""A model reads whole words, whatever tags and invisible characters are in them."""

import random
import re
import time

import pytest
import tensorflow as tf

from keras_transformer import spans, white_space
from keras_transformer.config import PairEncoding
from keras_transformer.documents import graph_text, web_page
from keras_transformer.documents.protection import Protection, Term
from keras_transformer.translation import pipeline
from tests.documents.test_web_page import outline

SYMBOLS = PairEncoding(placeholders=16).symbols
NOTHING = Protection()
TAGS = Protection(["tags"], (), SYMBOLS)


def loud(text):
    """Write a text in capitals, but for its placeholders."""
    parts = re.split(r"(</?p[hc]\d+>)", text)
    return "".join(
        part if number % 2 else part.upper() for number, part in enumerate(parts)
    )


def translated(text, protection=NOTHING, **options):
    """Return a loud text or page, and what a model was asked."""
    asked = []

    def ask(texts):
        asked.extend(each.text for each in texts)
        return [pipeline.Translation(loud(each.text), 0.0, False, ()) for each in texts]

    options = pipeline.Options(protection, language="en", **options)
    document = pipeline.segment(text, options)
    assert document.join(document.texts()) == text
    found = pipeline.run(pipeline.translate(document.texts(), options), ask)
    return document.join([each.text for each in found]), asked


# Their joiners are spelling.
PERSIAN, HINDI = "\u0645\u06cc\u200c\u0631\u0648", "\u0915\u094d\u200d\u0937"
ASTRONAUT = "\U0001f469\u200d\U0001f680"
# Pages; what a model without placeholders is asked; what becomes of the page.
PAGES = {
    "a capital": (
        "<p>The <b>W</b>ord is old.",
        ["The", "Word", "is old."],
        "<p>THE <b>WORD</b> IS OLD.",
    ),
    "the middle of a word": (
        "<p>An un<i>believ</i>able thing.</p>",
        ["An", "unbelievable", "thing."],
        "<p>AN <i>UNBELIEVABLE</i> THING.</p>",
    ),
    "the end of a word": (
        "<p>Two <a href=x>dog</a>s run.",
        ["Two", "dogs", "run."],
        "<p>TWO <a href=x>DOGS</a> RUN.",
    ),
    "an element from within a word": (
        "<p>Go to<em>day or</em> not.",
        ["Go", "today or", "not."],
        "<p>GO <em>TODAY OR</em> NOT.",
    ),
    "a place for a line break": (
        "<p>A super<wbr>cali dog.",
        ["A supercali dog."],
        "<p>A SUPERCALI DOG.<wbr>",
    ),
    "a path": (
        "<p>See <a href=x>/etc/<wbr>host<wbr>s</a> now.",
        ["See", "/etc/hosts", "now."],
        "<p>SEE <a href=x>/ETC/HOSTS<wbr><wbr></a> NOW.",
    ),
    "a soft hyphen": (
        "<p>Donau&shy;dampf&#173;schiff\u00adfahrt!",
        ["Donaudampfschifffahrt!"],
        "<p>DONAUDAMPFSCHIFFFAHRT!",
    ),
    "zero width": (
        "<p>A\u200bb&ZeroWidthSpace;c \u2060d\u2060e&#xfeff;f g\u200ch i&zwj;j.",
        ["Abc def gh ij."],
        "<p>ABC DEF GH IJ.",
    ),
    "direction": (
        "<p>The d\u200eo&rlm;g of \u2068Anna\u2069 runs far.",
        ["The dog of \u2068Anna\u2069 runs far."],
        "<p>THE DOG OF \u2068ANNA\u2069 RUNS FAR.",
    ),
    "joiners as spelling": (
        f"<p>{PERSIAN} {HINDI} a {ASTRONAUT}.",
        [f"{PERSIAN} {HINDI} a {ASTRONAUT}."],
        f"<p>{PERSIAN} {HINDI} A {ASTRONAUT}.",
    ),
    "each letter": (
        "<p><span>D</span><span class=x>o</span><span>g</span>s run.",
        ["Dogs", "run."],
        "<p><span>DOGS</span><span class=x></span><span></span> RUN.",
    ),
    "nested": (
        "<p>a<b>b<i>c</i></b>d e.",
        ["abcd", "e."],
        "<p><b><i>ABCD</i></b> E.",
    ),
    "empty": (
        "<p>do<b></b>g <i></i>run<i><u></u></i>s.",
        ["dog", "runs"],
        "<p><b>DOG</b> <i></i><i><u>RUNS</u></i>.",
    ),
    "ruby": (
        "<p>A <ruby>\u6f22<rp>(</rp><rt>kan</rt><rp>)</rp>\u5b57<rt>ji</rt></ruby> b.",
        ["A", "\u6f22\u5b57", "b."],
        "<p>A <ruby>\u6f22<rp>(</rp><rt>kan</rt><rp>)</rp>\u5b57<rt>ji</rt></ruby> B.",
    ),
    "ruby of a Latin word": (
        "<p><ruby>do<rt>a</rt>g<rt>b</rt></ruby>s run.",
        ["dogs", "run."],
        "<p><ruby>DOGS<rt>a</rt><rt>b</rt></ruby> RUN.",
    ),
    "a line break": (
        "<p>One<br>two <b>three<br>f</b>our.",
        ["One", "two", "three", "four"],
        "<p>ONE<br>TWO <b>THREE<br>FOUR</b>.",
    ),
    "comments": (
        "<p>A d<!-- <b> -->o<!---->g ru<!--x--><i>n</i>s.",
        ["A dog", "runs"],
        "<p>A DOG<!-- <b> --><!----> RUNS<!--x--><i></i>.",
    ),
    "apostrophes": (
        "<p><a href=x>Rome</a>'s and <b>Ann</b>\u2019s, d'<i>or</i>.",
        ["Rome's", "and", "Ann\u2019s", "d'", "or"],
        "<p><a href=x>ROME'S</a> AND <b>ANN\u2019S</b>, D'<i>OR</i>.",
    ),
    "links side by side": (
        "<p><a href=x>H</a>ome<a href=y>Page</a><a>Help</a> <del>a</del><ins>b</ins>.",
        ["Home", "Page", "Help", "a", "b"],
        "<p><a href=x>HOME</a><a href=y>PAGE</a><a>HELP</a> <del>A</del><ins>B</ins>.",
    ),
    "numbers above and below": (
        "<p>Dogs<sup>12</sup> and m<sub>x</sub>n of M<sup>me</sup> X<sup>a</sup>.",
        ["Dogs", "and m", "x", "n of M", "me", "X", "a"],
        "<p>DOGS<sup>12</sup> AND M<sub>X</sub>N OF M<sup>ME</sup> X<sup>A</sup>.",
    ),
    "elements side by side": (
        "<p><span>Home</span><span>News</span> <b>Ann</b><!-- --><i>Lee</i> "
        "<span>3</span><span>comments</span>",
        ["Home", "News", "Ann", "Lee", "comments"],
        "<p><span>HOME</span><span>NEWS</span> <b>ANN</b><!-- --><i>LEE</i> "
        "<span>3</span><span>COMMENTS</span>",
    ),
    "signs of pictures": (
        "<p>\u26a0\ufe0f<b>Stop</b>: \u00a9\ufe0f<a>it</a> 1\ufe0f\u20e3<b>One</b>.",
        ["Stop", "it", "One"],
        "<p>\u26a0\ufe0f<b>STOP</b>: \u00a9\ufe0f<a>IT</a> 1\ufe0f\u20e3<b>ONE</b>.",
    ),
    "ampersands": (
        "<p>Our R&D<i>ept</i> of M&S<a href=x>hops</a> a&nvlt;b<b>c</b> &D<b>og</b>.",
        ["Our R&", "Dept", "of M&", "Shops", "a<\u20d2", "bc", "Dog"],
        "<p>OUR R&amp;<i>DEPT</i> OF M&amp;<a href=x>SHOPS</a> A&lt;\u20d2<b>BC</b> "
        "&<b>DOG</b>.",
    ),
    "all at once, and odd attributes": (
        "<P>D\u00ad<B title='>' ID=\"a'\"\n>o<!-- > -->\u200b</B ><wbr>g\ns  run",
        ["Dog", "s run"],
        "<P><B title='>' ID=\"a'\"\n>DOG<!-- > --></B ><wbr>\nS RUN",
    ),
}


@pytest.mark.parametrize(("page", "asked", "expected"), PAGES.values(), ids=PAGES)
def test_words_of_pages_are_whole(page, asked, expected):
    found, texts = translated(page, format="html")
    assert texts == asked
    assert found == expected
    assert outline(found) == outline(page)


@pytest.mark.parametrize("name", PAGES)
def test_words_of_pages_that_keep_their_tags_are_whole(name):
    page, expected, _ = PAGES[name]
    found, asked = translated(page, TAGS, format="html")
    assert outline(found) == outline(page)
    words = re.sub(r"</?p[hc]\d+>", "", " ".join(asked))
    assert [word for word in " ".join(expected).split() if word not in words] == []


@pytest.mark.parametrize(
    "text", ["if a<b and c>d then x", "x<i>y and p<q>r", "a vector<a>list and Map<b>s"]
)
def test_what_only_looks_like_a_tag_stays_in_its_place(text):
    found, _ = translated(text, TAGS)
    tags = re.findall("<[^>]*>", text)
    assert re.split("<[^>]*>", found) == re.split("<[^>]*>", text.upper())
    assert re.findall("<[^>]*>", found) == tags


def test_words_keep_the_tags_of_a_text_beside_them():
    found, asked = translated("An un<i>believ</i>able <b>W</b>ord.", TAGS)
    assert asked == ["An <pc1>unbelievable</pc1> <pc2>Word</pc2>."]
    assert found == "AN <i>UNBELIEVABLE</i> <b>WORD</b>."


def test_a_page_without_another_translation_keeps_its_soft_hyphens():
    document = web_page.segment("<p>Donau&shy;dampf fährt.", "de")
    assert document.join(["Donaudampf fährt."]) == "<p>Donau&shy;dampf fährt."
    assert document.join(["It moves."]) == "<p>It moves."


def test_a_tree_that_its_tags_do_not_show_stays():
    """A parser repeats <i> for the second text, so that there must be one."""
    page = "<p><b><i>W</b>ord</i>"
    found, asked = translated(page, format="html")
    assert (found, asked) == ("<p><b><i>W</b>ORD</i>", ["W", "ord"])


WORDS = (
    "dog",
    "Donaudampf",
    "unglaublich",
    "stra\u00dfe",
    "\u043c\u0438\u0440",
    "cafe\u0301",
)
WORDS += (
    "\ud55c\uad6d\uc5b4",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0915\u094d\u0937",
    "don't",
)
HIDDEN = ("\u00ad", "&shy;", "\u200b", "&#8203;", "\u2060", "\ufeff", "\u200e", "&rlm;")
VOID = (
    "<wbr>",
    "<!-- a < b -->",
    "<b></b>",
    "<i class=x><u></u></i>",
    "<span/></span>",
)
NAMES = ("b", "i", "span", "em", "mark", "u", "font")


def random_word(random, word):
    """Return the source of a word with elements and invisible characters in it."""
    source, opened = "", []
    for number, letter in enumerate(word):
        has_closed = False  # two elements side by side may be two words
        if number and word[number - 1] != "'":
            source += random.choice(HIDDEN) * (random.random() < 0.2)
            while opened and random.random() < 0.4:
                source += f"</{opened.pop()}>"
                has_closed = True
            source += random.choice(VOID) * (random.random() < 0.15)
        may_open = not has_closed and (not number or word[number - 1] != "'")
        if may_open and random.random() < 0.2:
            opened.append(random.choice(NAMES))
            source += f"<{opened[-1]}>"
        source += letter
    return source + "".join(f"</{name}>" for name in reversed(opened))


def random_page(random):
    """Return a page, and its words in order."""
    page, words = "", []
    for _ in range(random.randint(1, 3)):
        chosen = random.choices(WORDS, k=random.randint(1, 6))
        sources = [random_word(random, word) for word in chosen]
        if len(sources) > 2 and random.random() < 0.5:
            sources[1], sources[-1] = f"<a href=x>{sources[1]}", f"{sources[-1]}</a>"
        page += f"<p>{' '.join(sources)}{random.choice(('', '.', '!'))}"
        page += random.choice(("</p>", "\n", "<br>"))
        words += chosen
    return page, words


@pytest.mark.parametrize("count", [200, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("protection", [NOTHING, TAGS], ids=["plain", "tags"])
def test_no_word_of_a_page_reaches_a_model_in_parts(count, protection):
    chosen = random.Random(7)
    for _ in range(count):
        page, words = random_page(chosen)
        found, asked = translated(page, protection, format="html")
        asked = " ".join(re.sub(r"(</?p[hc]\d+>)+", "", text) for text in asked)
        assert re.sub("[.!]", "", asked).split() == words, page
        assert outline(found) == outline(page), page


PARTS = (
    "&",
    "a",
    "B",
    ";",
    " ",
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "&amp;",
    "&nvlt;",
    "&#38",
)
PARTS += ("\u00ad", "\ufe0f", "\u0301", "<!---->", "<wbr>", "&shy;", "3", "'")


@pytest.mark.parametrize("protection", [NOTHING, TAGS], ids=["plain", "tags"])
def test_no_part_of_a_page_is_lost_or_doubled(protection):
    """`translated` joins the texts as they are, too."""
    chosen = random.Random(5)
    for _ in range(500):
        page = "<p>" + "".join(chosen.choices(PARTS, k=12))
        found, _ = translated(page, protection, format="html")
        assert outline(found) == outline(page), page


@pytest.mark.parametrize(
    "part", ["<i>a</i>", "a<wbr>", "a\u200b", "a<!-- a -->", "'<b>"]
)
def test_the_time_grows_with_the_length_of_a_word(part):
    page = "<p>" + part * 5000
    began = time.process_time()
    spans.tags_around_words(page * 4)
    white_space.without_invisible(page * 4)
    web_page.segment(page, "en")
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("un<i>believ</i>able dog", "<i>unbelievable</i> dog"),
        ("<b>W</b>ord", "<b>Word</b>"),
        ("to<em>day or</em> not", "<em>today or</em> not"),
        ("a<b>x</b>y<i>z</i>", "<b>axyz</b><i></i>"),
        ("super<wbr>cali dog", "supercali<wbr> dog"),
        ("man<br>and <img src=x>a<img src=x>b", None),
        ("a <b>dog</b>, <i>two</i> <b>", None),
        ("<a href=x>Home</a><a href=y>Help</a>", None),
        ("H<sub>2</sub>O and m<sup>2</sup>", None),
        ("a<x>b</x>", None),
        ("", None),
    ],
)
def test_tags_of_texts_are_beside_words(text, expected):
    found = spans.tags_around_words(text)
    assert found == (text if expected is None else expected)
    assert spans.tags_around_words(found) == found
    protected, asked = translated(text, TAGS)
    assert protected == re.sub("[^<>]+(?![^<]*>)", lambda part: part[0].upper(), found)
    assert not asked or spans.TAG.sub("", asked[0]) == spans.TAG.sub("", found)


# Kinds of invisible characters.
HYPHENS = [
    "Donau\u00addampf",
    "Do\u200bnau\u2060dampf",
    "\ufeffDonau\u200edampf\u200b",
    "Donau\u200cdampf",
]


@pytest.mark.parametrize("word", HYPHENS)
@pytest.mark.parametrize("options", [{}, {"format": "html"}], ids=["text", "html"])
def test_terms_and_numbers_are_found_among_invisible_characters(word, options):
    terms = [Term("Donaudampf", "Danube steam"), Term("Ya! Doo", None)]
    protection = Protection(["numbers", "urls"], terms, SYMBOLS)
    text = f"A {word} at 1\u2060234.5\u200b6 on www.a\u200b.de. The Y\u00ada! Doo."
    found, asked = translated(text, protection, **options)
    assert asked == ["A <ph1> at <ph2> on <ph3>.", "The <ph1>."]
    assert found == "A Danube steam AT 1234.56 ON www.a.de. THE Ya! Doo."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u00adb", "ab"),
        ("a\u200c\u00ad\u200db", "ab"),
        (" \u00ada\u200db\u200bc", " abc"),
        ("e\u0301\u200cx", "e\u0301x"),
        ("\u200f\u05d0\u200f.", "\u05d0."),
        ("\u17a2\u200b\u1780 a\u200b", "\u17a2\u200b\u1780 a"),  # Khmer's words
        ("a \u200b b", None),
        ("\u200b", None),
        ("\u06cc\u200c\u0645 \u0915\u094d\u200d\u0937", None),
        ("\U0001f469\u200d\U0001f680 \U0001f3f4\U000e0067\U000e007f", None),
        ("a b", None),
    ],
)
def test_invisible_characters_are_no_part_of_words(text, expected):
    expected = text if expected is None else expected
    assert white_space.without_invisible(text) == expected
    assert graph_text.without_invisible(tf.constant(text)).numpy().decode() == expected


UNDIVIDED = {
    "a term": ("We sued Jeopardy! Productions. It lost.", 2),
    "a term with a soft hyphen": ("We sued Jeop\u00adardy! Productions. It lost.", 2),
    "an attribute": ("A <a title='Stop! The end.' href=x>dog</a> ran. It won.", 2),
    "an address": ("See http://a.de/?Who!=Is.It?The=1 now. It won.", 2),
    "numbers": ("At 3.5 or 1.000.000,5 or 12.30 Dogs. It won.", 2),
}


@pytest.mark.parametrize(("text", "count"), UNDIVIDED.values(), ids=UNDIVIDED)
def test_no_sentence_ends_within_what_is_protected(text, count):
    terms = [Term("Jeopardy! Productions", None)]
    found, asked = translated(
        text, Protection(["tags", "urls", "numbers"], terms, SYMBOLS)
    )
    assert len(asked) == count
    for span in re.findall(r"<[^>]*>|http\S+|[\d.,]*\d", text):
        assert span in found
