"""Loading what the server serves: an export, or the folder of a trained model."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.server.served_model import ServedModel, Signature, TensorInfo
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.serving.signatures import ParsingModule, ServingModule
from keras_transformer.serving.warmup import inputs_for
from keras_transformer.translation import exported_model
from keras_transformer.translation.compiling_beside import CompilerBeside
from keras_transformer.translation.program_sizes import COMPILE, STATE


def load_export(
    path: str | os.PathLike, max_batch_size: int = ServerConfig.max_batch_size
) -> ServedModel:
    """Load an export with all its signatures.

    Args:
        path: The folder of a version, EXPORT_DIR/VERSION.
        max_batch_size: Texts of the largest batch to compile searches for.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it is damaged, or has no signature.
    """
    loaded = exported_model.load_all(path)
    description = exported_model.read_description(path)
    name = pathlib.Path(path).resolve().name
    compiler = exported_model.compiler_of(loaded, path)
    return _served(
        loaded.signatures,
        owner=loaded,
        compiler=compiler,
        max_batch_size=max_batch_size,
        version=int(name) if name.isdecimal() else 1,
        source_language=description.get("source_language") or "",
        target_language=description.get("default_language")
        or description.get("target_language")
        or "",
        languages=tuple(description.get("languages", ())),
        language_tokens=exported_model.language_tokens(description),
        default_language=description.get("default_language"),
        max_input_length=description.get("decoding", {}).get("max_input_length"),
        placeholders=tuple(description.get("placeholders", ())),
    )


def load_model_dir(
    path: str | os.PathLike,
    checkpoint: str | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    max_batch_size: int = ServerConfig.max_batch_size,
    **decoding: Any,
) -> ServedModel:
    """Load a trained model with the signatures that its export would have.

    Args:
        path: The `model_dir`.
        checkpoint: As in `ModelDir.choose`.
        languages: As in `ModelDir.load_translator`.
        max_batch_size: Same as in `load_export`.
        **decoding: Fields of `DecodingConfig` to replace.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If a value does not fit the model.
    """
    model_dir = ModelDir(path)
    config = model_dir.read_config()
    if config.task == "parsing":
        if any(languages):
            raise ValueError(
                "--source_language and --target_language are for translation models, "
                f"but {path} is a parser."
            )
        parser = model_dir.load_parser(checkpoint, **decoding)
        compiler = None
        module = ParsingModule(parser.with_prepared_weights())
        known, tokens, placeholders, default = (), (), (), None
        limit = parser.decoding.max_input_length
    else:
        translator = model_dir.load_translator(
            checkpoint, languages=languages, **decoding
        )
        translator = translator.with_prepared_weights(
            program_sizes=translator.program_sizes(hardware.device())
        )
        compiler = translator.compiler
        module = ServingModule(
            translator,
            source_language=languages[0] or config.source_language,
        )
        known = tuple(translator.tokenizer.languages)
        tokens = translator.tokenizer.language_tokens
        default = translator.tokenizer.default_language
        limit = translator.decoding.max_input_length
        placeholders = tuple(translator.tokenizer.placeholders)
    functions = {
        name: function.get_concrete_function()
        for name, function in module.signatures().items()
    }
    return _served(
        functions,
        owner=module,
        compiler=compiler,
        max_batch_size=max_batch_size,
        version=1,
        source_language=languages[0] or config.source_language,
        target_language=default or config.target_language,
        languages=known,
        language_tokens=tokens,
        default_language=default,
        max_input_length=limit,
        placeholders=placeholders,
    )


def _served(
    functions: Mapping[str, Callable],
    owner: Any,
    compiler: CompilerBeside | None,
    max_batch_size: int,
    **about: Any,
) -> ServedModel:
    """Describe functions, and run each once: its first call is slow.

    The usual searches are compiled meanwhile and beside the first requests.
    """
    signatures = {
        name: _signature(function, owner)
        for name, function in functions.items()
        if name not in (COMPILE, STATE)
    }
    for name, signature in signatures.items():
        signature.run(inputs_for(name, ["a"]))
    if compiler is not None:
        compiler.start(max_batch_size)
        about["num_programs"] = compiler.num_compiled
    return ServedModel(signatures=signatures, **about)


def _signature(function: Callable, owner: Any) -> Signature:
    inputs = _infos(function.structured_input_signature[1])
    if not inputs:  # a traced method has its inputs in order
        inputs = _infos({spec.name: spec for spec in _positional(function)})

    def run(values):
        tensors = {
            name: tf.constant(values[name], info.dtype) for name, info in inputs.items()
        }
        outputs = function(**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    run.owner = owner  # owns the weights, which the function does not keep alive
    return Signature(inputs, _infos(function.structured_outputs), run)


def _positional(function: Callable) -> list[tf.TensorSpec]:
    specs = tf.nest.flatten(function.structured_input_signature[0])
    return [spec for spec in specs if isinstance(spec, tf.TensorSpec)]


def _infos(specs: Mapping[str, tf.TensorSpec]) -> dict[str, TensorInfo]:
    return {
        name: TensorInfo(spec.dtype.name, tuple(spec.shape))
        for name, spec in specs.items()
    }
