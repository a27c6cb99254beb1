"""Search for the best output of any step-by-step model, §6.1; knows no model."""

from keras_transformer.decoding.beam_search import BeamSearchResult, beam_search
from keras_transformer.decoding.scoring import NEGATIVE_INFINITY, length_penalty

__all__ = ["NEGATIVE_INFINITY", "BeamSearchResult", "beam_search", "length_penalty"]
