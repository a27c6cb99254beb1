"""A model for the server that needs no TensorFlow: it answers at once, or as told."""

import threading

import numpy as np

from keras_transformer.server.served_model import ServedModel, Signature, TensorInfo

TEXT = TensorInfo("string", (None,))
NUMBER = TensorInfo("float32", (None,))
INTEGER = TensorInfo("int32", (None,))


class FakeModel:
    """Spells texts backwards.

    Args:
        limit: Letters that it reads of a text; None: all, and it does not say so.

    Attributes:
        batches: The texts of each batch that ran.
        gate: Batches wait until it is set.
    """

    def __init__(self, limit=None):
        self.limit = limit
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def served(self, **options):
        """Return the model as the server takes it."""
        texts = TensorInfo("string", (None, None))
        signatures = {
            "serving_default": Signature(
                {"text": TEXT}, {"translation": TEXT, "score": NUMBER}, self.translate
            ),
            "nbest": Signature({"text": TEXT}, {"translations": texts}, self.nbest),
            "align": Signature(
                {"text": TEXT},
                {
                    "pieces": texts,
                    "attention": TensorInfo("float32", (None, None, None)),
                },
                self.align,
            ),
            "sample": Signature(
                {"text": TEXT, "temperature": NUMBER, "seed": INTEGER},
                {"translation": TEXT, "seed": INTEGER},
                self.sample,
            ),
            "multilingual": Signature(
                {"text": TEXT, "source_language": TEXT, "target_language": TEXT},
                {"translation": TEXT},
                self.multilingual,
            ),
        }
        values = {"source_language": "en", "target_language": "de", **options}
        return ServedModel(version=7, signatures=signatures, **values)

    def backwards(self, inputs):
        """Note a batch and return the reversed texts; fail for the text "bad"."""
        assert self.gate.wait(timeout=60)
        texts = [text.decode("utf-8", "replace") for text in inputs["text"]]
        self.batches.append(texts)
        if "bad" in texts:
            raise RuntimeError("a weight is missing\nand more lines")
        return np.array([text[::-1].encode() for text in texts], object)

    def translate(self, inputs):
        texts = [text[: self.limit] for text in inputs["text"]]
        found = self.backwards({"text": texts})
        scores = [float("nan") if text == b"nan" else 0.5 for text in inputs["text"]]
        outputs = {"translation": found, "score": np.array(scores, np.float32)}
        if self.limit is not None:
            is_cut = [len(text) > self.limit for text in inputs["text"]]
            outputs["truncated"] = np.array(is_cut)
        return outputs

    def nbest(self, inputs):
        found = self.backwards(inputs)
        rows = [[text, text.upper(), b""] for text in found]
        return {"translations": np.array(rows, object)}

    def align(self, inputs):
        """One piece for each letter, as many columns as the longest of the batch."""
        found = self.backwards(inputs)
        width = max(len(text) for text in found)
        pieces = [[text[n : n + 1] for n in range(width)] for text in found]
        attention = [[float(n < len(text)) for n in range(width)] for text in found]
        return {
            "pieces": np.array(pieces, object),
            "attention": np.array(attention, np.float32),
        }

    def sample(self, inputs):
        found = self.backwards(inputs)
        return {"translation": found, "seed": np.array(inputs["seed"], np.int32)}

    def multilingual(self, inputs):
        languages = zip(
            inputs["source_language"], inputs["target_language"], strict=True
        )
        found = [
            b"%s>%s %s" % (*pair, text)
            for pair, text in zip(languages, self.backwards(inputs), strict=True)
        ]
        return {"translation": np.array(found, object)}
