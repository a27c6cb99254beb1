"""Reading exported models (SavedModels, as loaded by TF Serving).

Imports no layer, no model and no search: an export has them in its graph.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operators of the vocabulary
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer import atomic_files, tasks
from keras_transformer.language_tokens import token_of
from keras_transformer.translation.compiling_beside import CompilerBeside, compiling
from keras_transformer.translation.opened_model import ModelFacts, OpenedModel
from keras_transformer.translation.program_sizes import COMPILE, STATE, Size
from keras_transformer.translation.sampling import Sampling, sampler

# The signature of each use, and newer ones of its outputs.
_SIGNATURES = {
    "translate": (tasks.TRANSLATION.signature, ()),
    "align": ("align", ("log_probabilities", "source_words")),
    "sample": ("sample", ()),
    "parse": (tasks.PARSING.signature, ()),
}
# TensorFlow's name of an operation that it has where it is built with oneDNN.
_INT8_PRODUCT = "_QuantizedMatMul"
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


def read_facts(saved_model: str | os.PathLike) -> ModelFacts:
    """Return what to know of an exported model, from its description.

    Raises:
        ValueError: If the description is damaged.
    """
    return _facts(saved_model, read_description(saved_model))


def _facts(saved_model, description) -> ModelFacts:
    """Same as `read_facts`, with the description."""
    name = pathlib.Path(saved_model).resolve().name
    default = description.get("default_language")
    languages = tuple(description.get("languages", ()))
    # Earlier releases wrote languages alone.
    tokens = tuple(description.get("language_tokens", map(token_of, languages)))
    return ModelFacts(
        version=int(name) if name.isdecimal() else 1,
        source_language=description.get("source_language") or "",
        target_language=default or description.get("target_language") or "",
        languages=languages,
        language_tokens=tokens,
        markers=(*tokens, *description.get("markers", ())),
        default_language=default,
        max_input_length=description.get("decoding", {}).get("max_input_length"),
        placeholders=tuple(description.get("placeholders", ())),
    )


def open_export(
    saved_model: str | os.PathLike,
    use: str = "translate",
    sampling: Sampling | None = None,
) -> OpenedModel:
    """Load an exported model; arguments as in `opening.open_model`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it is not for this use, or is damaged.
    """
    description = read_description(saved_model)
    facts = _facts(saved_model, description)
    name = _checked(saved_model, use, facts.placeholders)
    loaded = _load(saved_model)
    compiler, run_batch = None, None
    if use in ("translate", "align", "protect", "serve"):
        compiler = compiler_of(loaded, description)
    if use == "sample":
        run_batch = sampler(functools.partial(_call, loaded, name), sampling)
    elif use != "serve":
        run_batch = compiling(lambda text: _call(loaded, name, text=text), compiler)
    return OpenedModel(
        **dataclasses.asdict(facts),
        run_batch=run_batch,
        signatures=loaded.signatures if use == "serve" else {},
        compiler=compiler,
        owner=loaded,
        first_alone=False,
    )


def check_use(saved_model: str | os.PathLike, use: str) -> None:
    """Raise unless an export is for a use; loads no weights.

    Args:
        saved_model: The folder of a version, local or remote (gs://).
        use: One of `opened_model.USES`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it is not for this use, or is damaged.
    """
    _checked(saved_model, use, read_facts(saved_model).placeholders)


def _checked(saved_model, use, placeholders) -> str | None:
    """Return the signature for a use, None if all are; raise as `check_use` does."""
    if use == "serve":
        _read_graph(saved_model)
        return None
    if use == "protect":
        use = "translate" if placeholders else "align"
    name, outputs = _SIGNATURES[use]
    check_signature(saved_model, name, outputs)
    return name


def compiler_of(loaded: Any, description: Mapping[str, Any]) -> CompilerBeside | None:
    """Return what compiles the programs of an export, if it has and describes some.

    Args:
        loaded: The loaded export.
        description: From `read_description`; {} if it was copied without that file.
    """
    if COMPILE not in loaded.signatures or "programs" not in description:
        return None
    return CompilerBeside(
        {name: functools.partial(_call, loaded, name) for name in (COMPILE, STATE)},
        [Size(*each) for each in description["programs"]],
        description["step_weights"],
    )


def check_signature(
    saved_model: str | os.PathLike, name: str, outputs: Sequence[str] = ()
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
        if _INT8_PRODUCT in str(error):
            raise ValueError(
                f"The model in {saved_model} has weights of 8 bits, which the "
                "TensorFlow of this system cannot multiply. Export the model with "
                "--precision=float32."
            ) from error
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


def _call(loaded: Any, name: str, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Call a signature; the caller keeps `loaded` alive, which owns the weights."""
    return loaded.signatures[name](**inputs)
