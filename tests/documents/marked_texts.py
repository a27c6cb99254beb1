"""Texts whose sentences are marked by hand."""

SENTENCE_END = "¦"


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
