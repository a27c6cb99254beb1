"""What a precision below float32 costs: outputs that differ, and BLEU."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence

from keras_transformer.evaluation import bleu


@dataclasses.dataclass(frozen=True)
class RoundingCost:
    """Outputs of a model in a lower precision, beside those in float32."""

    lines: int
    # Outputs that are not the same in float32.
    differing: int
    # BLEU in the lower precision and in float32; None without references.
    sacrebleu: float | None = None
    sacrebleu_float32: float | None = None

    def __str__(self) -> str:
        text = (
            f"{self.differing:,} of {self.lines:,} outputs differ from those in float32"
        )
        if self.sacrebleu is None:
            return text
        return (
            f"{text}; BLEU {self.sacrebleu:.2f}, in float32 "
            f"{self.sacrebleu_float32:.2f}"
        )


def measure(
    outputs: Sequence,
    exact: Sequence,
    references: Sequence[str] = (),
    languages: Sequence[str] = (),
) -> RoundingCost:
    """Compare a model's outputs with those in float32.

    Args:
        outputs: Translations, or trees, in the lower precision.
        exact: Those of the same texts in float32.
        references: Of the translations, for BLEU; empty: without.
        languages: The code of the language of each reference.

    Raises:
        ValueError: As `score_translations`.
    """
    scores = [
        bleu.score_translations(
            hypotheses, references, target_language=languages, bootstrap_samples=0
        ).sacrebleu
        for hypotheses in (outputs, exact)
        if references
    ]
    return RoundingCost(len(outputs), sum(map(operator.ne, outputs, exact)), *scores)
