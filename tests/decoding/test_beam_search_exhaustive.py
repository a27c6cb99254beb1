"""With a beam as wide as the tree of all outputs, the search finds the true best."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding.fake_models import enumerated, random_model, search

ALPHAS = [0.0, 0.6, 1.0, 3.0]


def check_against_enumeration(model, limits, beam_size, alpha, **arguments):
    """Compare every rank: finished or not, score, and that the tokens have it."""
    num_best = arguments.get("num_best", 1)
    result = search(
        model, limits, max_steps=4, beam_size=beam_size, alpha=alpha, **arguments
    )
    for row, limit in enumerate(limits):
        expected = enumerated(model, row, limit, alpha)
        scores_of = {tokens: score for _, score, tokens in expected}
        for rank, (finished, score, _) in enumerate(expected[:num_best]):
            length = int(result.lengths[row, rank])
            tokens = tuple(result.tokens[row, rank, :length].numpy().tolist())
            for found in (result.scores[row, rank], scores_of[tokens]):
                np.testing.assert_allclose(found, score, rtol=1e-5, atol=1e-5)
            assert bool(result.finished[row, rank]) == finished
        for rank in range(len(expected), num_best):
            assert int(result.lengths[row, rank]) == 0


@pytest.mark.parametrize("stop_early", [True, False])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_full_width_beam_equals_exhaustive_enumeration(alpha, stop_early):
    """Three words, at most four tokens: 15 finished outputs and 16 open ones."""
    model, limits = random_model(1, batch=11), [4, 2, 3, 1, 4, 4, 3, 4, 2, 4, 4]
    arguments = {"beam_size": 16, "alpha": alpha, "stop_early": stop_early}
    check_against_enumeration(model, limits, **arguments)
    check_against_enumeration(model, limits, num_best=16, **arguments)


def test_full_width_beam_lists_all_outputs_there_are():
    check_against_enumeration(
        random_model(5), [4], beam_size=37, alpha=0.6, num_best=37
    )


@given(
    seed=st.integers(0, 2**20),
    vocab_size=st.integers(2, 3),
    scale=st.floats(0.0625, 8.0),
    alpha=st.sampled_from(ALPHAS),
    num_best=st.integers(1, 8),
    limit=st.integers(1, 4),
    stop_early=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_full_width_beam_equals_enumeration_for_any_model(
    seed, vocab_size, scale, alpha, num_best, limit, stop_early
):
    model = random_model(seed, vocab_size=vocab_size, max_steps=4, scale=scale)
    check_against_enumeration(
        model,
        [limit],
        beam_size=16,
        alpha=alpha,
        num_best=num_best,
        stop_early=stop_early,
    )
