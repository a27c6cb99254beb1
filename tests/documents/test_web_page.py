"""Text of web pages is translated in the source; everything else stays."""

import pathlib
import time

import hypothesis
import justhtml
import pytest
from hypothesis import strategies
from lxml import etree

from keras_transformer.documents import web_page

FOLDER = pathlib.Path(__file__).parent / "pages"
PAGES = ("article", "shop", "manual", "table", "old")
# What pages are made of, whole and damaged.
MARKUP = (
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<li>",
    "<td>",
    "<table>",
    "<title>",
    "</title>",
)
MARKUP += (
    "<a href='",
    "'",
    '"',
    "<",
    ">",
    "</",
    "<!",
    "<?",
    "<!--",
    "-->",
    "<![x",
    "]>",
)
MARKUP += (
    "<script>",
    "</script>",
    "<textarea>",
    "<pre",
    "<svg/>",
    "x=1",
    "Hello. ",
    "a",
)
MARKUP += ("&amp;", "&", "&nbsp", "&#65;", "\0", " ", "\n", "\r\n", "<br>", "<!x>", "é")


def read(repository, name):
    path = repository / "tests" / "documents" / "pages" / f"{name}.html"
    return path.read_bytes().decode()


def lxml_outline(page):
    """Return the tree of a page without its texts, as libxml2 reads it."""
    root = etree.fromstring(page.encode(), etree.HTMLParser(encoding="utf-8"))
    tree = root.getroottree()
    nodes = [
        (event, node.tag, dict(node.attrib), node.text if event == "comment" else "")
        for event, node in etree.iterwalk(tree, events=("start", "end", "comment"))
    ]
    return tree.docinfo.doctype, nodes


def outline(page):
    """Return the tree of a page without its texts, as HTML5 says."""
    found = []
    stack = [justhtml.JustHTML(page, sanitize=False, scripting_enabled=False).root]
    while stack:
        node = stack.pop()
        if node is None:
            found.append("end")
        elif node.name == "#comment":
            found.append(node.data)
        elif node.name != "#text":
            found.append((node.name, node.attrs))
            stack += [None, *(node.children or [])[::-1]]
    return found


def with_loud_text(page):
    """Return a page in which each sentence has other and dangerous text."""
    document = web_page.segment(page, "en")
    return document.join([f"<b>{text.upper()} &amp;" for text in document.texts()])


@pytest.mark.parametrize("name", PAGES)
def test_the_tree_of_a_page_is_the_same_without_its_texts(repository, name):
    page = read(repository, name)
    document = web_page.segment(page, "en")
    assert document.join(document.texts()) == page
    assert len(document.texts()) >= 8
    loud = with_loud_text(page)
    assert loud.count("&lt;b&gt;") == len(document.texts())
    assert lxml_outline(loud) == lxml_outline(page)
    assert outline(loud) == outline(page)


@pytest.mark.parametrize(
    ("name", "expected", "skipped"),
    [
        (
            "article",
            ["A bridge for Millbrook – Valley News", "Dr. Ellen", "Price"]
            + ["the mayor, opened the bridge at 9 a.m. on Monday."]
            + ["“We waited for ten years,” she said.", "It is safe & wide."],
            ["sentence", "Hello", "header", "Valley News, Mill", "old", "gets"],
        ),
        (
            "shop",
            ["How many?", "Small", "Large box", "Buy now", "Black tea", "loose"]
            + ["in stock", "5 < 6 and 7 > 2, so buy two.", "Free over £20!"],
            ["Write", "Only", "Assam", "SKU", "A cup", "Number"],
        ),
        (
            "manual",
            ["How to install", "Run", "in a shell.", "Press", "It takes a second."]
            + ["Please switch scripts on.", "Do", "not", "ever", "unplug it."],
            ["pip", "Enter", "Usage", "dot", "x"],
        ),
        (
            "table",
            ["Trains", "This text is outside of its table.", "Runs daily.", "No dogs."]
            + [
                "2 b",
                "Only on Sundays",
                "Bold",
                "and italic",
                "or only italic",
                "text.",
            ]
            + ["The end &ersand; © €5 &unknown; is near."],
            ["Times of", "holidays"],
        ),
        (
            "old",
            ["Welcome to my page!", "This page was made in 1996.", "guest book"]
            + ["You are visitor", "of this page.", "Mail me: me@example.org"],
            ["here", "frames", "comment", "Not bold", "number"],
        ),
    ],
)
def test_texts_of_a_page_are_found(repository, name, expected, skipped):
    texts = web_page.segment(read(repository, name), "en").texts()
    assert [text for text in expected if text not in texts] == []
    assert [part for part in skipped if any(part in text for text in texts)] == []


