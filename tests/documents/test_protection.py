"""What a translation must have, by placeholders and by the alignment of words."""

import pickle
import tracemalloc

import pytest

from keras_transformer.config import PairEncoding
from keras_transformer.documents import protection
from keras_transformer.documents.protection import Protection, Term

PLACEHOLDERS = PairEncoding(placeholders=8).symbols
GLOSSARY = (
    Term("dog", "Köter"),
    Term("hot dog", "Wurst"),
    Term("US", "USA", is_exact=True),
    Term("New York", None),
    Term("dine", "essen"),
)


def protect(text, kinds=protection.KINDS, terms=GLOSSARY, placeholders=PLACEHOLDERS):
    return Protection(kinds, terms, placeholders).protect(text)


def wanted(text, **options):
    return [span.wanted for span in protect(text, **options).spans]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        (
            "See https://a.org/b?c=1,2 (www.b.de/x).",
            ["https://a.org/b?c=1,2", "www.b.de/x"],
        ),
        ("Write to ann.b+c@d-e.co.uk, or not.", ["ann.b+c@d-e.co.uk"]),
        (
            "From 3.5 to 1,000.25% at 12:30, -4 or 7.",
            ["3.5", "1,000.25%", "12:30", "-4", "7"],
        ),
        ("A4, x2 and 2nd stay, v1.2 too.", []),
        ("A <b class='x'>man</b> <br/> a < b > c", ["<b class='x'>", "</b>", "<br/>"]),
        ("A hot dog, a DOG and dogs; us and US.", ["Wurst", "Köter", "USA"]),
        ("In new york they say hello.", ["new york"]),
        # For `re` an i in any case.
        ("D\u0130NE at dine.", ["essen"]),
        (
            "On 2026-11-24 call +49-170-1234, 3-5 times.",
            ["2026-11-24", "+49-170-1234", "3-5"],
        ),
        (
            "See HTTP://a.org/Dog_(x), (Www.b.de) or awww.cute.",
            ["HTTP://a.org/Dog_(x)", "Www.b.de"],
        ),
        ("A hot  dog in New\tYork.", ["Wurst", "New\tYork"]),
        ("", []),
    ],
)
def test_spans_are_found(text, spans):
    assert wanted(text) == spans


def test_only_what_is_asked_for_is_protected():
    text = "dog 5 www.a.de <b>x</b>"
    assert wanted(text, kinds=["urls"], terms=()) == ["www.a.de"]
    assert wanted(text, kinds=(), terms=()) == []
    assert wanted(text, kinds=()) == ["Köter"]
    with pytest.raises(ValueError, match="`protect` must be .* Did you mean 'urls'"):
        protect(text, kinds=["url"])


def test_placeholders_stand_for_spans_and_become_them_again():
    found = protect("<i>A <b>dog</b></i> saw 12 <u>men<br/>.")
    assert found.text == "<pc2>A <pc1><ph1></pc1></pc2> saw <ph2> <ph3>men<ph4>." or (
        found.text == "<pc1>A <pc2><ph1></pc2></pc1> saw <ph2> <ph3>men<ph4>."
    )
    translation = found.text.replace("saw", "sah").replace("men", "Leute")
    assert found.restore(translation) == ("<i>A <b>Köter</b></i> sah 12 <u>Leute<br/>.")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("<b>A man<br>and a dog</b> runs", {"<b>": "</b>"}),
        ("<i>a<br>b<img src='x'>c</i>", {"<i>": "</i>"}),
        ("<b><i>x</b></i>", {"<b>": "</b>"}),
        ("</b>x<b>", {}),
        ("<b><b>x</b></b>", {"<b>": "</b>"}),
    ],
)
def test_only_tags_that_are_nested_are_a_pair(text, pairs):
    spans = {span.symbol: span.wanted for span in protect(text).spans}
    found = {
        spans[symbol]: spans[symbol.replace("<", "</")]
        for symbol in spans
        if symbol.startswith("<pc")
    }
    assert found == pairs


def test_tags_beyond_the_pairs_of_the_vocabulary_are_nested_too():
    text = "<a>1</a> <b>2 <i>3 <u>4</u></i></b>"
    found = protect(text, kinds=["tags"], terms=())
    assert [span.symbol for span in found.spans] == [
        *("<pc1>", "</pc1>", "<pc2>", "<ph1>", "<ph2>", "<ph3>", "<ph4>", "</pc2>")
    ]
    # In an order that is nested, they stay where they are.
    assert found.restore("<pc2><ph1><ph2><ph3><ph4></pc2><pc1>x</pc1>") == (
        "<b><i><u></u></i></b><a>x</a>"
    )
    translation = "<ph4><ph3> 4 <pc2>x<ph2></pc2><pc1><ph1></pc1>"
    assert found.restore(translation) == "<a></a> 4 <b>x<i><u></u></i></b>"
    assert " ".join(found.restore_words(translation)) == found.restore(translation)


