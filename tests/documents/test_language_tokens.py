"""Language tokens in documents: before each sentence of the text, never around it."""

import pytest
import tensorflow as tf

from keras_transformer.documents import graph_text, text, web_page
from keras_transformer.documents.protection import Protection, Term

TOKENS = (">>de<<", ">>zh_Hans<<")
# A text, what is translated, and the text with "x" in the place of each translation.
TEXTS = [
    (">>de<< 5 the dog runs.", [">>de<< 5 the dog runs."], "x"),
    (">>de<<5 the dog runs.", [">>de<< 5 the dog runs."], "x"),
    (">>de<< One. Two.", [">>de<< One.", ">>de<< Two."], "x x"),
    (">>de<< One.\n\nTwo.\n", [">>de<< One.", ">>de<< Two."], "x\n\nx\n"),
    (">>de<<\nOne.", [">>de<< One."], "\nx"),
    ("One.\n>>de<< Two.", ["One.", ">>de<< Two."], "x\nx"),
    (
        ">>de<< One.\n>>zh_Hans<< Two. Three.",
        [">>de<< One.", ">>zh_Hans<< Two.", ">>zh_Hans<< Three."],
        "x\nx x",
    ),
    (">>de<< - One.\n- Two.", [">>de<< One.", ">>de<< Two."], "- x\n- x"),
    ("- >>de<< One.", [">>de<< One."], "- x"),
    ("> >>de<< One.", [">>de<< One."], "> x"),
    (">>de<< > One.\n>> Two.", [">>de<< One.", ">>de<< Two."], "> x\n>> x"),
    (">>>>de<< One. Two.", [">>de<< One.", ">>de<< Two."], ">>x x"),
    ("3. >>de<< One.", [">>de<< One."], "3. x"),
    (">>de<< 3. One.", [">>de<< One."], "3. x"),
    ("  >>de<<\u00a0One.", [">>de<< One."], "  x"),
    (">>de<<", [], ""),
    (">>de<< \n", [], "\n"),
    (">> One.", ["One."], ">> x"),
    (">One.", ["One."], ">x"),
    ("A >>de<< One.", ["A >>de<< One."], "x"),
    (">>zz<< One. Two.", [">>zz<< One.", "Two."], "x x"),
    (
        ">>de<< One. >>zh_Hans<< Two. Three.",
        [">>de<< One.", ">>zh_Hans<< Two.", ">>de<< Three."],
        "x x x",
    ),
    (
        "One.\t>>de<< Two. Three.\t>>zh_Hans<<\t- Four.\r\n",
        ["One.", ">>de<< Two.", ">>de<< Three.", ">>zh_Hans<< Four."],
        "x\tx x\t\t- x\r\n",
    ),
    (">>de<< One.\n>>zz<< Two.", [">>de<< One.", ">>zz<< Two."], "x\nx"),
]


@pytest.mark.parametrize(("given", "sentences", "joined"), TEXTS)
def test_each_sentence_has_the_token_before_it(given, sentences, joined):
    document = text.segment(given, "en", tokens=TOKENS)
    assert list(document.texts()) == sentences
    assert document.join(["x"] * len(sentences)) == joined


def test_the_graph_finds_the_same():
    """All in one batch: the language of one text is not that of the next."""
    pieces = graph_text.segment(tf.constant([row[0] for row in TEXTS]), "en", TOKENS)
    found = [sentence.decode() for sentence in pieces.sentences().numpy()]
    assert found == [sentence for row in TEXTS for sentence in row[1]]
    translations = tf.fill([len(found)], "x")
    joined = graph_text.join(pieces, translations, tf.constant(len(TEXTS), tf.int64))
    assert [row.decode() for row in joined.numpy()] == [row[2] for row in TEXTS]


@pytest.mark.parametrize(("given", "sentences", "joined"), TEXTS)
def test_lines_one_by_one_are_the_text(given, sentences, joined):
    lines = given.splitlines(keepends=True)
    documents = [
        text.segment(line, "en", tokens=TOKENS, token=token)
        for line, token in text.with_tokens(lines, TOKENS)
    ]
    assert [each for document in documents for each in document.texts()] == sentences
    found = [document.join(["x"] * len(document.texts())) for document in documents]
    assert "".join(found) == joined


@pytest.mark.parametrize(
    ("page", "sentences", "joined"),
    [
        ("<p>>>de<< 5 dogs.</p>", [">>de<< 5 dogs."], "<p>x</p>"),
        (
            "<p>&gt;&gt;de&lt;&lt; One. Two.<p>Three.",
            [">>de<< One.", ">>de<< Two.", ">>de<< Three."],
            "<p>x x<p>x",
        ),
        (
            ">>de<<<h1>One</h1><ul><li>>>zh_Hans<< Two.</ul>",
            [">>de<< One", ">>zh_Hans<< Two."],
            "<h1>x</h1><ul><li>x</ul>",
        ),
        ("<p><b>>>de<<</b> One.</p>", [">>de<< One."], "<p><b></b> x</p>"),
        ("<p>One.<p> >>de<<\n<b>Two.</b>", ["One.", ">>de<< Two."], "<p>x<p> <b>x</b>"),
        ("<p>>>zz<< One.", [">>zz<< One."], "<p>x"),
        ("<p>>>de<<</p>", [], "<p></p>"),
    ],
)
def test_a_page_has_no_token_in_its_translation(page, sentences, joined):
    document = web_page.segment(page, "en", tokens=TOKENS)
    assert list(document.texts()) == sentences
    assert document.join(["x"] * len(sentences)) == joined


def test_the_token_of_a_request_is_that_of_sentences_without():
    options = {"tokens": TOKENS, "token": ">>zh_Hans<<"}
    document = text.segment("One.\n>>de<< Two.", "en", **options)
    assert document.texts() == (">>zh_Hans<< One.", ">>de<< Two.")
    page = web_page.segment("<p>One.<p>>>de<< Two.", "en", **options)
    assert page.texts() == document.texts()


def test_both_parts_of_a_sentence_have_its_token():
    found = text.divide(">>de<< one two three four", TOKENS)
    assert found[:] == (">>de<< one two", " ", ">>de<< three four")
    assert text.divide(">>de<< a", TOKENS) is None
    pieces, is_cut = graph_text.divide_long(
        graph_text.segment(tf.constant([">>de<< one two three four"]), "en", TOKENS),
        lambda sentences: tf.strings.length(sentences) > 15,
        TOKENS,
    )
    assert pieces.sentences().numpy().tolist() == [
        b">>de<< one two",
        b">>de<< three",
        b">>de<< four",
    ]
    assert not any(is_cut.numpy())


def test_nothing_of_a_token_is_protected():
    terms = [Term("de", "DE"), Term("dog", "Hund")]
    for placeholders, expected in (((), ">>de<< A dog."), (("<ph1>",), "A <ph1>.")):
        protection = Protection(["tags"], terms).with_placeholders(placeholders, TOKENS)
        protected = protection.protect(">>de<< A dog.")
        assert [span.original for span in protected.spans] == ["dog"]
        assert protected.text.endswith(expected)
        assert protected.text.startswith(">>de<< ")