def test_entities_stay_where_the_text_does():
    page = "<p>Tom &amp; Jerry.&nbsp;&#160;&lt;Hi&gt;&#33; Sunny&hellip;"
    document = web_page.segment(page, "en")
    assert document.texts() == ("Tom & Jerry.", "<Hi>!", "Sunny…")
    assert document.join(["A & B", "<Hi>!", ""]) == (
        "<p>A &amp; B&nbsp;&#160;&lt;Hi&gt;&#33; Sunny&hellip;"
    )


def test_punctuation_after_an_element_stays_beside_it():
    page = "<p>In <a>Rome</a>, <i>he said</i>; (see <b>me</b>)!</p>"
    document = web_page.segment(page, "en")
    assert document.texts() == ("In", "Rome", "he said", "(see", "me")
    assert document.join(["A", "B", "C", "(D", "E"]) == (
        "<p>A <a>B</a>, <i>C</i>; (D <b>E</b>)!</p>"
    )


WITH_TAGS = [
    ("<p>Click <b>here</b> now.</p>", "Click <b>here</b> now."),
    ("<p><b>Click</b> here.</p>", "<b>Click</b> here."),
    ("<p>Go on <i class='a  b'>here</i></p>", "Go on <i class='a  b'>here</i>"),
    ("<p><a href=x><b>A</b> b</a></p>", "<b>A</b> b"),
    ("<p>One\n  <b>two\n </b>  &amp; three.</p>", "One <b>two </b>& three."),
]


@pytest.mark.parametrize(("page", "sentence"), WITH_TAGS)
def test_pairs_of_tags_stay_in_their_sentence(page, sentence):
    document = web_page.segment(page, "en", max_tag_pairs=4)
    assert document.texts() == (sentence,)
    assert document.join([sentence]) == page


@pytest.mark.parametrize(
    ("page", "max_tag_pairs"),
    [
        ("<p>Click <b>here</b> now.</p>", 0),
        ("<p>Click <b>here</b> or <i>there</i>.</p>", 1),
        ("<p>Click <img src=x> now.</p>", 4),
        ("<p>Click <b>here</p><p>Now</b> go.</p>", 4),
        ("<p>Click <b><i>here</b> now</i>.</p>", 4),
        ("<p>Run <code>pip</code> now.</p>", 4),
        ("<p>Run <svg></svg> now.</p>", 4),
        ("<p>Say &lt;b&gt; or <b>this</b>.</p>", 4),
        ("<p>Say <!-- a --> or <b>this</b>.</p>", 4),
        ("<p>Say <a title='>'>this</a> now.</p>", 4),
    ],
)
def test_other_tags_divide_a_sentence(page, max_tag_pairs):
    document = web_page.segment(page, "en", max_tag_pairs=max_tag_pairs)
    assert document.texts() == web_page.segment(page, "en").texts()
    assert len(document.texts()) > 1


def test_a_translation_may_move_tags():
    document = web_page.segment(
        "<p><b>Now</b> click <a href='x'>h&amp;m</a>. Go on.", "en", max_tag_pairs=4
    )
    assert document.texts() == (
        "<b>Now</b> click <a href='x'>h&m</a>.",
        "Go on.",
    )
    assert document.join(["<a href='x'>H&M</a> <b>jetzt</b> <i>.", "Weiter."]) == (
        "<p><a href='x'>H&amp;M</a> <b>jetzt</b> &lt;i&gt;. Weiter."
    )


@pytest.mark.parametrize(
    "translation",
    ["Klick hier.", "Klick <b>hier.", "</b>Klick<b> hier.", "<b>a</b><b></b>"],
)
def test_tags_that_a_translation_lacks_follow_it(translation):
    page = "<p>Click <b>here</b>."
    document = web_page.segment(page, "en", max_tag_pairs=4)
    joined = document.join([translation])
    assert joined.endswith("<b></b>")
    assert outline(joined) == outline(page)


def test_long_sentences_with_tags_are_divided():
    page = f"<p>{'word, ' * 40}<b>end</b>."
    document = web_page.segment(page, "en", max_tokens=5, max_tag_pairs=4)
    assert all("<" not in text for text in document.texts())