def test_placeholders_of_the_text_stay():
    found = protect("<ph1> 5 <pc1>6 <b>x</b>")
    assert found.restore(found.text) == "<ph1> 5 <pc1>6 <b>x</b>"
    assert "<ph1>" not in [span.symbol for span in found.spans if span.wanted == "5"]


def test_more_spans_than_placeholders_stay_in_the_text():
    text = " ".join(str(number) for number in range(10))
    found = protect(text)
    assert found.text == "<ph1> <ph2> <ph3> <ph4> <ph5> <ph6> <ph7> <ph8> 8 9"
    assert found.restore(found.text) == text


def test_without_placeholders_the_alignment_tells_where_a_span_goes():
    found = protect("A dog (see www.x.org) runs 12 km.", placeholders=())
    assert found.text == "A dog (see www.x.org) runs 12 km."
    alignment = [(number, number) for number in range(7)] + [(1, 7)]
    translation = "Ein Hund (siehe w.x.or) rennt 12 km. Hündchen"
    assert found.restore(translation, alignment) == (
        "Ein Köter (siehe www.x.org) rennt 12 km."
    )
    assert found.restore("Nichts.", []) == "Nichts."
    # Words are counted as in the alignment, and other spaces stay.
    assert protect("no  5 x", placeholders=()).restore("a  b c", [(1, 1)]) == "a 5 c"
    assert protect("no", placeholders=()).restore("a  b") == "a  b"
    # What is there already stays where it is.
    assert found.restore("Köter 12 www.x.org", alignment) == "Köter 12 www.x.org"


def test_words_of_translation_and_source_are_restored_one_by_one():
    """For pages, which show what each word came from."""
    text = "A hot dog in New York (5)."
    found = protect(text)
    assert found.text == "A <ph1> in <ph2> (<ph3>)."
    assert found.source_words() == ["A", "hot dog", "in", "New York", "(5)."]
    assert found.restore_words("In <ph2>  eine <ph1> (<ph3>).") == (
        ["In", "New York", "eine", "Wurst", "(5)."]
    )
    found = protect(text, placeholders=())
    assert found.source_words() == text.split()
    # "hot dog" are words 1 and 2, "New York" 4 and 5.
    alignment = [(0, 0), (1, 1), (2, 2), (4, 3)]
    assert found.restore_words("Ein heißer Hund Neujork 5", alignment) == (
        ["Ein", "Wurst", "", "New York", "5"]
    )


def test_the_beginning_of_a_translation_gets_placeholders():
    found = protect("<b>A hot dog</b>, a dog, 5, 5 and 1.")
    assert found.text == "<pc1>A <ph1></pc1>, a <ph2>, <ph3>, <ph4> and <ph5>."
    assert found.hide("<b>Wurst</b>, Wurst, Wursten 15 5") == (
        "<pc1><ph1></pc1>, Wurst, Wursten 15 <ph3>"
    )
    assert found.hide("5 1 5, 5") == "<ph3> <ph5> <ph4>, 5"
    assert found.hide("") == ""
    assert protect("no").hide("no") == "no"
    assert protect("5", placeholders=()).hide("5") == "5"


def test_only_a_model_without_placeholders_needs_the_alignment():
    nothing = Protection()
    assert nothing.is_empty and not nothing.needs_alignment
    for given in (Protection(["urls"]), Protection((), GLOSSARY)):
        assert not given.is_empty and given.needs_alignment
        kept = given.with_placeholders(PLACEHOLDERS)
        assert (kept.kinds, kept.terms) == (given.kinds, given.terms)
        assert not kept.needs_alignment
        assert kept.placeholders == set(PLACEHOLDERS)
    assert not nothing.with_placeholders(PLACEHOLDERS).needs_alignment


def test_terms_that_come_later_replace_earlier_ones():
    terms = [Term("dog", "Hund"), Term("Dog", "Köter")]
    assert wanted("a dog", terms=terms) == ["Köter"]


