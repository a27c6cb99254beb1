"""Costs against the paper's, and against a count by hand."""

import dataclasses
import json
import subprocess
import sys

import pytest

from keras_transformer import presets
from keras_transformer.config import ModelConfig
from keras_transformer.model import cost


@pytest.mark.parametrize(("name", "hours"), [("base", 12.0), ("big", 3.5 * 24)])
def test_time_on_the_papers_devices_gives_table_2(name, hours):
    """§5.2: 12 hours and 3.5 days on 8 P100s of 9.5 TFLOPS, 3.3e18 and 2.3e19."""
    flops = cost.flops_of_time(hours, 8, cost.SUSTAINED_TFLOPS["P100"])
    published = presets.get(name).paper.training_flops
    assert flops == pytest.approx(published, rel=0.05)
    (row,) = (row for row in cost.TABLE_2 if f"({name})" in row.model)
    assert row.flops_ende == published


def test_a_small_model_counted_by_hand():
    """d_model 4, d_ff 6, one head of d_k 2 and d_v 3, 7 words; 5 source, 2 target.

    Products of a token: Q and K 4x2, V 4x3, O 3x4: 2 * (8 + 8 + 12 + 12) = 80; FFN
    2 * (24 + 24) = 96; with each key 2 * (2 + 3) = 10.
    Encoder: 5 * (80 + 96 + 5 * 10) = 1130. Decoder: 2 * (80 + 2 * 10) = 200;
    across 2 * (2 * (8 + 12) + 5 * 10) + 5 * 2 * (8 + 12) = 380; FFN 2 * 96 = 192.
    Logits: 2 * 2 * 4 * 7 = 112.
    """
    config = ModelConfig(
        vocab_size=7,
        num_layers=1,
        d_model=4,
        d_ff=6,
        num_heads=1,
        key_dim=2,
        value_dim=3,
    )
    assert cost.forward_flops(config, 5, 2) == 1130 + 200 + 380 + 192 + 112
    assert cost.training_flops(config, 5, 2) == 3 * 2014
    two = dataclasses.replace(config, num_layers=2)
    assert cost.forward_flops(two, 5, 2) == 2 * 1902 + 112


@pytest.mark.parametrize("name", ["hours", "num_devices", "sustained_tflops"])
def test_nothing_costs_nothing(name):
    given = {"hours": 1.0, "num_devices": 8, "sustained_tflops": 9.5, name: 0}
    with pytest.raises(ValueError, match=f"`{name}` must be above 0"):
        cost.flops_of_time(**given)


def test_the_program_prints_both_counts_and_table_2(repository):
    result = subprocess.run(
        [sys.executable, repository / "bin" / "training_cost.py", "--json"]
        + ["--preset=big", "--hours=84"],
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["estimated_flops"] == pytest.approx(2.3e19, rel=0.05)
    assert 5e18 < summary["counted_flops"] < summary["estimated_flops"]
    assert "GNMT + RL ensemble" in result.stdout
