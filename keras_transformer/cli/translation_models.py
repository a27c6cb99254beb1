"""Loading the model that translates, from a model_dir or an export.

Imports TensorFlow only in its functions: also for processes that start with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class TranslationModel(NamedTuple):
    """A loaded model."""

    # With the signature of `Translator.translate_batch`.
    translate_batch: Callable
    # Most tokens of an input, and code of the source language; None: unknown.
    limit: int | None
    language: str | None
    # Batches to translate at the same time.
    at_once: int
    # Names of the placeholders and tags of the vocabulary.
    placeholders: tuple[str, ...] = ()
    # What a text may begin with to tell its target language, and the language of texts
    # that do not tell it; None: any.
    language_tokens: tuple[str, ...] = ()
    default_language: str | None = None
    # Whether the first batch must be translated before others begin.
    first_alone: bool = True
    # What compiles searches beside the batches, a `CompilerBeside`; None: nothing does.
    compiler: Any = None


def from_saved_model(
    path: str, *, is_aligned: bool = False, is_protected: bool = False
) -> TranslationModel:
    """Load an exported model, EXPORT_DIR/VERSION.

    Args:
        path: The folder.
        is_aligned: Whether to give the outputs of `Translator.align_batch` too.
        is_protected: Whether spans will be protected, which needs these outputs if the
            vocabulary has no placeholders.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it has no signature for it, or is damaged.
    """
    from keras_transformer.translation import batching, exported_model

    description = exported_model.read_description(path)
    placeholders = tuple(description.get("placeholders", ()))
    is_aligned |= is_protected and not placeholders
    load = exported_model.load_aligned if is_aligned else exported_model.load
    translate_batch = load(path)
    return TranslationModel(
        translate_batch,
        description.get("decoding", {}).get("max_input_length"),
        description.get("source_language"),
        batching.BATCHES_AT_ONCE,
        placeholders,
        exported_model.language_tokens(description),
        description.get("default_language"),
        compiler=getattr(translate_batch, "compiler", None),
    )


def from_model_dir(
    path: str, *, is_aligned: bool = False, is_protected: bool = False, **options: Any
) -> TranslationModel:
    """Load a trained model.

    Args:
        path: The model_dir.
        is_aligned: Same as in `from_saved_model`.
        is_protected: Same as in `from_saved_model`.
        **options: Arguments of `ModelDir.load_translator`.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If the options do not fit it.
    """
    from keras_transformer.runs.model_dir import ModelDir
    from keras_transformer.translation import batching

    model_dir = ModelDir(path)
    translator = model_dir.load_translator(**options)
    translator = translator.with_prepared_weights(
        program_sizes=translator.sizes_of_large_batches()
    )
    placeholders = tuple(translator.tokenizer.placeholders)
    is_aligned |= is_protected and not placeholders
    function = "align_batch" if is_aligned else "translate_batch"
    return TranslationModel(
        # A bound tf.function does not keep its object alive; a lambda does.
        lambda text: getattr(translator, function)(text),
        translator.decoding.max_input_length,
        options["languages"][0] or model_dir.read_config().source_language,
        batching.BATCHES_AT_ONCE,
        placeholders,
        translator.tokenizer.language_tokens,
        translator.tokenizer.default_language,
        compiler=translator.compiler,
    )
