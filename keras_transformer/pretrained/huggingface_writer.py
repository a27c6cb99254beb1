"""Writing a trained model as a MarianMTModel of Hugging Face Transformers.

MarianMTModel is the paper's model with biases everywhere and sinusoids whose sines come
before the cosines. Missing biases are written as zeros. The dimensions of a model whose
sines and cosines alternate are reordered in all weights, which changes no output.

Transformers normalizes with epsilon 1e-5 and divides log probabilities by
length ** alpha; both may differ from the run's settings.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer import atomic_files
from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import weights_by_path
from keras_transformer.pretrained import huggingface
from keras_transformer.runs.run_config import RunConfig

# What MarianMTModel has; other values cannot be written.
_NEEDED = {
    "norm_placement": "post",
    "position_encoding": "sinusoidal",
    "first_position": 0,
    "share_embeddings": True,
    "normalize_embeddings": False,
    "attention_window": None,
}
_ACTIVATIONS = {"relu": "relu", "silu": "swish", "gelu": "gelu"}
# Logit of the decoder's first input where its embedding is replaced by zeros.
_NEVER = -1e4


def write(
    translator: Translator, run: RunConfig, output_dir: str | os.PathLike, card: str
) -> None:
    """Write a model as a folder for `MarianMTModel.from_pretrained`, atomically.

    Args:
        translator: Model and tokenizer.
        run: Where the languages are taken from.
        output_dir: The folder to write; it must be absent or empty.
        card: Text of the model card, README.md.

    Raises:
        ValueError: If MarianMTModel or MarianTokenizer cannot do what the model or its
            tokenizer does; the message names it.
        FileExistsError: If `output_dir` is not empty.
        NotADirectoryError: If `output_dir` is a file.
    """
    from safetensors.numpy import save_file

    atomic_files.check_folder(output_dir)
    folder = pathlib.Path(output_dir)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} is not empty. Give a folder that does not exist yet."
        )
    translator.ensemble.check_is_single("Hugging Face's files")
    config, tokenizer = translator.model.config, translator.tokenizer
    check_convertible(config)
    # A language of sources may be told by the text instead.
    if tokenizer.target_prefix_id is not None:
        raise ValueError(
            "MarianTokenizer puts no language token before a text, and this tokenizer "
            f"does: id {tokenizer.source_prefix_id} before sources, "
            f"{tokenizer.target_prefix_id} before targets."
        )
    source, target, vocabulary = tokenizer.sentencepiece_models()
    tensors = named_tensors(translator)
    contents = {
        "config.json": model_options(config, translator.decoding),
        "generation_config.json": generation_options(translator),
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": run.source_language,
            "target_lang": run.target_language,
            "separate_vocabs": False,
            "model_max_length": translator.decoding.max_input_length,
            # Text stays as it is: "</s>" in a text is not the end of a sentence.
            "split_special_tokens": True,
            "clean_up_tokenization_spaces": False,
        },
        "vocab.json": vocabulary,
    }
    with atomic_files.atomic_folder(folder) as aside:
        for name, values in contents.items():
            text = json.dumps(values, ensure_ascii=False, indent=2) + "\n"
            (aside / name).write_text(text, encoding="utf-8")
        (aside / "source.spm").write_bytes(source)
        (aside / "target.spm").write_bytes(target)
        (aside / "README.md").write_text(card, encoding="utf-8")
        # Transformers reads no file without this entry.
        save_file(tensors, aside / huggingface.WEIGHTS, metadata={"format": "pt"})


def check_convertible(config: ModelConfig) -> None:
    """Raise unless MarianMTModel supports a model configuration.

    Raises:
        ValueError: If it does not; the message names the option.
    """
    for name, needed in _NEEDED.items():
        value = getattr(config, name)
        if value != needed:
            raise ValueError(
                f"MarianMTModel needs {name}={needed!r}. Received: {name}={value!r}."
            )
    if config.position_layout == "halves":
        raise ValueError(
            "MarianMTModel has the paper's frequencies of positions: position_layout "
            "must be 'interleaved' or 'concatenated'. Received: "
            "position_layout='halves'."
        )
    width = config.d_model // config.num_heads
    if (config.head_key_dim, config.head_value_dim) != (width, width):
        raise ValueError(
            "MarianMTModel needs key_dim = value_dim = d_model / num_heads. Received: "
            f"key_dim={config.head_key_dim}, value_dim={config.head_value_dim}, "
            f"d_model={config.d_model}, num_heads={config.num_heads}."
        )
    if config.layer_norm_epsilon > huggingface.LAYER_NORM_EPSILON:
        raise ValueError(
            "MarianMTModel normalizes with epsilon 1e-5; a larger one cannot be "
            f"written. Received: layer_norm_epsilon={config.layer_norm_epsilon}."
        )


def named_tensors(translator: Translator) -> dict[str, np.ndarray]:
    """Return the weights in float32, by their names in Transformers."""
    config = translator.model.config
    weights = {
        path: np.asarray(weight.numpy(), np.float32)
        for path, weight in weights_by_path(translator.model).items()
    }
    with_biases = dataclasses.replace(config, attention_bias=True, output_bias=True)
    names = huggingface.tensor_names(with_biases)
    for path in names.keys() - weights.keys():
        kernel = weights.get(path.replace("/bias", "/kernel"))
        width = config.vocab_size if kernel is None else kernel.shape[1]
        weights[path] = np.zeros(width, np.float32)
    if config.zero_first_input:
        _store_zero_first_input(weights, config.bos_id)
    order = _dimension_order(config)
    return {
        tensor.name: np.ascontiguousarray(_converted(path, weights[path], order))
        for path, tensor in names.items()
    }


def _store_zero_first_input(weights: dict[str, np.ndarray], bos_id: int) -> None:
    """Replace the embedding of the decoder's first input by zeros, as Marian has it.

    The logit of this id, which is never a label, would change: where the embedding was
    trained, a bias takes the logit away.
    """
    table, bias = weights["embedding/embeddings"], weights["embedding/output_bias"]
    if table[bos_id].any():
        weights["embedding/embeddings"] = table = table.copy()
        weights["embedding/output_bias"] = bias = bias.copy()
        table[bos_id], bias[bos_id] = 0.0, _NEVER


def _dimension_order(config: ModelConfig) -> np.ndarray:
    """Return our dimension for each dimension of Marian, int `[d_model]`."""
    dimensions = np.arange(config.d_model)
    if config.position_layout == "concatenated":
        return dimensions
    return np.concatenate([dimensions[0::2], dimensions[1::2]])  # sines, cosines


def _converted(path: str, array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return a weight with reordered dimensions, in the layout of PyTorch."""
    layer, kind = path.rsplit("/", 1)
    if kind in ("embeddings", "gamma", "beta") or layer.endswith("/output"):
        array = array[..., order]  # what is added to the residual connection
    elif kind == "kernel":
        array = array[order]
    if kind == "output_bias":
        return array[np.newaxis]
    return array.T if kind == "kernel" else array


