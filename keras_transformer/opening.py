"""The way to a model: of a run, of an export, or an imported one."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Any

from keras_transformer import hardware
from keras_transformer.config import check_choice
from keras_transformer.translation.opened_model import USES, OpenedModel

if TYPE_CHECKING:  # imports TensorFlow
    from keras_transformer.translation.sampling import Sampling


def open_model(
    path: str | os.PathLike,
    use: str | None = "translate",
    *,
    sampling: Sampling | None = None,
    **options: Any,
) -> OpenedModel:
    """Load a model for a use.

    Args:
        path: The folder of a run or of an imported model, or of a version of an export,
            EXPORT_DIR/VERSION, local or remote (gs://).
        use: What `run_batch` does, or "serve"; see `opened_model.USES`. None, for a
            run: its `searcher` is as trained, for what needs its model.
        sampling: For the use "sample": how to draw.
        **options: For a run, arguments of `ModelDir.load_translator`, or of
            `ModelDir.load_parser`. An export has fixed them.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If it is not for this use, an option does not fit it, or it is
            damaged.
    """
    if use is not None:
        check_choice("use", use, USES)
    if (pathlib.Path(path) / "config.json").is_file():
        return _open_run(path, use, sampling, options)
    from keras_transformer.translation.exported_model import check_use, open_export

    unset = (None, (None, None))
    given = sorted(name for name, value in options.items() if value not in unset)
    if given or use is None:
        check_use(path, use or "serve")  # its error says that there is no model
        raise ValueError(
            f"{path} is no run: an export has fixed its options. Received: "
            f"{', '.join(given) or f'use={use}'}."
        )
    return open_export(path, use, sampling)


def _open_run(path, use, sampling, options) -> OpenedModel:
    """Load a run; arguments as in `open_model`."""
    from keras_transformer.runs.model_dir import ModelDir
    from keras_transformer.serving.signatures import ParsingModule

    model_dir = ModelDir(path)
    config = model_dir.read_config()
    if use != "parse" and (use not in (None, "serve") or config.task == "translation"):
        return _open_translator(model_dir, config, use, sampling, options)
    if any(options.pop("languages", ())):
        raise ValueError(
            "--source_language and --target_language are for translation models, "
            f"but {path} is a parser."
        )
    parser = model_dir.load_parser(**options)
    if use is not None:
        parser = parser.with_prepared_weights()
    return OpenedModel(
        source_language=config.source_language,
        target_language=config.target_language,
        max_input_length=parser.decoding.max_input_length,
        run_batch=lambda text: parser.parse_batch(text),
        signatures=_concrete(ParsingModule(parser)) if use == "serve" else {},
        searcher=parser,
    )


def _open_translator(model_dir, config, use, sampling, options) -> OpenedModel:
    """Load the translator of a run; arguments as in `open_model`."""
    from keras_transformer.serving.signatures import ServingModule
    from keras_transformer.translation.sampling import sampler

    translator = model_dir.load_translator(**options)
    if use is not None:
        translator = translator.with_prepared_weights(
            program_sizes=_program_sizes(translator, use)
        )
    tokenizer = translator.tokenizer
    source_language = options.get("languages", (None,))[0] or config.source_language
    is_aligned = use == "align" or (use == "protect" and not tokenizer.placeholders)
    # A bound tf.function does not keep its object alive; a lambda does.
    run_batch = lambda text: translator.translate_batch(text)  # noqa: E731
    if is_aligned:
        run_batch = lambda text: translator.align_batch(text)  # noqa: E731
    module = ServingModule(translator, source_language=source_language)
    if use == "sample":
        run_batch = sampler(lambda **inputs: module.sample(**inputs), sampling)
    return OpenedModel(
        source_language=source_language,
        target_language=tokenizer.default_language or config.target_language,
        languages=tuple(tokenizer.languages),
        language_tokens=tokenizer.language_tokens,
        markers=tuple(tokenizer.markers),
        default_language=tokenizer.default_language,
        max_input_length=translator.decoding.max_input_length,
        placeholders=tuple(tokenizer.placeholders),
        run_batch=run_batch,
        signatures=_concrete(module) if use == "serve" else {},
        compiler=translator.compiler,
        searcher=translator,
        owner=module,
    )


def _program_sizes(translator: Any, use: str) -> list:
    """Return the sizes of the searches that may be compiled for a use."""
    if use == "sample":
        return []
    if use == "serve":
        return translator.program_sizes(hardware.device())
    return translator.sizes_of_large_batches()


def _concrete(module: Any) -> dict[str, Any]:
    """Return the functions of a serving module as an export has them."""
    return {
        name: function.get_concrete_function()
        for name, function in module.signatures().items()
    }
