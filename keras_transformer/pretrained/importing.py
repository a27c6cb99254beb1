"""Writing a published model as a model_dir."""

from __future__ import annotations

import itertools
import os
import pathlib
from typing import Any

import huggingface_hub
import keras
import numpy as np
import tensorflow as tf
import yaml

from keras_transformer import atomic_files, language_tokens
from keras_transformer.config import TrainingConfig, check_choice
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model.transformer import Transformer, weights_by_path
from keras_transformer.pretrained import huggingface, marian
from keras_transformer.pretrained.published_model import PublishedModel, PublishedTensor
from keras_transformer.runs import model_card
from keras_transformer.runs.checkpoints import Checkpoint
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig

FORMATS = ("auto", "huggingface", "marian")
# The card of a published model.
CARD = "README.md"


def import_model(
    folder: str | os.PathLike,
    model_dir: str | os.PathLike,
    model_format: str = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read a published model and write it as a model_dir.

    Args:
        folder: The files of the model.
        model_dir: The folder to write, which must not hold a model.
        model_format: One of `FORMATS`; "auto" looks at the files.
        source_language: Code of the source language, such as "en". M2M-100 and NLLB
            need it; for other models it is recorded instead of their own.
        target_language: The same for the target language.
        name: The model's name on the Hugging Face Hub, to be recorded.

    Returns:
        "family", "parameters", "model_dir", and "notes": what differs from the library
        of the model, in words.

    Raises:
        FileNotFoundError: If a file is absent.
        FileExistsError: If `model_dir` already holds a model.
        NotADirectoryError: If `model_dir` is a file.
        ValueError: If the model has options that are not supported, or a tensor is
            missing, left over, of another shape or not finite.
    """
    folder, place = pathlib.Path(folder), ModelDir(model_dir)
    place.check_has_no_model("model_dir")
    published = read(folder, model_format, source_language, target_language)
    check_vocabulary_size(published)
    tokenizer = published.tokenizer
    if tokenizer.is_multilingual and target_language is not None:
        language_tokens.check("target_language", target_language, tokenizer.languages)
    model = build(published)
    sums = {
        path.relative_to(folder).as_posix(): atomic_files.sha256_of(path)
        for path in published.files
    }
    config = RunConfig(
        preset="imported",
        model=published.model,
        training=TrainingConfig(),
        decoding=published.decoding,
        source_language=published.source_language,
        target_language=published.target_language,
        tokenizer_hash=published.tokenizer.fingerprint,
        default_language=_default_language(published),
        origin={
            "family": published.family,
            **({"name": name} if name else {}),
            **licence_of(folder),
            "sha256": sums,
        },
    )
    place.write(model, published.tokenizer, config)
    model_card.update(place, Checkpoint(place.model_path, 0), model.count_params())
    return {
        "family": published.family,
        "parameters": model.count_params(),
        "model_dir": str(place.path),
        "notes": list(published.notes),
    }


def licence_of(folder: pathlib.Path) -> dict[str, str]:
    """Return what the card of a published model says of its licence, if it does."""
    try:
        head = huggingface_hub.metadata_load(folder / CARD) or {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return {
        key: head[key]
        for key in model_card.LICENCE_KEYS
        if isinstance(head.get(key), str)
    }


def _default_language(published: PublishedModel) -> str | None:
    """Return the language that is put before each source, if one was chosen."""
    tokenizer, target = published.tokenizer, published.target_language
    if not (tokenizer.is_multilingual and tokenizer.language_tokens and target):
        return None
    return target if target in tokenizer.languages else None


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
        elif marian.decoder_file(folder) is not None:
            model_format = "marian"
        else:
            raise FileNotFoundError(
                f"{folder} has neither config.json (Hugging Face) nor decoder.yml "
                "(Marian). Give the folder of a published model."
            )
    if model_format == "marian":
        return marian.read(folder, source_language, target_language)
    return huggingface.read(folder, source_language, target_language)


def check_vocabulary_size(published: PublishedModel) -> None:
    """Check that the vocabularies have as many ids as the model.

    Raises:
        ValueError: If they have not.
    """
    tokenizer, config = published.tokenizer, published.model
    target_size = tokenizer.target_vocab_size or tokenizer.vocab_size
    for name, pieces, ids in (
        ("vocabulary", tokenizer.vocab_size, config.vocab_size),
        ("target vocabulary", target_size, config.output_vocab_size),
    ):
        if pieces != ids:
            raise ValueError(
                f"The {name} has {pieces:,} pieces and the model {ids:,}. They belong "
                "to different models."
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
        _fill(weight, tensors[path], published)
    for name in copies:
        original = published.copies[name]
        pairs = itertools.zip_longest(*map(published.blocks, (name, original)))
        if not all(itertools.starmap(np.array_equal, pairs)):
            raise ValueError(f"The tensor {name} must be equal to {original}.")
    return model


def _fill(
    weight: keras.Variable, tensor: PublishedTensor, published: PublishedModel
) -> None:
    """Assign a tensor, in blocks of rows if it needs no conversion.

    Raises:
        ValueError: If it has another shape or is not finite.
    """
    blocks = published.blocks(tensor.name)
    if tensor.convert is not None:
        blocks = iter([tensor.convert(np.concatenate(list(blocks)))])
    rows, shape = 0, tuple(weight.shape)
    for block in blocks:
        if not np.isfinite(block).all():
            raise ValueError(
                f"The tensor {tensor.name} has values that are not finite."
            )
        places = np.arange(rows, rows + len(block))
        rows += len(block)
        found = (rows, *block.shape[1:])
        if found == shape and len(block) == rows:
            weight.assign(block)
        elif found[1:] == shape[1:] and rows <= shape[0]:
            weight.value.scatter_update(tf.IndexedSlices(block, places))
    # After a scattered update TensorFlow copies the variable whenever it is read.
    tf.raw_ops.DisableCopyOnRead(resource=weight.value.handle)
    if found != shape:
        raise ValueError(
            f"The tensor {tensor.name} must have the shape {shape}. Received: {found}."
        )


def _and_others(names: list[str]) -> str:
    return f", and {len(names) - 1} others" if len(names) > 1 else ""
