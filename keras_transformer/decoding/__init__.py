"""Outputs of any step-by-step model: the best, §6.1, or drawn; knows no model."""

from keras_transformer.decoding.beam_search import (
    BeamSearchResult,
    beam_search,
    no_hypotheses,
)
from keras_transformer.decoding.sampling import SampleResult, no_sample, sample
from keras_transformer.decoding.scoring import NEGATIVE_INFINITY, length_penalty
from keras_transformer.decoding.working_set import Past

__all__ = [
    "NEGATIVE_INFINITY",
    "BeamSearchResult",
    "Past",
    "SampleResult",
    "beam_search",
    "length_penalty",
    "no_hypotheses",
    "no_sample",
    "sample",
]
