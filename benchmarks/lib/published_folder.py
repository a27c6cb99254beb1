"""Folders in the format of Transformers, with random weights, of published sizes."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

from keras_transformer.config import ModelConfig

# Options of config.json that give a model its size.
SIZES: dict[str, dict[str, Any]] = {
    "opus_mt": {
        "model_type": "marian",
        "scale_embedding": True,
        "vocab_size": 65_001,
        "d_model": 512,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "encoder_ffn_dim": 2048,
        "decoder_ffn_dim": 2048,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
        "activation_function": "swish",
    },
    "m2m100_418m": {
        "model_type": "m2m_100",
        "vocab_size": 128_112,
        "d_model": 1024,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
        "encoder_attention_heads": 16,
        "decoder_attention_heads": 16,
        "activation_function": "relu",
    },
}
_LANGUAGES = ["__de__", "__en__"]


def write(folder: pathlib.Path, size: str) -> int:
    """Write a published model with random weights.

    Args:
        folder: The folder to make.
        size: Name in `SIZES`.

    Returns:
        Bytes of the weights.
    """
    from safetensors.numpy import save_file

    from benchmarks.lib.random_models import number_vocabulary

    options = {
        **SIZES[size],
        "pad_token_id": 0,
        "eos_token_id": 3,
        "decoder_start_token_id": 3,
    }
    is_marian = options["model_type"] == "marian"
    words = options["vocab_size"] - (0 if is_marian else len(_LANGUAGES))
    proto, pieces = number_vocabulary(words)
    folder.mkdir()
    names = ["source.spm", "target.spm"] if is_marian else ["sentencepiece.bpe.model"]
    for name in names:
        (folder / name).write_bytes(proto)
    for name, values in {
        "vocab.json": {piece: number for number, piece in enumerate(pieces)},
        "config.json": options,
        "special_tokens_map.json": {"additional_special_tokens": _LANGUAGES},
    }.items():
        (folder / name).write_text(json.dumps(values), encoding="utf-8")
    tensors = _random_tensors(options)
    save_file(tensors, folder / "model.safetensors")
    return sum(tensor.nbytes for tensor in tensors.values())


def _random_tensors(options: dict[str, Any]) -> dict[str, np.ndarray]:
    from keras_transformer.pretrained import huggingface

    is_marian = options["model_type"] == "marian"
    config = ModelConfig(
        vocab_size=options["vocab_size"],
        num_layers=options["encoder_layers"],
        d_model=options["d_model"],
        d_ff=options["encoder_ffn_dim"],
        num_heads=options["encoder_attention_heads"],
        norm_placement="post" if is_marian else "pre",
        attention_bias=True,
        output_bias=is_marian,
    )
    draw = np.random.default_rng(0)
    return {
        tensor.name: 0.02
        * draw.standard_normal(_shape(tensor.name, config), dtype=np.float32)
        for tensor in huggingface.tensor_names(config).values()
    }


def _shape(name: str, config: ModelConfig) -> tuple[int, ...]:
    """Return the shape of a tensor; PyTorch has kernels `[out, in]`."""
    words, width, hidden = config.vocab_size, config.d_model, config.d_ff
    shapes = {
        "shared.weight": (words, width),
        "final_logits_bias": (1, words),
        "fc1.weight": (hidden, width),
        "fc1.bias": (hidden,),
        "fc2.weight": (width, hidden),
        "proj.weight": (width, width),
    }
    found = [shape for end, shape in shapes.items() if name.endswith(end)]
    return found[0] if found else (width,)
