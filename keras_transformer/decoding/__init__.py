"""Search over any step function: the best outputs, §6.1, or drawn ones.

Begin with `beam_search`. `working_set` says which sentences and columns of a cache a
search still needs, `scoring` has the length penalty, `sampling` draws instead. Nothing
here knows a model.
"""

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
