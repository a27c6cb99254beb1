"""A training that is killed goes on and ends where it would have ended."""

import pytest

from benchmarks import kills
from tests.small_corpus import write_corpus

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_a_killed_run_ends_bit_for_bit_where_it_would_have(tmp_path, seconds):
    """benchmarks/killed_trainings.py does it 30 times, on two replicas too."""
    corpus = write_corpus(tmp_path, "data", 285)
    kills.run_to_the_end(kills.training_command(corpus, tmp_path / "whole", 8))
    command = kills.training_command(corpus, tmp_path / "killed", 8)
    kills.kill_after_first_step(command, seconds)
    assert kills.newest_step(tmp_path / "killed") <= 8
    kills.run_to_the_end(command)
    assert kills.newest_step(tmp_path / "killed") == 8
    assert kills.distance_of_weights(tmp_path / "killed", tmp_path / "whole") == 0
