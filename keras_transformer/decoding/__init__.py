"""Beam search (§6.1) and sampling over any step function; no model is needed here.

Begin reading with `beam_search`. `working_set` tracks the sentences and cache columns
that a search still needs, `scoring` has the length penalty, `sampling` draws outputs
at random.
"""

from keras_transformer.decoding.beam_search import (
    BeamSearchResult,
    beam_search,
    no_hypotheses,
)
from keras_transformer.decoding.sampling import (
    SampleResult,
    SamplingOptions,
    no_sample,
    sample,
)
from keras_transformer.decoding.scoring import NEGATIVE_INFINITY, length_penalty
from keras_transformer.decoding.working_set import Past

__all__ = [
    "NEGATIVE_INFINITY",
    "BeamSearchResult",
    "Past",
    "SampleResult",
    "SamplingOptions",
    "beam_search",
    "length_penalty",
    "no_hypotheses",
    "no_sample",
    "sample",
]
