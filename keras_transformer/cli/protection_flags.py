"""The flags of what translations must have as it is."""

from __future__ import annotations

import sys

from absl import flags

from keras_transformer.documents import protection

_PROTECT = flags.DEFINE_list(
    "protect",
    [],
    f"What translations must have as it is, among {', '.join(protection.KINDS)}. A "
    "model with placeholders keeps each; for others the alignment of words is a guess.",
)
GLOSSARY = flags.DEFINE_string(
    "glossary",
    None,
    "Text file of terms that translations must have: a source term, a tab and its "
    "translation a line; without translation the term stays. A third column exact: "
    "upper and lower case count.",
)


def is_given() -> bool:
    """Return whether a flag asks for protection."""
    return bool(_PROTECT.value or GLOSSARY.value)


def read() -> protection.Protection:
    """Return what the flags protect, for a model without placeholders.

    Raises:
        FileNotFoundError: If there is no such glossary.
        ValueError: If a kind is unknown, or a line of the glossary is wrong.
    """
    terms = protection.read_glossary(GLOSSARY.value) if GLOSSARY.value else ()
    return protection.Protection(_PROTECT.value, terms)


def report_guess(protect: protection.Protection) -> None:
    """Say on standard error if what is protected may get lost."""
    if protect.needs_alignment:
        print(
            "The model has no placeholders: what is protected is put where the "
            "alignment of words says, and may get lost.",
            file=sys.stderr,
        )
