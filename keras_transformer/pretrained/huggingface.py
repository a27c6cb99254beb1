"""Reading models of Hugging Face Transformers: MarianMT (OPUS-MT), M2M-100 and NLLB.

Marian's sinusoids are concatenated sines and cosines at the paper's frequencies; its
decoder begins with the embedding of padding, a vector of zeros. M2M-100 and NLLB are
pre-norm, have tensor2tensor's sinusoids from position 2, and the language of a sentence
as its first token; NLLB differs in the vocabulary.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.layers.positional_encoding import sinusoidal_encoding
from keras_transformer.pretrained.published_model import (
    PublishedModel,
    PublishedTensor,
    check_options,
)
from keras_transformer.tokenization.mapped import MappedTokenizer, check_language

WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLE = "pytorch_model.bin"
# SentencePiece model of M2M-100 and NLLB.
_MULTILINGUAL = "sentencepiece.bpe.model"

_ACTIVATIONS = {
    "relu": "relu",
    "swish": "silu",
    "silu": "silu",
    "gelu": "gelu",
}
# Options of which only these values are supported.
_SUPPORTED = {
    "scale_embedding": (True,),
    "tie_word_embeddings": (True,),
    "share_encoder_decoder_embeddings": (True,),
    "static_position_embeddings": (True,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "extra_pos_embeddings": (0,),
}
LAYER_NORM_EPSILON = 1e-5  # PyTorch's default
_MAX_INPUT_LENGTH = 512

# Older files store the sinusoids.
_POSITIONS = frozenset(
    f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")
)

# Our names of the parts of a layer -> names in Transformers.
_ATTENTION = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "out_proj",
}
_ENCODER_PARTS = {"self_attention": "self_attn"}
_DECODER_PARTS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}


def read(
    folder: pathlib.Path, source_language: str | None, target_language: str | None
) -> PublishedModel:
    """Describe the model in a folder of Transformers.

    Args:
        folder: Has config.json, weights and vocabularies.
        source_language: M2M-100: code of the source language, such as "en".
        target_language: M2M-100: code of the target language.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If the model has an option that is not supported, or a file is
            damaged.
    """
    options = _read_json(folder / "config.json")
    generation = {}
    if (folder / "generation_config.json").is_file():
        generation = _read_json(folder / "generation_config.json")
    family = options.get("model_type")
    if family not in ("marian", "m2m_100"):
        raise ValueError(
            f"{folder}/config.json: model_type is {family!r}; marian (OPUS-MT) and "
            "m2m_100 can be read."
        )
    check_options(f"{folder}/config.json", options, _SUPPORTED)
    sources = WeightFiles(folder)
    if family == "marian":
        tokenizer = _marian_tokenizer(folder, options)
        own = {"norm_placement": "post", "position_layout": "concatenated"}
        own["output_bias"] = "final_logits_bias" in sources.names
        start = sources.read("model.shared.weight")[options["decoder_start_token_id"]]
        own["zero_first_input"] = not start.any()
        languages = ("source_lang", "target_lang")
        names = _optional_json(folder / "tokenizer_config.json")
        source_language, target_language = (names.get(key, "") for key in languages)
    else:
        tokenizer = _multilingual_tokenizer(folder, source_language, target_language)
        own = {
            "norm_placement": "pre",
            "position_layout": "halves",
            "first_position": options["pad_token_id"] + 1,
        }
    config = _model_config(folder, options, generation, own)
    positions = frozenset(name for name in sources.names if name in _POSITIONS)
    for name in positions:
        _check_sinusoids(name, sources.read(name), config)
    return PublishedModel(
        family=family,
        model=config,
        decoding=_decoding_config(options, generation),
        tokenizer=tokenizer,
        source_language=source_language or "",
        target_language=target_language or "",
        tensors=tensor_names(config),
        copies={
            "model.encoder.embed_tokens.weight": "model.shared.weight",
            "model.decoder.embed_tokens.weight": "model.shared.weight",
            "lm_head.weight": "model.shared.weight",
        },
        names=sources.names - positions,
        read=sources.read,
        files=(*sources.files, *tokenizer.files),
    )


def tensor_names(config: ModelConfig) -> dict[str, PublishedTensor]:
    """Return the tensor of Transformers for each weight of ours.

    Linear layers are transposed: PyTorch has kernels `[out, in]`.
    """
    found = {"embedding/embeddings": PublishedTensor("model.shared.weight")}
    if config.output_bias:
        found["embedding/output_bias"] = PublishedTensor(
            "final_logits_bias", lambda array: array[0]
        )

    def linear(ours, theirs):
        found[f"{ours}/kernel"] = PublishedTensor(f"{theirs}.weight", np.transpose)
        found[f"{ours}/bias"] = PublishedTensor(f"{theirs}.bias")

    def norm(ours, theirs):
        found[f"{ours}/gamma"] = PublishedTensor(f"{theirs}.weight")
        found[f"{ours}/beta"] = PublishedTensor(f"{theirs}.bias")

    for side, depth, parts in (
        ("encoder", config.encoder_depth, _ENCODER_PARTS),
        ("decoder", config.decoder_depth, _DECODER_PARTS),
    ):
        for number in range(depth):
            ours, theirs = f"{side}/layer_{number}", f"model.{side}.layers.{number}"
            for part, name in parts.items():
                for own, projection in _ATTENTION.items():
                    linear(f"{ours}/{part}/{own}", f"{theirs}.{name}.{projection}")
                norm(f"{ours}/{part}_residual/norm", f"{theirs}.{name}_layer_norm")
            linear(f"{ours}/feed_forward/hidden", f"{theirs}.fc1")
            linear(f"{ours}/feed_forward/output", f"{theirs}.fc2")
            norm(f"{ours}/feed_forward_residual/norm", f"{theirs}.final_layer_norm")
        if config.norm_placement == "pre":
            norm(f"{side}/final_norm", f"model.{side}.layer_norm")
    return found


class WeightFiles:
    """The weights of a folder: safetensors, one file or several with an index.

    A folder that has only pytorch_model.bin, a pickle, is read where PyTorch is
    installed; it refuses pickles that would run code.

    Args:
        folder: Folder of the published model.

    Attributes:
        files: The weight files.
        names: The names of all tensors.

    Raises:
        FileNotFoundError: If there are no weights that can be read.
        ValueError: If a file is damaged.
    """

    def __init__(self, folder: pathlib.Path):
        self._unpickled: dict[str, np.ndarray] = {}
        if (folder / _INDEX).is_file():
            shards = _read_json(folder / _INDEX)["weight_map"]
            self._file_of = {name: folder / file for name, file in shards.items()}
        elif (folder / WEIGHTS).is_file():
            path = folder / WEIGHTS
            with _opened(path) as weights:
                self._file_of = dict.fromkeys(weights.keys(), path)
        elif (folder / _PICKLE).is_file():
            path = folder / _PICKLE
            self._unpickled = _unpickle(path)
            self._file_of = dict.fromkeys(self._unpickled, path)
        else:
            raise FileNotFoundError(f"No {WEIGHTS} in {folder}.")
        self.files = tuple(sorted(set(self._file_of.values())))
        self.names = frozenset(self._file_of)

    def read(self, name: str) -> np.ndarray:
        """Read one tensor as float32.

        Raises:
            ValueError: If there is none of this name.
        """
        if name not in self._file_of:
            raise ValueError(f"{self.files[0]}: the tensor {name} is missing.")
        if self._unpickled:
            return self._unpickled[name]
        with _opened(self._file_of[name]) as weights:
            return np.asarray(weights.get_tensor(name), np.float32)


def _unpickle(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Read the tensors of a pickle as float32, with PyTorch.

    Raises:
        ValueError: If PyTorch is not installed, or refuses the file.
    """
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            f"{path} is a pickle, which only PyTorch can read: install torch, or "
            f"convert the file to {WEIGHTS} elsewhere."
        ) from error
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.float().numpy() for name, tensor in tensors.items()}
    except (
        OSError,
        RuntimeError,
        EOFError,
        AttributeError,
        pickle.UnpicklingError,
    ) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} cannot be read: {first}") from error


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[Any]:
    import safetensors

    try:
        with safetensors.safe_open(path, framework="numpy") as weights:
            yield weights
    except (OSError, safetensors.SafetensorError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from error


def _check_sinusoids(name: str, stored: np.ndarray, config: ModelConfig) -> None:
    """Raise unless stored positions are those that the configuration gives."""
    positions = np.arange(len(stored)) + config.first_position
    expected = sinusoidal_encoding(positions, config.d_model, config.position_layout)
    if stored.shape != expected.shape or not np.allclose(stored, expected, atol=1e-3):
        raise ValueError(
            f"The tensor {name} must have the sinusoids of {config.d_model} "
            "dimensions: learned positions are not supported."
        )


def _model_config(folder, options, generation, own) -> ModelConfig:
    heads = options["encoder_attention_heads"], options["decoder_attention_heads"]
    activation = options["activation_function"]
    place = f"{folder}/config.json"
    check_options(place, options, {"activation_function": tuple(_ACTIVATIONS)})
    check_options(
        place,
        {"decoder_attention_heads": heads[1]},
        {"decoder_attention_heads": heads[:1]},
    )
    depths = options["encoder_layers"], options["decoder_layers"]
    widths = options["encoder_ffn_dim"], options["decoder_ffn_dim"]
    never = [ids[0] for ids in generation.get("bad_words_ids") or ()]
    return ModelConfig(
        vocab_size=options["vocab_size"],
        num_layers=depths[0],
        num_decoder_layers=None if depths[0] == depths[1] else depths[1],
        d_model=options["d_model"],
        d_ff=widths[0],
        decoder_d_ff=None if widths[0] == widths[1] else widths[1],
        num_heads=heads[0],
        activation=_ACTIVATIONS[activation],
        dropout_rate=options.get("dropout", 0.0),
        attention_dropout_rate=options.get("attention_dropout", 0.0),
        ffn_dropout_rate=options.get("activation_dropout", 0.0),
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        attention_bias=True,
        suppressed_ids=never,
        pad_id=options["pad_token_id"],
        bos_id=options["decoder_start_token_id"],
        eos_id=options["eos_token_id"],
        **own,
    )


def _decoding_config(options, generation) -> DecodingConfig:
    def option(name, default):
        return generation.get(name, options.get(name, default))

    return DecodingConfig(
        beam_size=option("num_beams", 4),
        length_penalty="power",
        length_penalty_alpha=option("length_penalty", 1.0),
        max_input_length=_MAX_INPUT_LENGTH,
    )


def _marian_tokenizer(folder, options) -> MappedTokenizer:
    return MappedTokenizer.from_files(
        source=folder / "source.spm",
        target=folder / "target.spm",
        vocabulary=_read_json(folder / "vocab.json"),
        special_ids=_special_ids(options),
        files=(folder / "vocab.json",),
    )


def _multilingual_tokenizer(
    folder, source_language, target_language
) -> MappedTokenizer:
    """Return the tokenizer of M2M-100 or, without vocab.json, of NLLB."""
    options, path = _read_json(folder / "config.json"), folder / _MULTILINGUAL
    is_nllb = not (folder / "vocab.json").is_file()
    pieces = _nllb_pieces(path) if is_nllb else _read_json(folder / "vocab.json")
    tokens = _language_tokens(folder, max(pieces.values()) + 1)
    languages = {token.strip("_"): number for token, number in tokens.items()}
    check_language("source_language", source_language, languages)
    check_language("target_language", target_language, languages)
    return MappedTokenizer.from_files(
        source=path,
        target=path,
        vocabulary={**pieces, **tokens},
        special_ids=_special_ids(options),
        source_prefix_id=languages[source_language],
        target_prefix_id=languages[target_language],
        vocab_size=options["vocab_size"],
        languages=languages,
        files=() if is_nllb else (folder / "vocab.json",),
    )


def _nllb_pieces(path: pathlib.Path) -> dict[str, int]:
    """Return the ids of NLLB: four special ids, then the pieces from the third on."""
    import sentencepiece

    tokenizer_config = path.parent / "tokenizer_config.json"
    check_options(
        str(tokenizer_config),
        _optional_json(tokenizer_config),
        {"legacy_behaviour": (False,)},
    )
    _check_is_file(path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    names = [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    names = ["<s>", "<pad>", "</s>", "<unk>", *names]
    return {name: number for number, name in enumerate(names)}


def _special_ids(options: Mapping[str, Any]) -> dict[str, int]:
    return {
        "pad_id": options["pad_token_id"],
        "bos_id": options["decoder_start_token_id"],
        "eos_id": options["eos_token_id"],
    }


def _language_tokens(folder: pathlib.Path, first_id: int) -> dict[str, int]:
    """Return the ids of the languages' tokens, which follow the vocabulary."""
    if (folder / "languages.json").is_file():
        return _read_json(folder / "languages.json")
    tokens = _read_json(folder / "special_tokens_map.json")
    names = [
        token if isinstance(token, str) else token["content"]
        for token in tokens.get("additional_special_tokens", ())
    ]
    return {name: first_id + number for number, name in enumerate(names)}


def _optional_json(path: pathlib.Path) -> dict[str, Any]:
    return _read_json(path) if path.is_file() else {}


def _check_is_file(path: pathlib.Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is absent. Copy the whole folder of the model."
        )


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    _check_is_file(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}.") from error
