"""A training that is killed goes on and ends where it would have ended."""

import pytest

from benchmarks import kills
from tests.small_corpus import write_corpus

pytestmark = pytest.mark.long


def test_a_killed_run_ends_bit_for_bit_where_it_would_have(tmp_path):
    """benchmarks/killed_trainings.py does it 30 times, on two replicas too."""
    corpus = write_corpus(tmp_path, "data", 285)
    kills.run_to_the_end(kills.training_command(corpus, tmp_path / "whole", 8))
    command = kills.training_command(corpus, tmp_path / "killed", 8)
    kills.kill_after_first_step(command, seconds=0.3)
    assert kills.newest_step(tmp_path / "killed") <= 8
    kills.run_to_the_end(command)
    assert kills.newest_step(tmp_path / "killed") == 8
    assert kills.distance_of_weights(tmp_path / "killed", tmp_path / "whole") == 0
