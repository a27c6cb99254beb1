"""Attention weights as one page that works from a file, as in the paper's appendix."""

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

_PLACE = re.compile(r"\{\{(title|data)\}\}")


def attention_page(record: AttentionRecord, kind: str, layer: int) -> str:
    """Return a page of HTML that needs nothing beside itself.

    It draws a line from each query to each key, a colour a head, the stronger the
    weight the darker; a word under the pointer, or chosen with the keyboard, shows its
    lines alone. Kind, layer and heads can be chosen, and a table says the same in text.

    Args:
        record: What to draw.
        kind: Shown first: "encoder", "decoder" or "cross".
        layer: Shown first, from 1.

    Raises:
        ValueError: If the record has no such layer.
    """
    check_layer_and_heads(record, kind, layer, [1])
    template = importlib.resources.files(__package__).joinpath("page.html")
    data = {
        "kinds": {name: _kind(record, name) for name in KINDS},
        "first": {"kind": kind, "layer": layer - 1},
    }
    # "<" would let a word end the script.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    parts = {"title": html.escape(record.source_text), "data": text}
    return _PLACE.sub(
        lambda match: parts[match[1]], template.read_text(encoding="utf-8")
    )


def _kind(record: AttentionRecord, kind: str) -> dict[str, Any]:
    """Return what the page needs of one kind; weights become steps of 1/255."""
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
