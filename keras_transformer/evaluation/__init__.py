"""Measures of translations, and the reproduction of Table 3.

Begin with `bleu`: three conventions of BLEU, chrF, exact match. `translations` produces
the outputs to score; `rounding` compares precisions; `table3` has the rows that
bin/reproduce.py trains.
"""

from keras_transformer.evaluation.bleu import (
    TranslationScores,
    check_languages,
    score_translations,
    tokenized,
)
from keras_transformer.evaluation.report import format_parts, format_scores

__all__ = [
    "TranslationScores",
    "check_languages",
    "format_parts",
    "format_scores",
    "tokenized",
    "score_translations",
]