def model_options(config: ModelConfig, decoding: DecodingConfig) -> dict[str, Any]:
    """Return the content of config.json."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_depth,
        "decoder_layers": config.decoder_depth,
        "encoder_ffn_dim": config.encoder_ffn_dim,
        "decoder_ffn_dim": config.decoder_ffn_dim,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "activation_function": _ACTIVATIONS[config.activation],
        "dropout": config.dropout_rate,
        "attention_dropout": config.attention_dropout_rate,
        "activation_dropout": config.ffn_dropout_rate,
        "max_position_embeddings": max(
            decoding.max_input_length, _longest_output(decoding)
        ),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        **_special_ids(config, decoding),
    }


def generation_options(translator: Translator) -> dict[str, Any]:
    """Return the content of generation_config.json."""
    decoding = translator.decoding
    options = {
        "num_beams": decoding.beam_size,
        "length_penalty": decoding.length_penalty_alpha,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "early_stopping": decoding.early_stopping,
        "renormalize_logits": decoding.renormalize,
        "max_length": 1 + _longest_output(decoding),  # the decoder's first input counts
        **_special_ids(translator.model.config, decoding),
    }
    if never := translator.suppressed_ids:
        options["bad_words_ids"] = [[number] for number in never]
    return options


def _special_ids(
    config: ModelConfig, decoding: DecodingConfig
) -> Mapping[str, int | None]:
    return {
        "pad_token_id": config.pad_id,
        "bos_token_id": config.bos_id,
        "eos_token_id": config.eos_id,
        "decoder_start_token_id": config.bos_id,
        "forced_eos_token_id": config.eos_id if decoding.force_eos else None,
    }


def _longest_output(decoding: DecodingConfig) -> int:
    """Return the most tokens of an output; MarianMTModel has one limit for all."""
    longest = decoding.max_input_length + decoding.extra_decode_length
    return min(longest, decoding.max_output_length or longest)
