"""Converting a trained model to CTranslate2.

CTranslate2 is a C++ inference engine with int8 weights. Its length penalty is
length ** alpha instead of the ((5 + length) / 6) ** alpha of §6.1. With alpha 0,
outputs are equal up to rounding; otherwise the order of hypotheses may differ.
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
from keras_transformer.model.transformer import weights_by_path
from keras_transformer.tokenization import Tokenizer

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int16", "float16", "bfloat16")

Weights = Mapping[str, np.ndarray]


def convert(
    translator: Translator,
    output_dir: str | os.PathLike,
    quantization: str = "float32",
) -> None:
    """Write a model as a CTranslate2 folder, atomically.

    The folder also contains the tokenizer, to split text into the pieces that
    CTranslate2 takes as input. CTranslate2 adds EOS to a source itself.

    Args:
        translator: Model and tokenizer.
        output_dir: The folder to write; an existing converted model is replaced.
        quantization: Data type of the weights; "float32": unchanged.

    Raises:
        ValueError: If the quantization is unknown, or CTranslate2 cannot run the model.
        FileExistsError: If `output_dir` contains anything but a converted model.
        NotADirectoryError: If `output_dir` is a file.
        ModuleNotFoundError: If the extra `ctranslate2` is not installed.
    """
    check_choice("quantization", quantization, QUANTIZATIONS)
    atomic_files.check_folder(output_dir)
    folder = pathlib.Path(output_dir)
    is_empty = not folder.is_dir() or not any(folder.iterdir())
    if not is_empty and not (folder / "model.bin").exists():
        raise FileExistsError(
            f"{folder} contains files other than a CTranslate2 model, so it is not "
            "replaced. Give a folder that does not exist yet."
        )
    translator.ensemble.check_is_single("CTranslate2's files")
    spec = make_spec(translator)
    spec.validate()
    spec.optimize(None if quantization == "float32" else quantization)
    with atomic_files.atomic_folder(output_dir) as aside:
        spec.save(str(aside))
        translator.tokenizer.save(aside / "tokenizer")


def make_spec(translator: Translator) -> Any:
    """Return the model as a CTranslate2 model specification."""
    from ctranslate2 import specs

    config = translator.model.config
    check_convertible(config)
    weights = named_weights(translator)
    activations = {
        "relu": specs.Activation.RELU,
        "silu": specs.Activation.SWISH,
        "gelu": specs.Activation.GELU,
    }
    layer, head = config.alignment_head or (-1, 0)
    spec = specs.TransformerSpec.from_config(
        (config.encoder_depth, config.decoder_depth),
        config.num_heads,
        pre_norm=config.norm_placement == "pre",
        activation=activations[config.activation],
        layernorm_embedding=config.normalize_embeddings,
        # CTranslate2 returns the attention of a layer's first head, by default the
        # last layer's.
        alignment_layer=layer if head == 0 else -1,
    )
    spec.decoder.start_from_zero_embedding = config.zero_first_input
    positions = positions_of(translator)
    model = translator.model
    source, target = model.embedding.name, model.target_embedding.name
    output = model.output_embedding.name
    spec.encoder.embeddings[0].weight = weights[f"{source}/embeddings"]
    spec.decoder.embeddings.weight = weights[f"{target}/embeddings"]
    spec.decoder.projection.weight = weights[f"{output}/embeddings"]
    if config.output_bias:
        spec.decoder.projection.bias = weights[f"{output}/output_bias"]
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        side.scale_embeddings = True
        side.position_encodings.encodings = positions[name]
        if config.norm_placement == "pre":
            _norm(side.layer_norm, weights, f"{name}/final_norm")
        if config.normalize_embeddings:
            norm = "source_norm" if name == "encoder" else "target_norm"
            _norm(side.layernorm_embedding, weights, norm)
        for number, layer in enumerate(side.layer):
            _layer(layer, weights, f"{name}/layer_{number}")
    sources, pieces = vocabularies_of(translator.tokenizer)
    spec.register_source_vocabulary(sources)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = pieces[config.bos_id]
    spec.config.eos_token = pieces[config.eos_id]
    spec.config.unk_token = sources[translator.tokenizer.unk_id]
    spec.config.add_source_eos = True
    spec.config.add_attribute("layer_norm_epsilon", config.layer_norm_epsilon)
    return spec


def check_convertible(config: ModelConfig) -> None:
    """Raise unless CTranslate2 supports a model configuration.

    Raises:
        ValueError: If it does not; the message says why.
    """
    width = config.d_model // config.num_heads
    if (config.head_key_dim, config.head_value_dim) != (width, width):
        raise ValueError(
            "CTranslate2 needs key_dim = value_dim = d_model / num_heads. Received: "
            f"key_dim={config.head_key_dim}, value_dim={config.head_value_dim}, "
            f"d_model={config.d_model}, num_heads={config.num_heads}."
        )
    if config.attention_window is not None:
        raise ValueError(
            "CTranslate2 does not support restricted self-attention. Received: "
            f"attention_window={config.attention_window}."
        )


def named_weights(translator: Translator) -> dict[str, np.ndarray]:
    """Return the weights by their path inside the model, in float32."""
    return {
        path: np.asarray(weight.numpy(), np.float32)
        for path, weight in weights_by_path(translator.model).items()
    }


def positions_of(translator: Translator) -> dict[str, np.ndarray]:
    """Return each side's position encodings, float32 `[positions, d_model]`."""
    config, decoding = translator.model.config, translator.decoding
    if config.position_encoding == "learned":
        weights = named_weights(translator)
        return {
            side: weights[f"{name}_positions/table"]
            for side, name in (("encoder", "source"), ("decoder", "target"))
        }
    # Twice the longest output, so that the limit may be raised in CTranslate2.
    longest = 2 * (decoding.max_input_length + decoding.extra_decode_length)
    positions = np.arange(longest) + config.first_position
    table = sinusoidal_encoding(positions, config.d_model, config.position_layout)
    return dict.fromkeys(("encoder", "decoder"), np.asarray(table, np.float32))


def vocabularies_of(tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """Return the pieces of sources and of targets in the order of their ids.

    Raises:
        ValueError: If two ids have the same piece.
    """
    target_size = tokenizer.target_vocab_size or tokenizer.vocab_size
    found = []
    for size, pieces_of in (
        (tokenizer.vocab_size, tokenizer.pieces),
        (target_size, tokenizer.target_pieces),
    ):
        pieces = [piece.decode("utf-8") for piece in pieces_of(np.arange(size)).numpy()]
        pieces[tokenizer.pad_id] = "<pad>"
        if (num_different := len(set(pieces))) < size:
            raise ValueError(
                "CTranslate2 needs a vocabulary without duplicate pieces. Received: "
                f"{size - num_different} duplicates among {size} pieces."
            )
        found.append(pieces)
    return found[0], found[1]


def _layer(layer: Any, weights: Weights, name: str) -> None:
    """Fill in a layer; self-attention has one fused query, key and value projection."""
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
    """Fill in one linear map from concatenated projections; kernels are [out, in]."""
    kernels = [weights[f"{name}/kernel"].T for name in names]
    spec.weight = np.ascontiguousarray(np.concatenate(kernels))
    biases = [weights[f"{name}/bias"] for name in names if f"{name}/bias" in weights]
    if biases:
        spec.bias = np.concatenate(biases)


def _norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}/gamma"], weights[f"{name}/beta"]
