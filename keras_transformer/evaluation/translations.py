"""Translating a test set with a trained model and measuring its perplexity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from keras_transformer import text_files
from keras_transformer.evaluation.perplexity import reference_perplexity
from keras_transformer.inference.batch_size import TRANSLATION_BATCH_SIZE
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training.losses import LabelSmoothedCrossEntropy


def translate_and_measure(
    model_dir: str | os.PathLike,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    checkpoint: str | None = None,
    batch_size: int = TRANSLATION_BATCH_SIZE,
    **decoding: Any,
) -> tuple[list[str], str, float]:
    """Translate sources by beam search and measure how likely the references are.

    Says on standard error how many sources were cut to the model's limit.

    Args:
        model_dir: A trained model.
        sources: One text each.
        references: What each should become.
        checkpoint: Which weights; see `ModelDir.choose`.
        batch_size: Sources translated at once.
        **decoding: Fields of `DecodingConfig`; None leaves the run's own value.

    Returns:
        The translations, the target language's code, and the perplexity per subword.
    """
    place = ModelDir(model_dir)
    translator = place.load_translator(checkpoint, **decoding).with_prepared_weights()
    translations = translator.translate(sources, batch_size)
    num_cut = sum(translation.truncated for translation in translations)
    text_files.report_cut(num_cut, len(sources), translator.decoding.max_input_length)
    hypotheses = [text_files.one_line(each.text) for each in translations]
    model = translator.model
    model.compile(loss=LabelSmoothedCrossEntropy())
    perplexity = reference_perplexity(model, translator.tokenizer, sources, references)
    return hypotheses, place.read_config().target_language, perplexity
