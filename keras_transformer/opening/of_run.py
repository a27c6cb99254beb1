"""Runs and imported models: their translators and parsers, ready for a use."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_transformer import hardware, tasks
from keras_transformer.config import INT8
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.inference.translator import Translator
from keras_transformer.parsing import symbols
from keras_transformer.parsing.parser import Parser
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.serving.signatures import ParsingModule, ServingModule
from keras_transformer.translation.opened_model import OpenedModel
from keras_transformer.translation.sampling import Sampling, sampler


def open_run(
    path: str | os.PathLike,
    use: str | None,
    sampling: Sampling | None,
    options: dict[str, Any],
) -> OpenedModel:
    """Load the model of a run; arguments as in `opening.open_model`."""
    model_dir = ModelDir(path)
    config = model_dir.read_config()
    task = tasks.of(config.task)
    needed = options.pop("task", None)
    if use == "parse":
        needed = tasks.PARSING
    elif use not in (None, "serve"):
        needed = tasks.TRANSLATION
    if needed is not None:
        needed.check(task.name, path)
    return _OPENERS[task](model_dir, config, use, sampling, options)


def _open_parser(model_dir, config, use, sampling, options) -> OpenedModel:
    """Load a parser; arguments as in `open_run`."""
    del sampling
    if any(options.pop("languages", ())):
        raise ValueError(
            "--source_language and --target_language are for translation models, "
            f"but {model_dir.path} is a parser."
        )
    has_int8 = _takes_int8(options)
    parser = _load_parser(model_dir, config, **options)
    if has_int8:
        parser = parser.quantized()
    elif use is not None:
        parser = parser.with_prepared_weights()
    return OpenedModel(
        source_language=config.source_language,
        target_language=config.target_language,
        max_input_length=parser.decoding.max_input_length,
        run_batch=parser.parse_batch,
        signatures=_concrete(ParsingModule(parser)) if use == "serve" else {},
        searcher=parser,
    )


def _open_translator(model_dir, config, use, sampling, options) -> OpenedModel:
    """Load a translator; arguments as in `open_run`."""
    has_int8 = _takes_int8(options)
    translator = _load_translator(model_dir, config, **options)
    if has_int8:
        translator = translator.quantized()
    elif use is not None:
        translator = translator.with_prepared_weights(
            program_sizes=_program_sizes(translator, use)
        )
    tokenizer = translator.tokenizer
    source_language = options.get("languages", (None,))[0] or config.source_language
    is_aligned = use == "align" or (use == "protect" and not tokenizer.placeholders)
    run_batch = translator.align_batch if is_aligned else translator.translate_batch
    module = ServingModule(translator, source_language=source_language)
    if use == "sample":
        # A bound tf.function does not keep its object alive; a lambda does.
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


def _takes_int8(options: dict[str, Any]) -> bool:
    """Return whether the precision is int8, and load the model in float32 then."""
    if options.get("precision") != INT8:
        return False
    options["precision"] = "float32"
    return True


_OPENERS = {tasks.TRANSLATION: _open_translator, tasks.PARSING: _open_parser}


def _load_translator(
    model_dir: ModelDir,
    config: RunConfig,
    *,
    num_best: int = 1,
    languages: tuple[str | None, str | None] = (None, None),
    shortlist: bool | None = None,
    ensemble: Sequence[tuple[pathlib.Path, pathlib.Path]] = (),
    **options: Any,
) -> Translator:
    """Load the translator of a run; arguments as in `opening.open_model`."""
    model, tokenizer, settings = _parts(model_dir, config, **options)
    found = None
    if shortlist:
        found = Shortlist.load(model_dir.shortlist_path, tokenizer.fingerprint)
    return Translator(
        model,
        model_dir.told(tokenizer, languages, config),
        settings,
        num_best=num_best,
        shortlist=found,
        others=[
            ModelDir(folder).load_model(str(weights), options.get("precision"))
            for folder, weights in ensemble
        ],
    )


def _load_parser(
    model_dir: ModelDir,
    config: RunConfig,
    *,
    constrained: bool = True,
    **options: Any,
) -> Parser:
    """Load the parser of a run; arguments as in `opening.open_model`."""
    model, tokenizer, settings = _parts(model_dir, config, **options)
    labels = symbols.load(model_dir.labels_path)
    return Parser(model, tokenizer, labels, settings, constrained=constrained)


def _parts(
    model_dir, config, checkpoint=None, precision=None, tokenizer=None, **decoding
):
    """Return model, tokenizer and search settings."""
    given = {name: value for name, value in decoding.items() if value is not None}
    settings = dataclasses.replace(config.decoding, **given)
    model = model_dir.load_model(checkpoint, precision, config)
    if tokenizer is None:
        tokenizer = model_dir.load_tokenizer()
    return model, tokenizer, settings


def _program_sizes(translator: Translator, use: str) -> list:
    """Return the sizes of the searches that may be compiled for a use."""
    if use == "sample":
        return []
    if use == "serve":
        return translator.program_sizes(hardware.device())
    return translator.sizes_of_large_batches()


def _concrete(module: ServingModule | ParsingModule) -> dict[str, Any]:
    """Return the functions of a serving module as an export has them."""
    return {
        name: function.get_concrete_function()
        for name, function in module.signatures().items()
    }
