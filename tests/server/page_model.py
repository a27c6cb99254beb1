"""A model whose translations show in the page where each word came from."""

import re

import numpy as np

from keras_transformer.server.served_model import ServedModel, Signature
from tests.server.fake_model import NUMBER, TEXT

# Words that it reads, and a letter that is too much for it.
LIMIT, TOO_LONG = 70, "\u0416"


def make_page_model(*leave_out, placeholders=()):
    """Return a model that writes words in capitals, from last to first.

    Args:
        *leave_out: Names of signatures that it does not have.
        placeholders: Names of its placeholders, which it leaves as they are.
    """
    inputs = {"text": TEXT}
    with_prefix = {"text": TEXT, "prefix": TEXT}
    signatures = {
        "serving_default": Signature(inputs, {"translation": TEXT}, _translate),
        "align": Signature(inputs, {"translation": TEXT, "attention": NUMBER}, _align),
        "nbest": Signature(inputs, {"translations": TEXT, "scores": NUMBER}, _nbest),
        "prefix": Signature(
            with_prefix, {"translation": TEXT, "score": NUMBER}, _prefix
        ),
    }
    kept = {name: signatures[name] for name in signatures if name not in leave_out}
    return ServedModel(
        source_language="en",
        target_language="de",
        placeholders=placeholders,
        signatures=kept,
    )


def _words(text):
    return _upper(text.decode("utf-8", "replace")).split()[::-1]


def _upper(text):
    return re.sub(r"(</?p[hc]\d+>)|.", lambda each: each[1] or each[0].upper(), text)


def _translate(inputs):
    texts = [" ".join(_words(text)).encode() for text in inputs["text"]]
    scores = np.zeros(len(texts), np.float32)
    cut = [
        len(text.split()) > LIMIT or TOO_LONG.encode() in text
        for text in inputs["text"]
    ]
    return {
        "translation": np.array(texts, object),
        "score": scores,
        "truncated": np.array(cut),
    }


def _pieces(words):
    """Split each word in two pieces after its first letter."""
    found = []
    for word in words:
        found += [f"▁{word[:1]}".encode(), word[1:].encode() or b"-"]
    return [*found, b"</s>"]


def _align(inputs):
    """Each target piece takes 0.75 from its own word and 0.25 from the first."""
    rows = []
    width = 2 * max(len(text.split()) for text in inputs["text"]) + 1
    attention = np.zeros([len(inputs["text"]), width, width], np.float32)
    for row, text in enumerate(inputs["text"]):
        words = text.decode("utf-8", "replace").split()
        for index in range(len(words)):
            for target in (2 * index, 2 * index + 1):
                attention[row, target, 2 * (len(words) - 1 - index)] += 0.75
                attention[row, target, 1] += 0.25
        rows.append((_pieces(words), _pieces(words[::-1])))
    padded = [
        [side + [b""] * (width - len(side)) for side in column]
        for column in zip(*rows, strict=True)
    ]
    return {
        **_translate(inputs),
        "source_pieces": np.array(padded[0], object),
        "target_pieces": np.array(padded[1], object),
        "attention": attention,
    }


def _nbest(inputs):
    best = _translate(inputs)["translation"]
    rows = [[text, b"or " + text, b""] for text in best]
    return {
        "translations": np.array(rows, object),
        "scores": np.zeros([len(best), 3], np.float32),
    }


def _prefix(inputs):
    texts = [
        prefix + b" " + _upper(text.decode("utf-8", "replace")).encode()
        for prefix, text in zip(inputs["prefix"], inputs["text"], strict=True)
    ]
    return {
        "translation": np.array(texts, object),
        "score": np.zeros(len(texts), np.float32),
    }
