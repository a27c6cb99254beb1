"""Starting a run from the weights of another model."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from keras_transformer import presets
from keras_transformer.config import ModelConfig
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig

# Fields of `ModelConfig` that decide which weights there are and their shapes.
_WEIGHT_FIELDS = (
    "vocab_size",
    "output_vocab_size",
    "num_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "d_model",
    "d_ff",
    "encoder_d_ff",
    "decoder_d_ff",
    "normalize_embeddings",
    "num_heads",
    "head_key_dim",
    "head_value_dim",
    "norm_placement",
    "attention_bias",
    "share_embeddings",
    "share_decoder_embeddings",
    "output_bias",
    "position_encoding",
)


def check_can_start_from(path: str, config: RunConfig) -> None:
    """Raise unless a run can start from the weights of another model.

    Reads only configurations, so that a mistake is found before anything is built.

    Args:
        path: A model_dir, or a checkpoint in one.
        config: Configuration of the run to start.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If its vocabulary, labels or architecture differ.
    """
    model_dir, _ = _locate(path)
    other = model_dir.read_config()
    if not _has_vocabulary(model_dir, other, config):
        raise ValueError(
            f"The model in {model_dir.path} has another vocabulary than the corpus. To "
            f"fine-tune it, prepare the corpus with --tokenizer_from={model_dir.path}."
        )
    if other.labels_hash != config.labels_hash:
        raise ValueError(
            f"The model in {model_dir.path} knows other constituent labels or tags "
            "than the corpus. Only a corpus with the same ones (--keep_tags) can "
            "fine-tune it."
        )
    theirs, ours = _weight_fields(other.model), _weight_fields(config.model)
    different = [
        f"{name} is {theirs[name]!r} there and {ours[name]!r} here"
        for name in ours
        if ours[name] != theirs[name]
    ]
    if different:
        raise ValueError(
            f"The model in {model_dir.path} has other weights than this run: "
            f"{', '.join(different)}. "
            "Give the preset and the flags that it was trained with."
        )


def describe(path: str) -> dict[str, Any]:
    """Return what `config.json` says of the model that a run starts from.

    Args:
        path: As in `check_can_start_from`.

    Raises:
        FileNotFoundError: If there is no such model.
    """
    model_dir, _ = _locate(path)
    other = model_dir.read_config()
    published = dict(other.origin or other.start or {})
    published.pop("sha256", None)
    return {**published, "model": model_dir.path.resolve().name}


def load_weights(path: str, model: Transformer) -> None:
    """Set a model's weights to those of another model.

    Its optimizer stays fresh, and its adapters stay as they are.

    Args:
        path: As in `check_can_start_from`, which has passed.
        model: Takes the weights.
    """
    model_dir, checkpoint = _locate(path)
    values = model_dir.load_model(checkpoint).get_weights()
    for weight, value in zip(lora.weights_without_adapters(model), values, strict=True):
        weight.assign(value)


def freeze(model: Transformer, parts: Sequence[str]) -> None:
    """Keep training from changing parts of a model.

    Args:
        model: A built model that is not yet compiled.
        parts: Of `config.FROZEN_PARTS`; "embeddings" are those of both sides, with the
            pre-softmax map.

    Raises:
        ValueError: If nothing is left to train.
    """
    layers = {
        "embeddings": (
            model.embedding,
            model.target_embedding,
            model.output_embedding,
            model.source_positions,
            model.target_positions,
        ),
        "encoder": (model.encoder,),
        "decoder": (model.decoder,),
    }
    for part in parts:
        for layer in layers[part]:
            layer.trainable = False
    if not model.trainable_variables:
        raise ValueError(
            f"`freeze` leaves nothing to train. Received: freeze={','.join(parts)}."
        )


def _locate(path: str) -> tuple[ModelDir, str | None]:
    """Return the model_dir, and the checkpoint if `path` names one."""
    folder = presets.folder_of_run(path)
    return ModelDir(folder), None if folder == pathlib.Path(path) else path


def _has_vocabulary(model_dir, other: RunConfig, config: RunConfig) -> bool:
    """Whether a model has a run's vocabulary, perhaps for other languages."""
    if other.tokenizer_hash == config.tokenizer_hash:
        return True
    tokenizer = model_dir.load_tokenizer()
    languages = config.source_language, config.target_language
    if not set(languages) <= tokenizer.languages.keys():
        return False
    told = tokenizer.with_languages(*languages)
    return told.fingerprint == config.tokenizer_hash


def _weight_fields(model: ModelConfig) -> dict[str, Any]:
    values = {name: getattr(model, name) for name in _WEIGHT_FIELDS}
    is_learned = model.position_encoding == "learned"
    return {**values, "num_positions": model.num_positions if is_learned else None}
