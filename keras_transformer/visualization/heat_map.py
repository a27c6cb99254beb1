"""Attention weights as heat maps, one subplot per head."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from keras_transformer.visualization.attention import (
    KINDS,
    AttentionRecord,
    check_layer_and_heads,
)

# Inches per token, and for the labels and title of a subplot.
_INCHES_PER_TOKEN, _INCHES_FOR_LABELS = 0.19, 1.3


def heat_map(
    record: AttentionRecord, kind: str, layer: int, heads: Sequence[int]
) -> Figure:
    """Draw the weights of some heads of a layer: queries as rows, keys as columns.

    Args:
        record: The attention weights.
        kind: "encoder", "decoder" or "cross".
        layer: Layer number, from 1.
        heads: Head numbers, from 1.

    Raises:
        ValueError: If the record has no such layer or head.
    """
    check_layer_and_heads(record, kind, layer, list(heads))
    queries, keys = record.queries(kind), record.keys(kind)
    columns = min(len(heads), 4)
    rows = math.ceil(len(heads) / columns)
    width = _INCHES_PER_TOKEN * len(keys) + _INCHES_FOR_LABELS
    height = _INCHES_PER_TOKEN * len(queries) + _INCHES_FOR_LABELS
    figure = Figure(
        figsize=(columns * width + 0.8, rows * height + 0.4), layout="constrained"
    )
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, head in zip(axes, heads, strict=False):
        image = axis.imshow(
            record.weights[kind][layer - 1, head - 1], cmap="viridis", vmin=0, vmax=1
        )
        axis.set_title(f"head {head}", fontsize=9)
        axis.set_xticks(range(len(keys)), keys, rotation=90, fontsize=8)
        axis.set_yticks(range(len(queries)), queries, fontsize=8)
        for label in (*axis.get_xticklabels(), *axis.get_yticklabels()):
            label.set_parse_math(False)  # "$5$" is a price here, not a formula
    for axis in axes[len(heads) :]:
        axis.set_axis_off()
    num_layers = record.num_layers(kind)
    figure.suptitle(f"{KINDS[kind]}, layer {layer} of {num_layers}", fontsize=11)
    figure.colorbar(image, ax=figure.axes, label="attention weight", shrink=0.8)
    return figure
