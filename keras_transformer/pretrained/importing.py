"""Writing a published model as a model_dir."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

from keras_transformer import atomic_files
from keras_transformer.config import TrainingConfig, check_choice
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model.transformer import Transformer, weights_by_path
from keras_transformer.pretrained import huggingface, marian
from keras_transformer.pretrained.published_model import PublishedModel
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig

FORMATS = ("auto", "huggingface", "marian")
# `preset` of the configuration of an imported model.
PRESET = "imported"


def import_model(
    folder: str | os.PathLike,
    model_dir: str | os.PathLike,
    model_format: str = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
) -> dict[str, Any]:
    """Read a published model and write it as a model_dir.

    Args:
        folder: The files of the model.
        model_dir: The folder to write, which must not hold a model.
        model_format: One of `FORMATS`; "auto" looks at the files.
        source_language: M2M-100: code of the source language.
        target_language: M2M-100: code of the target language.

    Returns:
        "family", "parameters", "model_dir".

    Raises:
        FileNotFoundError: If a file is absent.
        FileExistsError: If `model_dir` already holds a model.
        ValueError: If the model has options that are not supported, or a tensor is
            missing, left over, of another shape or not finite.
    """
    folder, place = pathlib.Path(folder), ModelDir(model_dir)
    if place.config_path.exists():
        raise FileExistsError(
            f"{place.path} already holds a model. Give another --model_dir."
        )
    published = read(folder, model_format, source_language, target_language)
    check_vocabulary_size(published)
    model = build(published)
    sums = {
        path.relative_to(folder).as_posix(): atomic_files.sha256_of(path)
        for path in published.files
    }
    config = RunConfig(
        preset=PRESET,
        model=published.model,
        training=TrainingConfig(),
        decoding=published.decoding,
        source_language=published.source_language,
        target_language=published.target_language,
        tokenizer_hash=published.tokenizer.fingerprint,
        origin={"family": published.family, "sha256": sums},
    )
    place.path.mkdir(parents=True, exist_ok=True)
    published.tokenizer.save(place.tokenizer_path)
    place.save_model(model)
    place.write_config(config)  # last: without it there is no model
    return {
        "family": published.family,
        "parameters": model.count_params(),
        "model_dir": str(place.path),
    }


def read(
    folder: pathlib.Path,
    model_format: str = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
) -> PublishedModel:
    """Describe a published model; arguments and errors are those of `import_model`."""
    check_choice("format", model_format, FORMATS)
    if not folder.is_dir():
        raise FileNotFoundError(f"No folder {folder}.")
    if model_format == "auto":
        if (folder / "config.json").is_file():
            model_format = "huggingface"
        elif (folder / "decoder.yml").is_file():
            model_format = "marian"
        else:
            raise FileNotFoundError(
                f"{folder} has neither config.json (Hugging Face) nor decoder.yml "
                "(Marian). Give the folder of a published model."
            )
    if model_format == "marian":
        return marian.read(folder)
    return huggingface.read(folder, source_language, target_language)


def check_vocabulary_size(published: PublishedModel) -> None:
    """Check that the vocabulary has as many ids as the model.

    Raises:
        ValueError: If it has not.
    """
    sizes = published.tokenizer.vocab_size, published.model.vocab_size
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"The vocabulary has {sizes[0]:,} pieces and the model {sizes[1]:,}. They "
            "belong to different models."
        )


def build(published: PublishedModel) -> Transformer:
    """Build the model and fill in its weights, one tensor at a time.

    Raises:
        ValueError: If a tensor is missing, left over, of another shape or not finite.
    """
    tensors, names = published.tensors, published.names
    used = {tensor.name for tensor in tensors.values()}
    copies = {name for name in published.copies if name in names}
    if missing := sorted(used - names):
        raise ValueError(f"The tensor {missing[0]} is missing{_and_others(missing)}.")
    if left := sorted(names - used - copies):
        raise ValueError(
            f"The tensor {left[0]} belongs to no weight of ours{_and_others(left)}."
        )
    with skip_weight_init():
        model = Transformer(published.model)
    for path, weight in weights_by_path(model).items():
        tensor = tensors[path]
        array = tensor.convert(published.read(tensor.name))
        if array.shape != tuple(weight.shape):
            raise ValueError(
                f"The tensor {tensor.name} must have the shape {tuple(weight.shape)}. "
                f"Received: {array.shape}."
            )
        if not np.isfinite(array).all():
            raise ValueError(
                f"The tensor {tensor.name} has values that are not finite."
            )
        weight.assign(array)
    for name in copies:
        original = published.copies[name]
        if not np.array_equal(published.read(name), published.read(original)):
            raise ValueError(f"The tensor {name} must be equal to {original}.")
    return model


def _and_others(names: list[str]) -> str:
    return f", and {len(names) - 1} others" if len(names) > 1 else ""
