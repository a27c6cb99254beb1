"""Reading exported models (SavedModels, as loaded by TF Serving).

Imports no layer, no model and no search: an export has them in its graph.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operators of the vocabulary
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer import atomic_files
from keras_transformer.language_tokens import token_of
from keras_transformer.translation.compiling_beside import CompilerBeside, compiling
from keras_transformer.translation.program_sizes import COMPILE, STATE, Size
from keras_transformer.translation.sampling import Sampling, sampler

# Signatures that translate, and that parse in the export of a parser.
SIGNATURE = "serving_default"
PARSE_SIGNATURE = "parse"
# The signature with the alignment of words, and the newer of its outputs.
_ALIGNED = ("align", ("log_probabilities", "source_words"))
# In the folder where TF Serving expects additional files.
DESCRIPTION = pathlib.PurePath("assets.extra") / "keras_transformer.json"


def read_description(saved_model: str | os.PathLike) -> dict[str, Any]:
    """Return the description of an exported model, {} if it has none.

    Raises:
        ValueError: If the description is damaged.
    """
    path = os.path.join(saved_model, DESCRIPTION)
    content = _content(path)
    if content is None:
        return {}
    try:
        description = json.loads(content)
        if isinstance(description, dict):
            return description
    except ValueError:
        pass
    raise ValueError(f"{path} is damaged: export the model again.")


def language_tokens(description: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a text of an exported model may begin with to tell its language.

    Args:
        description: From `read_description`; earlier releases wrote languages alone.
    """
    tokens = map(token_of, description.get("languages", ()))
    return tuple(description.get("language_tokens", tokens))


def load(
    saved_model: str | os.PathLike, sampling: Sampling | None = None
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load an exported model; return the batch function for `translate_in_batches`.

    Args:
        saved_model: The folder of a version, local or remote (gs://).
        sampling: How to draw translations; None: search for the best.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it does not translate, or is damaged.
    """
    if sampling is not None:
        return sampler(_signature(saved_model, "sample"), sampling)
    return _compiling(saved_model, SIGNATURE)


def compiler_of(loaded: Any, saved_model: str | os.PathLike) -> CompilerBeside | None:
    """Return what compiles the programs of an export, if it has and describes some.

    Args:
        loaded: The loaded export.
        saved_model: Its folder.
    """
    if COMPILE not in loaded.signatures:
        return None
    description = read_description(saved_model)
    if "programs" not in description:  # copied without its additional files
        return None
    return CompilerBeside(
        {name: functools.partial(_call, loaded, name) for name in (COMPILE, STATE)},
        [Size(*each) for each in description["programs"]],
        description["step_weights"],
    )


def load_aligned(
    saved_model: str | os.PathLike,
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load an exported model as in `load`, with the outputs of its signature `align`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it has no such signature or an earlier one, or is damaged.
    """
    return _compiling(saved_model, *_ALIGNED)


def check_aligned(saved_model: str | os.PathLike) -> None:
    """Raise as `load_aligned` does unless it can load a model; loads no weights."""
    check_signature(saved_model, *_ALIGNED)


def load_parser(
    saved_model: str | os.PathLike,
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load a parser as in `load`; return the batch function for `parse_in_batches`."""
    serve = _signature(saved_model, PARSE_SIGNATURE)
    return lambda text: serve(text=text)


def load_all(saved_model: str | os.PathLike) -> Any:
    """Load an exported model with all its signatures, in the attribute `signatures`.

    They need the returned object, which owns the weights.

    Args:
        saved_model: The folder of a version, local or remote (gs://).

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it is damaged.
    """
    _read_graph(saved_model)
    return _load(saved_model)


def check_signature(
    saved_model: str | os.PathLike, name: str = SIGNATURE, outputs: Sequence[str] = ()
) -> None:
    """Raise unless a folder has a model with this signature; loads no weights.

    Args:
        saved_model: The folder of a version, local or remote (gs://).
        name: Name of the signature.
        outputs: Outputs that it must have.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it has no such signature or outputs, or is damaged.
    """
    graph = _read_graph(saved_model)
    names = [key for key in graph.signature_def if not key.startswith("__")]
    if name not in names:
        raise ValueError(
            f"The model in {saved_model} must have the signature {name!r}. "
            f"Received: {', '.join(sorted(names)) or 'none'}."
        )
    missing = sorted(set(outputs) - set(graph.signature_def[name].outputs))
    if missing:
        raise ValueError(
            f"The signature {name!r} of the model in {saved_model} has no "
            f"{', '.join(missing)}, as an earlier version wrote it. Export the model "
            "again."
        )


def _load(saved_model: str | os.PathLike) -> Any:
    try:
        with atomic_files.without_pattern(saved_model) as folder:
            return tf.saved_model.load(folder)
    except Exception as error:  # each kind of damage raises another exception
        raise ValueError(
            f"The model in {saved_model} cannot be loaded, perhaps because a file is "
            f"missing or damaged: {str(error).splitlines()[0]}. Copy the whole folder "
            "again, or export the model again."
        ) from error


def _read_graph(saved_model: str | os.PathLike) -> Any:
    """Read saved_model.pb; return its graph definition."""
    path = os.path.join(saved_model, "saved_model.pb")
    content = _content(path)
    if content is None:
        raise FileNotFoundError(
            f"No saved_model.pb in {saved_model}. Give the folder with the version "
            "number, EXPORT_DIR/VERSION."
        )
    try:
        (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    except (DecodeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: export the model again.") from error
    return graph


def _content(path: str) -> bytes | None:
    """Return the content of a file, local or remote (gs://); None if there is none."""
    try:
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.OpError as error:
        raise OSError(
            f"Could not read {path}: {atomic_files.reason(error)}."
        ) from error


def _translate_batch(serve: Callable) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Give a signature with one translation a text the form of `translate_batch`."""

    def translate_batch(text):
        result = dict(serve(text=text))
        translation, score = result.pop("translation"), result.pop("score")
        return {
            **result,
            "translations": translation[:, tf.newaxis],
            "scores": score[:, tf.newaxis],
        }

    return translate_batch


def _compiling(
    saved_model: str | os.PathLike, name: str, outputs: Sequence[str] = ()
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load a signature that translates, and what compiles programs beside its batches.

    Arguments as in `check_signature`.
    """
    check_signature(saved_model, name, outputs)
    loaded = _load(saved_model)
    translate_batch = _translate_batch(functools.partial(_call, loaded, name))
    return compiling(translate_batch, compiler_of(loaded, saved_model))


def _signature(
    saved_model: str | os.PathLike, name: str, outputs: Sequence[str] = ()
) -> Callable:
    """Load one signature of an exported model; arguments as in `check_signature`."""
    check_signature(saved_model, name, outputs)
    return functools.partial(_call, _load(saved_model), name)


def _call(loaded: Any, name: str, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Call a signature; the caller keeps `loaded` alive, which owns the weights."""
    return loaded.signatures[name](**inputs)
