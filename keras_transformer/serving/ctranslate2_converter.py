"""Converting a trained model to CTranslate2's format.

CTranslate2 is a C++ engine with int8. It divides scores by length ** alpha, not by the
((5 + length) / 6) ** alpha of §6.1: with the penalty off on both sides (alpha 0)
outputs are the same up to rounding, with it on the order of hypotheses may differ.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer import atomic_files
from keras_transformer.config import ModelConfig, check_choice
from keras_transformer.inference.translator import Translator
from keras_transformer.layers.positional_encoding import sinusoidal_encoding

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int16", "float16", "bfloat16")

Weights = Mapping[str, np.ndarray]


def convert(
    translator: Translator,
    output_dir: str | os.PathLike,
    quantization: str = "float32",
) -> None:
    """Write a model as a CTranslate2 folder, whole or not at all.

    Beside the model lies the vocabulary file of the tokenizer, for cutting text into
    the pieces that CTranslate2 takes; it adds the end of a source itself.

    Args:
        translator: Model and tokenizer.
        output_dir: The folder to write; a converted model that is there is replaced.
        quantization: How weights are stored; "float32": as they are.

    Raises:
        ValueError: If the quantization is unknown, or CTranslate2 cannot run the model.
        FileExistsError: If `output_dir` holds something else than a converted model.
        NotADirectoryError: If `output_dir` is a file.
        ModuleNotFoundError: If the extra `ctranslate2` is not installed.
    """
    check_choice("quantization", quantization, QUANTIZATIONS)
    atomic_files.check_folder(output_dir)
    place = pathlib.Path(output_dir)
    if place.is_dir() and any(place.iterdir()) and not (place / "model.bin").exists():
        raise FileExistsError(
            f"{place} holds something else than a CTranslate2 model: it is not "
            "replaced. Give a folder that does not exist yet."
        )
    spec = make_spec(translator)
    spec.validate()
    spec.optimize(None if quantization == "float32" else quantization)
    with atomic_files.atomic_folder(output_dir) as aside:
        spec.save(str(aside))
        translator.tokenizer.save(aside / "tokenizer")


def make_spec(translator: Translator) -> Any:
    """Return the model as CTranslate2 describes one."""
    from ctranslate2 import specs

    config = translator.model.config
    check_convertible(config)
    weights = named_weights(translator)
    spec = specs.TransformerSpec.from_config(
        config.num_layers,
        config.num_heads,
        pre_norm=config.norm_placement == "pre",
        activation=specs.Activation.RELU,
    )
    positions = positions_of(translator)
    embedding = weights["embedding/embeddings"]
    spec.encoder.embeddings[0].weight = embedding
    spec.decoder.embeddings.weight = weights.get(
        "target_embedding/embeddings", embedding
    )
    spec.decoder.projection.weight = weights.get(
        "output_embedding/embeddings", embedding
    )
    owner = "embedding" if config.share_embeddings else "output_embedding"
    if config.output_bias:
        spec.decoder.projection.bias = weights[f"{owner}/output_bias"]
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.scale_embeddings = True
        side.position_encodings.encodings = positions[name]
        if config.norm_placement == "pre":
            _norm(side.layer_norm, weights, f"{name}/final_norm")
        for number, layer in enumerate(side.layer):
            _layer(layer, weights, f"{name}/layer_{number}")
    pieces = vocabulary_of(translator)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = pieces[config.bos_id]
    spec.config.eos_token = pieces[config.eos_id]
    spec.config.unk_token = pieces[translator.tokenizer.unk_id]
    spec.config.add_source_eos = True
    spec.config.add_attribute("layer_norm_epsilon", config.layer_norm_epsilon)
    return spec


def check_convertible(config: ModelConfig) -> None:
    """Raise unless CTranslate2 can run such a model.

    Raises:
        ValueError: If it cannot; the message says why.
    """
    width = config.d_model // config.num_heads
    if (config.head_key_dim, config.head_value_dim) != (width, width):
        raise ValueError(
            "CTranslate2 takes heads of d_model / num_heads alone. Received: "
            f"key_dim={config.head_key_dim}, value_dim={config.head_value_dim}, "
            f"d_model={config.d_model}, num_heads={config.num_heads}."
        )
    if config.attention_window is not None:
        raise ValueError(
            "CTranslate2 has no restricted self-attention of this kind. Received: "
            f"attention_window={config.attention_window}."
        )


def named_weights(translator: Translator) -> dict[str, np.ndarray]:
    """Return the weights by their path below the model, in float32."""
    return {
        weight.path.split("/", 1)[1]: np.asarray(weight.numpy(), np.float32)
        for weight in translator.model.trainable_weights
    }


def positions_of(translator: Translator) -> dict[str, np.ndarray]:
    """Return the table of positions of each side, float32 `[positions, d_model]`."""
    config, decoding = translator.model.config, translator.decoding
    if config.position_encoding == "learned":
        weights = named_weights(translator)
        return {
            side: weights[f"{name}_positions/table"]
            for side, name in (("encoder", "source"), ("decoder", "target"))
        }
    # The longest output, and as much again for whoever raises the limit there.
    longest = 2 * (decoding.max_input_length + decoding.extra_decode_length)
    places = np.arange(longest) + config.first_position
    table = sinusoidal_encoding(places, config.d_model, config.position_layout)
    return dict.fromkeys(("encoder", "decoder"), np.asarray(table, np.float32))


def vocabulary_of(translator: Translator) -> list[str]:
    """Return the pieces in the order of their ids, each once."""
    tokenizer = translator.tokenizer
    ids = np.arange(tokenizer.vocab_size, dtype=np.int32)
    pieces = [piece.decode("utf-8") for piece in tokenizer.pieces(ids).numpy()]
    pieces[tokenizer.pad_id] = "<pad>"
    if len(set(pieces)) < len(pieces):
        raise ValueError(
            "CTranslate2 needs a vocabulary without repetitions, and this one has some."
        )
    return pieces


def _layer(layer: Any, weights: Weights, name: str) -> None:
    """Fill in a layer: a fused projection for what attends to one input."""
    _attention(layer.self_attention, weights, f"{name}/self_attention", fused=True)
    if hasattr(layer, "attention"):
        _attention(layer.attention, weights, f"{name}/cross_attention", fused=False)
    _norm(layer.ffn.layer_norm, weights, f"{name}/feed_forward_residual/norm")
    _linear(layer.ffn.linear_0, weights, [f"{name}/feed_forward/hidden"])
    _linear(layer.ffn.linear_1, weights, [f"{name}/feed_forward/output"])


def _attention(spec: Any, weights: Weights, name: str, fused: bool) -> None:
    _norm(spec.layer_norm, weights, f"{name}_residual/norm")
    inputs = [f"{name}/{part}" for part in ("query", "key", "value")]
    groups = [inputs] if fused else [inputs[:1], inputs[1:]]
    for linear, group in zip(spec.linear, [*groups, [f"{name}/output"]], strict=True):
        _linear(linear, weights, group)


def _linear(spec: Any, weights: Weights, names: list[str]) -> None:
    """Fill in one map, joined of several; their kernels are [out, in]."""
    kernels = [weights[f"{name}/kernel"].T for name in names]
    spec.weight = np.ascontiguousarray(np.concatenate(kernels))
    biases = [weights[f"{name}/bias"] for name in names if f"{name}/bias" in weights]
    if biases:
        spec.bias = np.concatenate(biases)


def _norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}/gamma"], weights[f"{name}/beta"]
