"""A run on a mixture of two corpora."""

import numpy as np
import pytest

from keras_transformer import data, tokenization
from keras_transformer.data import corpora
from tests.small_corpus import WORDS
from tests.training.small_runs import config_of, train, weights

MIXTURE = """
corpora:
  - {name: copied, source: copied, target: copied, weight: 1}
  - {name: back, source: back, target: back, weight: 3, tag: <bt>}
  - {name: dev, split: valid, source: dev, target: dev}
"""


def write_mixture(folder, text=MIXTURE, name="data", seed=0):
    draw = np.random.default_rng(seed)
    for file, count in (("copied", 70), ("back", 50), ("dev", 7)):
        lines = [
            " ".join(draw.choice(WORDS, draw.integers(1, 5))) for _ in range(count)
        ]
        (folder / file).write_text("\n".join(lines) + "\n")
    (folder / "corpora.yaml").write_text(text)
    given = corpora.read(folder / "corpora.yaml")
    data.prepare_corpora(
        given,
        folder / name,
        lambda texts: tokenization.train_bpe(texts, 285, symbols=given.symbols),
    )
    return str(folder / name)


@pytest.mark.long
def test_a_resumed_run_on_a_mixture_ends_bit_for_bit_where_it_would_have(tmp_path):
    """Stopped after step 3: the same batches, in which one corpus is repeated."""
    mixture = write_mixture(tmp_path)
    lines, config = [], config_of(mixture, tokens_per_batch=400)
    train(mixture, tmp_path / "whole", config, lines)
    assert "; shares of an epoch: copied 25.0%, back 75.0%" in lines[0]
    with pytest.raises(KilledError):
        train(mixture, tmp_path / "run", config, Interrupting())
    train(mixture, tmp_path / "run", config)
    for ours, theirs in zip(
        weights(tmp_path / "run"), weights(tmp_path / "whole"), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    other = write_mixture(
        tmp_path, MIXTURE.replace("weight: 3", "weight: 2"), name="other"
    )
    with pytest.raises(ValueError, match="holds a run on another corpus"):
        train(other, tmp_path / "run", config)


class KilledError(Exception):
    """Ends a run after a step, without saving."""


class Interrupting(list):
    """Lines of a run, which is killed when it reports its fourth step."""

    def append(self, line):
        if line.startswith("step 4"):
            raise KilledError
        super().append(line)
