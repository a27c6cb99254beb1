"""Texts whose sentences are marked by hand."""

SENTENCE_END = "¦"
# Lines with signs at their beginning that are not translated, and their sentence.
SIGNS = [
    ("- one", "one"),
    ("\u2022\tone", "one"),
    ("  (a) one", "one"),
    ("12. one", "one"),
    (">> one", "one"),
    ("## one", "one"),
    ("-one", "-one"),
    ("1.5 one", "1.5 one"),
]


def check_ends(texts, found):
    """At least 98 % of the marked ends are found, and at most 2 % that are none.

    Args:
        texts: From `english_texts`.
        found: For each text, where its sentences end.
    """
    assert len(texts) == 20
    assert len(long_sentence().split()) == 900
    num_marked = num_wrong = num_missed = 0
    for (_, marked), ends in zip(texts, found, strict=True):
        num_marked += len(marked)
        num_missed += len(set(marked) - set(ends))
        num_wrong += len(set(ends) - set(marked))
    assert num_marked > 110
    assert num_missed <= 0.02 * num_marked
    assert num_wrong <= 0.02 * num_marked


def english_texts(repository):
    """Return the texts that are marked by hand, and the ends of their sentences."""
    path = repository / "tests" / "documents" / "english.txt"
    marked = path.read_text(encoding="utf-8").split("=====\n")
    marked.append(f"{long_sentence()}{SENTENCE_END} It ended well.{SENTENCE_END}\n")
    found = []
    for each in marked:
        parts = each.split(SENTENCE_END)
        ends = [len("".join(parts[:count])) for count in range(1, len(parts))]
        found.append(("".join(parts), ends))
    return found


def long_sentence():
    """A sentence of 900 words."""
    things = ("carts", "ships", "maps", "roofs", "clocks", "tools")
    clauses = [
        f"he counted {number} {things[number % 6]} by the old harbor"
        for number in range(1, 112)
    ]
    return (
        f"{', '.join(clauses)}, and then at last he went home to sleep until late noon."
    )
