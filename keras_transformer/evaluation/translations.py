"""Translating a test set with a trained model and measuring its perplexity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from keras_transformer import text_files
from keras_transformer.evaluation.perplexity import reference_perplexity
from keras_transformer.opening import open_model
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE


def translate_and_measure(
    model_dir: str | os.PathLike,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    batch_size: int = TRANSLATION_BATCH_SIZE,
    **options: Any,
) -> tuple[list[str], float]:
    """Translate sources by beam search and measure how likely the references are.

    Prints to standard error how many sources were cut to the model's limit.

    Args:
        model_dir: Folder of a trained model.
        sources: Source texts.
        references: Their reference translations.
        batch_size: Sources translated at once.
        **options: Those of `open_model`. A source that begins with another target
            language than that of `languages` keeps it.

    Returns:
        The translations and the perplexity per subword.

    Raises:
        ValueError: If the model has several languages, but not this one.
    """
    translator = open_model(model_dir, **options).searcher
    translations = translator.translate(sources, batch_size)
    num_cut = sum(translation.truncated for translation in translations)
    text_files.report_cut(num_cut, len(sources), translator.decoding.max_input_length)
    text_files.report_looped(sum(each.looped for each in translations), len(sources))
    hypotheses = [text_files.one_line(each.text) for each in translations]
    perplexity = reference_perplexity(translator, sources, references)
    return hypotheses, perplexity
