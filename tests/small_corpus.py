"""A corpus of five words, prepared in a moment."""

import numpy as np

from keras_transformer import data, tokenization

WORDS = ["one", "two", "three", "four", "five"]


def write_corpus(folder, name, vocab_size):
    """Prepare a corpus whose target is its source."""
    draw = np.random.default_rng(vocab_size)
    for split, count in (("train", 60), ("valid", 7)):
        lines = [
            " ".join(draw.choice(WORDS, draw.integers(1, 5))) for _ in range(count)
        ]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    paths = {split: (folder / f"{split}.txt",) * 2 for split in ("train", "valid")}
    data.prepare(
        data.TextFiles(paths, "en", "de"),
        folder / name,
        lambda texts: tokenization.train_bpe(texts, vocab_size),
    )
    return str(folder / name)