def test_a_glossary_is_read_line_by_line(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text(
        "dog\tKöter\n\nNew York\nUS\tUSA\texact\nUs\t\texact\na b\t c \tany\n"
        "cat = Katze\nx = y\t\nN=1\n"
    )
    assert protection.read_glossary(path) == [
        Term("dog", "Köter"),
        Term("New York", None),
        Term("US", "USA", is_exact=True),
        Term("Us", None, is_exact=True),
        Term("a b", "c"),
        Term("cat", "Katze"),
        Term("x = y", None),
        Term("N=1", None),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\tKöter", "must have a source term, its translation, and perhaps any or ex"),
        ("a\tb\tc", "must have a source term"),
        ("a\tb\tany\td", "must have a source term"),
        ("DOG\tHund", "has the term 'DOG' for the second time. Each term must occur"),
        ("dog\tHund\tany", "has the term 'dog' for the second time"),
    ],
)
def test_bad_lines_of_a_glossary_are_named(tmp_path, line, message):
    path = tmp_path / "terms.tsv"
    path.write_text(f"dog\tKöter\n{line}\n")
    with pytest.raises(ValueError, match=f"terms.tsv line 2 {message}"):
        protection.read_glossary(path)


@pytest.mark.parametrize(
    ("text", "translation", "alignment", "restored"),
    [
        ("Take 3 now", "Nimm 30 jetzt", [(1, 1)], "Nimm 3 jetzt"),
        ("The art now", "Die Kunsthalle jetzt", [(1, 1)], "Die Kunst jetzt"),
        # Both come from the one word of the translation, or one is there already.
        ("Take 3 5", "Nimm welche", [(1, 1), (2, 1)], "Nimm 3 5"),
        ("Take 5 or 5", "Nimm 5 oder fünf", [(1, 1), (3, 3)], "Nimm 5 oder 5"),
    ],
)
def test_a_part_of_a_word_is_no_span_that_is_there_already(
    text, translation, alignment, restored
):
    """Before, "3" was found in "30", and the first of two spans was overwritten."""
    found = protect(text, terms=[Term("art", "Kunst")], placeholders=())
    assert found.restore(translation, alignment) == restored


@pytest.mark.parametrize(
    ("text", "translation", "alignment"),
    [
        ("Etwa 20 % davon.", "About 20% of them.", [(0, 0), (1, 1), (2, 1), (3, 3)]),
        ("between 10 and 20", "10\u201320", [(1, 0), (3, 0)]),
        ("on 5 March 2024", "am 5.3.2024", [(0, 0), (1, 1), (2, 1), (3, 1)]),
        ("im Jahr 1990", "in the 1990s", [(0, 0), (2, 2)]),
        ("It is 5 km away", "Es sind 5km entfernt", [(0, 0), (2, 2), (3, 2), (4, 3)]),
        ("of the art", "des Kunsts", [(2, 1)]),
    ],
)
def test_what_a_translation_has_in_another_form_stays(text, translation, alignment):
    """A part of a date, a range or an amount, and a term in another case."""
    found = protect(text, terms=[Term("art", "Kunst")], placeholders=())
    assert found.restore(translation, alignment) == translation


def test_parts_of_a_prefix_are_hidden():
    found = protect("between 10 and 20 %")
    assert found.hide("10\u201320% ") == "<ph1>\u2013<ph2>% "


def test_a_long_term_can_be_pickled():
    """For Beam's workers; its words are a deep tree."""
    term = Term(" ".join(["a"] * 400), "b")
    again = pickle.loads(pickle.dumps(Protection([], [term])))
    assert again.protect(term.source).restore("x", [(0, 0)]) == "b"


def test_the_order_of_what_was_one_number_is_not_free():
    """Before, "1 250 000" were three placeholders, and "10.000km" was cut."""
    found = protect("1 250 000 people, 10.000km, +49 30 1234567")
    assert found.text == "<ph1> people, <ph2>, <ph3>"


def test_markers_of_the_model_are_not_protected():
    """Before, a term within a token and a marker that looks like a tag were."""
    markers = (">>de<<", "<news>")
    found = Protection(
        protection.KINDS, [Term("DE", "Germany")], PLACEHOLDERS, markers
    ).protect(">>de<< <news> A man in DE.")
    assert found.text == ">>de<< <news> A man in <ph1>."


def test_many_glossaries_leave_the_memory_where_it_was():
    """Before, their patterns stayed in the cache of regular expressions for ever."""
    Protection(["numbers"], [Term("x", None)]).protect("x 1")
    sizes = []
    tracemalloc.start()
    for number in range(500):
        terms = [Term(f"w{number}x{term} y", "z") for term in range(100)]
        found = Protection(["numbers"], terms).protect(f"a w{number}x5 y b")
        assert [span.wanted for span in found.spans] == ["z"]
        if number in (10, 499):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] - sizes[0] < 100_000
