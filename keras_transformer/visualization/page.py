"""Attention weights as an interactive HTML page, like the paper's appendix figures."""

from __future__ import annotations

import base64
import html
import importlib.resources
import json
import re
from typing import Any

import numpy as np

from keras_transformer.visualization.attention import (
    KINDS,
    AttentionRecord,
    check_layer_and_heads,
)

_PLACEHOLDER = re.compile(r"\{\{(title|data)\}\}")


def attention_page(record: AttentionRecord, kind: str, layer: int) -> str:
    """Return a self-contained HTML page that draws a line from each query to each key.

    Each head has a color and darker lines have larger weights. A word under the
    pointer, or selected with the keyboard, shows only its own lines. Kind, layer and
    heads can be selected, and a table shows the same weights as text.

    Args:
        record: The attention weights.
        kind: Attention shown first: "encoder", "decoder" or "cross".
        layer: Layer shown first, from 1.

    Raises:
        ValueError: If the record has no such layer.
    """
    check_layer_and_heads(record, kind, layer, [1])
    template = importlib.resources.files(__package__).joinpath("page.html")
    data = {
        "kinds": {name: _kind(record, name) for name in KINDS},
        "first": {"kind": kind, "layer": layer - 1},
    }
    # Escape "<", so that a word cannot close the script element.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    parts = {"title": html.escape(record.source_text), "data": text}
    return _PLACEHOLDER.sub(
        lambda match: parts[match[1]], template.read_text(encoding="utf-8")
    )


def _kind(record: AttentionRecord, kind: str) -> dict[str, Any]:
    """Return the page's data for one kind; weights are rounded to steps of 1/255."""
    weights = record.weights[kind]
    steps = np.round(np.clip(weights, 0, 1) * 255).astype(np.uint8)
    return {
        "label": KINDS[kind],
        "queries": record.queries(kind),
        "keys": record.keys(kind),
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }
