"""Making what the server serves of a model that is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from keras_transformer.server.served_model import ServedModel, Signature, TensorInfo
from keras_transformer.server.server_config import ServerConfig
from keras_transformer.serving.warmup import inputs_for
from keras_transformer.translation.opened_model import ModelFacts, OpenedModel
from keras_transformer.translation.program_sizes import COMPILE, STATE


def served(
    model: OpenedModel, max_batch_size: int = ServerConfig.max_batch_size
) -> ServedModel:
    """Describe the signatures of a model, and run each once: its first call is slow.

    The usual searches are compiled meanwhile and beside the first requests.

    Args:
        model: Opened for the use "serve".
        max_batch_size: Texts of the largest batch to compile searches for.
    """
    signatures = {
        name: _signature(function, model)
        for name, function in model.signatures.items()
        if name not in (COMPILE, STATE)
    }
    for name, signature in signatures.items():
        signature.run(inputs_for(name, ["a"]))
    facts = {
        field.name: getattr(model, field.name)
        for field in dataclasses.fields(ModelFacts)
    }
    if model.compiler is not None:
        model.compiler.start(max_batch_size)
        facts["num_programs"] = model.compiler.num_compiled
    return ServedModel(signatures=signatures, **facts)


def _signature(function: Callable, model: OpenedModel) -> Signature:
    inputs = _infos(function.structured_input_signature[1])
    if not inputs:  # a traced method has its inputs in order
        inputs = _infos({spec.name: spec for spec in _positional(function)})

    def run(values):
        tensors = {
            name: tf.constant(values[name], info.dtype) for name, info in inputs.items()
        }
        outputs = function(**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    run.model = model  # owns the weights, which the function does not keep alive
    return Signature(inputs, _infos(function.structured_outputs), run)


def _positional(function: Callable) -> list[tf.TensorSpec]:
    specs = tf.nest.flatten(function.structured_input_signature[0])
    return [spec for spec in specs if isinstance(spec, tf.TensorSpec)]


def _infos(specs: Mapping[str, tf.TensorSpec]) -> dict[str, TensorInfo]:
    return {
        name: TensorInfo(spec.dtype.name, tuple(spec.shape))
        for name, spec in specs.items()
    }