def test_line_ends_and_bytes_around_stay():
    page = "\ufeff<p>\r\n  One\r\n  two.\r\n</p>\r\n"
    document = web_page.segment(page, "en")
    assert document.texts() == ("One two.",)
    assert document.join(["Eins"]) == "\ufeff<p>\r\n  Eins\r\n</p>\r\n"


def test_long_sentences_of_pages_are_divided():
    document = web_page.segment(f"<p>{'word, ' * 40}end.", "en", max_tokens=5)
    assert all(len(text) <= 40 for text in document.texts())
    assert len(document.texts()) > 5


def test_a_deep_page_is_read():
    page = "<b>" * 5000 + "Hello."
    assert web_page.segment(page, "en").texts() == ("Hello.",)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<p><![if !supportLists]><b>·</b><![endif]>One dog. Two</p>",
            "<p><![if !supportLists]><b>·</b><![endif]>ONE DOG. TWO</p>",
        ),
        ("<p>Dear <?= $a->b ?>, one <b>x", "<p>DEAR <?= $a->b ?>, ONE <b>X"),
        ("<p>a<!DOCTYPE &amp;>b</ c>d", "<p>A<!DOCTYPE &amp;>B</ c>D"),
        ("<p>a <?= '<b>' ?> b", "<p>A <?= '<b>' ?> b"),
        ("<p>a <!-- b> c", "<p>A <!-- b> c"),
    ],
)
def test_text_beside_odd_comments_and_programs_is_translated(page, expected):
    """But not within them."""
    document = web_page.segment(page, "en")
    assert document.join([text.upper() for text in document.texts()]) == expected


def test_pages_have_a_translation_for_each_sentence():
    with pytest.raises(ValueError, match="one item for each of .* 0 for 1"):
        web_page.segment("<p>One.", "en").join([])


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.given(strategies.lists(strategies.sampled_from(MARKUP)).map("".join))
def test_damaged_pages_keep_their_tree(page):
    document = web_page.segment(page, "en")
    assert document.join(document.texts()) == page
    assert outline(with_loud_text(page)) == outline(page)
    kept = web_page.segment(page, "en", max_tag_pairs=4)
    assert kept.join(kept.texts()) == page
    lost = kept.join([f"{text.upper()} x" for text in kept.texts()])
    assert outline(lost) == outline(page)


@hypothesis.given(
    strategies.text() | strategies.text(alphabet="<>&;#aA1/!- '\"\r\n\ud83d")
)
def test_any_text_is_a_page(page):
    document = web_page.segment(page, "en")
    assert document.join(document.texts()) == page


HOSTILE = {
    "in paragraphs": "<b a=#><p>x",
    "upper case": "<FONT A=#><P>x",
    "quoted": '<i a="#"><p>x',
    "ends in attributes": '<i a="#>x</i>"><p>x',
    "ends in the wrong quotes": "<i a=x\" b='y#\">z</i>'><p>x",
    "ends in comments": "<u a=#><p>x<!--</u>-->",
    "ends in scripts": "<s a=#><p>x<script></s></script>",
    "ends out of scope": "<tt a=#><svg><desc></tt></svg><p>x",
    "nobr out of scope": "<nobr a=#><svg><desc><p>x",
    "in foreign elements": "<svg><p><b a=#>",
    "ends that move": "<em a=#><div></em>x",
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=HOSTILE)
def test_what_a_parser_repeats_is_counted_before_it_does(part):
    page = "".join(part.replace("#", str(number)) for number in range(2000))
    assert web_page.num_repeated(page) > 5_000_000


@pytest.mark.parametrize(
    "page",
    [
        *(path.read_text("utf-8") for path in FOLDER.glob("*.html")),
        "<ul>" + "".join(f"<li><i class='icon-{n}'></i> A" for n in range(2000)),
        "".join(f"<p><b id={n}>A dog</b> runs.</p>" for n in range(2000)),
        "".join(f"<p><a href={n}>A dog <p>" for n in range(2000)),
        "<table>" + "<tr><td><font size=2>A <b>dog" * 2000,
    ],
)
def test_pages_as_people_write_them_repeat_little(page):
    assert web_page.num_repeated(page) < 100_000


@pytest.mark.parametrize("part", ["<b", "<b ", "<b a='", "<b a=", "<b>x", "<b a "])
def test_what_a_parser_repeats_is_counted_in_linear_time(part):
    began = time.process_time()
    web_page.num_repeated(part * 200_000 + " " * 100_000)
    assert time.process_time() - began < 3
