"""The corpora of the validation split, as BLEU during training takes them."""

from __future__ import annotations

from typing import NamedTuple

import sacrebleu

from keras_transformer import bleu_metric, data


class ScoredPart(NamedTuple):
    """Lines of one corpus, with the metric of its target language."""

    name: str
    lines: range
    bleu: sacrebleu.BLEU


def scored_parts(data_dir: str, num_sentences: int) -> list[ScoredPart]:
    """Return an equal share of each corpus of the validation split.

    Args:
        data_dir: A prepared corpus.
        num_sentences: Sentences to score in all, but at least one of each corpus; 0:
            none.

    Raises:
        ValueError: If the tokenizer of a language needs packages that are not
            installed.
    """
    if not num_sentences:
        return []
    parts = [
        part for part in data.read_metadata(data_dir).parts_of("valid") if part.lines
    ]
    share = max(1, num_sentences // max(1, len(parts)))
    return [
        ScoredPart(
            part.name, part.lines[:share], bleu_metric.metric(part.target_language)
        )
        for part in parts
    ]
