"""An attention record with random weights, in which every size is different."""

import numpy as np

from keras_transformer.visualization.attention import AttentionRecord

SOURCE = ("▁the", "▁<b>", "</s>")
TARGET = ("▁das", "▁&amp;", "▁$5$", "▁狗", "</s>")
LAYERS, HEADS = 2, 3


def make_record(seed=7):
    """Return a record of 2 layers, 3 heads, 3 source and 5 target pieces."""
    draw = np.random.default_rng(seed)

    def weights(queries, keys):
        logits = 3 * draw.normal(size=(LAYERS, HEADS, queries, keys))
        exponentials = np.exp(logits)
        return np.float32(exponentials / exponentials.sum(-1, keepdims=True))

    decoder = weights(len(TARGET), len(TARGET)) * np.tri(len(TARGET))
    return AttentionRecord(
        source_text="the <b>",
        source_pieces=SOURCE,
        target_pieces=TARGET,
        bos_piece="<s>",
        weights={
            "encoder": weights(len(SOURCE), len(SOURCE)),
            "decoder": np.float32(decoder / decoder.sum(-1, keepdims=True)),
            "cross": weights(len(TARGET), len(SOURCE)),
        },
    )
