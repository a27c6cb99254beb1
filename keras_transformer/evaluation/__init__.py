"""Measures of output: BLEU in three conventions, chrF, exact match."""

from keras_transformer.evaluation.bleu import (
    TranslationScores,
    moses_tokenized,
    score_translations,
)
from keras_transformer.evaluation.report import format_scores

__all__ = [
    "TranslationScores",
    "format_scores",
    "moses_tokenized",
    "score_translations",
]
