"""Texts whose sentences are marked by hand."""

import re

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


def read_table(path):
    """Return the rows of a table of texts, each as a list of its columns.

    Lines that begin with "#" are comments. "\\u00a0" is the character with this code.
    """
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            line = re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line)
            rows.append(line.split("\t"))
    return rows


def check_right(wrong, total, right):
    """Assert that enough rows of a table are right; the message shows the wrong ones.

    Args:
        wrong: What to show of each row that is wrong.
        total: Number of rows.
        right: Least number of right rows.
    """
    found = total - len(wrong)
    assert found >= right, "\n".join(
        [f"{found} of {total} are right, {right} must be. Wrong:", *wrong]
    )
