"""Measures of translations, and the reproduction of Table 3.

Begin with `bleu`: three conventions of BLEU, chrF, exact match. `translations` produces
the outputs to score; `table3` trains every row of the table.
"""

from keras_transformer.evaluation.bleu import (
    TranslationScores,
    moses_tokenized,
    score_translations,
)
from keras_transformer.evaluation.report import format_parts, format_scores

__all__ = [
    "TranslationScores",
    "format_parts",
    "format_scores",
    "moses_tokenized",
    "score_translations",
]
