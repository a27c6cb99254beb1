"""Reading models of Hugging Face Transformers: MarianMT (OPUS-MT), M2M-100 and NLLB.

Marian's sinusoids are concatenated sines and cosines at the paper's frequencies; its
decoder begins with the embedding of padding, a vector of zeros. M2M-100 and NLLB are
pre-norm, have tensor2tensor's sinusoids from position 2, and the language of a sentence
as its first token; NLLB differs in the vocabulary.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import pickle
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer import language_tokens
from keras_transformer.config import ModelConfig
from keras_transformer.layers.positional_encoding import sinusoidal_encoding
from keras_transformer.pretrained import search_settings
from keras_transformer.pretrained.published_model import (
    Options,
    PublishedModel,
    PublishedTensor,
    check_ids,
    check_is_file,
    check_numbers,
    check_options,
    check_vocabulary,
    read_json,
)
from keras_transformer.tokenization.mapped import MappedTokenizer, pieces_of

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
# SentencePiece model of M2M-100 and NLLB.
_MULTILINGUAL = "sentencepiece.bpe.model"

# The token of a language of M2M-100 or of NLLB, and the languages of models of M2M-100
# in the order of their ids, by `language_codes`.
_LANGUAGE_TOKEN = re.compile("__[a-z]+__|[a-z]{3}_[A-Z][a-z]{3}")
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff "
    "fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb "
    "lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk "
    "sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}

_ACTIVATIONS = {
    "relu": "relu",
    "swish": "silu",
    "silu": "silu",
    "gelu": "gelu",
}
# Our names of special ids -> names in config.json; pieces of two of them.
_SPECIAL_IDS = {
    "pad_id": "pad_token_id",
    "bos_id": "decoder_start_token_id",
    "eos_id": "eos_token_id",
}
_SPECIAL_PIECES = {"<pad>": "pad_token_id", "</s>": "eos_token_id"}
# Options of config.json that are numbers, beside those that `ModelConfig` checks.
_NUMBERS = (
    *_SPECIAL_IDS.values(),
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "max_position_embeddings",
)
# Options of config.json that Transformers reads, with the values that are supported.
# Others have no effect: what a model is made of shows in its tensors.
_SUPPORTED = {
    "scale_embedding": (True,),
    "is_encoder_decoder": (True,),
    "activation_function": tuple(_ACTIVATIONS),
    "quantization_config": ({},),
    "pruned_heads": ({},),
    "auto_map": ({},),
    "prefix": ("",),
}
# The same of tokenizer_config.json.
_SUPPORTED_TOKENIZER = {
    "auto_map": ({},),
    "sp_model_kwargs": ({},),
    "truncation_side": ("right",),
}
_TOKENIZERS = {
    "marian": ("MarianTokenizer",),
    "m2m_100": ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast"),
}
LAYER_NORM_EPSILON = 1e-5  # PyTorch's default
_MAX_INPUT_LENGTH = 512
# Files beside weights and vocabularies; most models lack some of them.
_OPTION_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    INDEX,
    "added_tokens.json",
    "languages.json",
    "special_tokens_map.json",
)
# All that is read of a model, as patterns of names; without the pickle.
FILES = (
    *_OPTION_FILES,
    WEIGHTS,
    "model-*.safetensors",
    "vocab.json",
    "target_vocab.json",
    _MULTILINGUAL,
    "source.spm",
    "target.spm",
)
# Types of tensors that can be read, as safetensors names them.
_DTYPES = ("F64", "F32", "F16", "BF16")
# Values of a tensor that are read at once: 32 MiB.
_BLOCK_VALUES = 1 << 23

# Older files store the sinusoids.
_POSITIONS = frozenset(
    f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")
)

# The matrices of embeddings and of the pre-softmax map.
_SHARED = "model.shared.weight"
_ENCODER_TABLE = "model.encoder.embed_tokens.weight"
_DECODER_TABLE = "model.decoder.embed_tokens.weight"
_OUTPUT_TABLE = "lm_head.weight"

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
        source_language: Code of the source language, such as "en"; None: that of a
            MarianMT's files.
        target_language: The same for the target language.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If the model has an option that is not supported, or a file is
            damaged.
    """
    options = _read_options(folder / "config.json")
    family = _family(options)
    names = _optional_json(folder / "tokenizer_config.json")
    check_numbers(names, "model_max_length")
    # MarianMTModel's default is another.
    options.setdefault("scale_embedding", family == "m2m_100")
    check_options(options, _SUPPORTED)
    check_options(names, {"tokenizer_class": _TOKENIZERS[family]})
    check_options(names, _SUPPORTED_TOKENIZER)
    sources = WeightFiles(folder)
    if family == "marian":
        is_separate = names.get("separate_vocabs", False)
        tokenizer = _marian_tokenizer(folder, options, is_separate)
        own = _marian_own(options, sources)
        source_language = source_language or names.get("source_lang")
        target_language = target_language or names.get("target_lang")
    else:
        tokenizer = _multilingual_tokenizer(
            folder, options, source_language, target_language
        )
        own = {
            "norm_placement": "pre",
            "position_layout": "halves",
            "first_position": options["pad_token_id"] + 1,
        }
    settings = search_settings.read(
        folder, options, _max_input_length(options, names), tokenizer.target_prefix_id
    )
    # The unknown token is left to `DecodingConfig.allow_unk`.
    never = (i for i in settings.suppressed_ids if i != tokenizer.target_unk_id)
    config = _model_config(options, tuple(never), own)
    positions = frozenset(name for name in sources.names if name in _POSITIONS)
    for name in positions:
        _check_sinusoids(name, sources.read(name), config)
    return PublishedModel(
        family=family,
        model=config,
        decoding=settings.decoding,
        tokenizer=tokenizer,
        source_language=source_language or "",
        target_language=target_language or "",
        tensors=tensor_names(config),
        copies=_copies(config),
        names=sources.names - positions,
        blocks=sources.blocks,
        files=(
            *sources.files,
            *tokenizer.files,
            *(folder / name for name in _OPTION_FILES if (folder / name).is_file()),
        ),
        notes=(*settings.notes, *_notes(names)),
    )


def check_family(path: pathlib.Path, name: str) -> None:
    """Raise ValueError unless a config.json is of a model that can be read.

    Args:
        path: The file.
        name: What the error calls it.
    """
    options = read_json(path)
    options.path = name
    _family(options)


def _family(options: Options) -> str:
    family = options.get("model_type")
    if family not in _TOKENIZERS:
        raise ValueError(
            f"{options.path}: model_type is {family!r}; marian (OPUS-MT) and m2m_100 "
            "can be read."
        )
    return family


def _marian_own(options: dict[str, Any], sources: WeightFiles) -> dict[str, Any]:
    """Return the fields of the configuration that only MarianMT has so."""
    own = {"norm_placement": "post", "position_layout": "concatenated"}
    own["output_bias"] = "final_logits_bias" in sources.names
    own |= _sharing(options)
    start = options["decoder_start_token_id"]
    table = _SHARED if own["share_embeddings"] else _DECODER_TABLE
    first_input = sources.read(table, slice(start, start + 1))
    own["zero_first_input"] = not first_input.any()
    return own


def _notes(names: Options) -> tuple[str, ...]:
    """Return what of tokenizer_config.json is left out, in words."""
    if not names.get("clean_up_tokenization_spaces", False):
        return ()
    return (
        f"{names.path} has clean_up_tokenization_spaces: Transformers removes spaces "
        "before punctuation marks, here a translation stays as the model writes it",
    )


def _read_options(path: pathlib.Path) -> Options:
    """Read config.json; a list of one id for the end of a sentence is this id.

    Raises:
        FileNotFoundError: If it is absent.
        ValueError: If it is damaged.
    """
    options = read_json(path)
    ends = options.get("eos_token_id")
    if isinstance(ends, list) and len(ends) == 1:
        (options["eos_token_id"],) = ends
    check_numbers(options, *_NUMBERS)
    return options


def tensor_names(config: ModelConfig) -> dict[str, PublishedTensor]:
    """Return the tensor of Transformers for each weight of ours.

    Linear layers are transposed: PyTorch has kernels `[out, in]`.
    """
    output = "embedding"
    found = {"embedding/embeddings": PublishedTensor(_SHARED)}
    if not config.share_embeddings:
        output = "target_embedding"
        found = {
            "embedding/embeddings": PublishedTensor(_ENCODER_TABLE),
            "target_embedding/embeddings": PublishedTensor(_DECODER_TABLE),
        }
        if not config.share_decoder_embeddings:
            output = "output_embedding"
            found[f"{output}/embeddings"] = PublishedTensor(_OUTPUT_TABLE)
    if config.output_bias:
        found[f"{output}/output_bias"] = PublishedTensor("final_logits_bias", np.ravel)

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


def _copies(config: ModelConfig) -> dict[str, str]:
    """Return the tensors that files may store although another is equal."""
    if config.share_embeddings:
        return dict.fromkeys((_ENCODER_TABLE, _DECODER_TABLE, _OUTPUT_TABLE), _SHARED)
    if config.share_decoder_embeddings:
        return {_OUTPUT_TABLE: _DECODER_TABLE}
    return {}


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
        if (folder / INDEX).is_file():
            index = read_json(folder / INDEX)
            shards = Options(folder / INDEX, index["weight_map"])
            self._file_of = {name: folder / str(file) for name, file in shards.items()}
        elif (folder / WEIGHTS).is_file():
            path = folder / WEIGHTS
            with _opened(path) as weights:
                self._file_of = dict.fromkeys(weights.keys(), path)
        elif (folder / PICKLE).is_file():
            path = folder / PICKLE
            self._unpickled = _unpickle(path)
            self._file_of = dict.fromkeys(self._unpickled, path)
        else:
            raise FileNotFoundError(f"No {WEIGHTS} in {folder}.")
        if not self._file_of:
            raise ValueError(f"The weight files in {folder} have no tensors.")
        self.files = tuple(sorted(set(self._file_of.values())))
        self.names = frozenset(self._file_of)

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """Read one tensor as float32, in blocks of rows."""
        if self._unpickled:
            yield np.atleast_1d(self._unpickled[name])
            return
        with _opened(self._file_of[name]) as weights:
            num_rows, *shape = weights.get_slice(name).get_shape() or [1]
        step = max(1, _BLOCK_VALUES // max(1, math.prod(shape)))
        for first in range(0, max(1, num_rows), step):
            # Opened for each block, because what is read stays mapped until it closes.
            yield self.read(name, slice(first, min(first + step, num_rows)))

    def read(self, name: str, rows: slice = slice(None)) -> np.ndarray:
        """Read one tensor, or some of its rows, as float32.

        Raises:
            ValueError: If there is none of this name, or it is not floating point.
        """
        if name not in self._file_of:
            raise ValueError(f"{self.files[0]}: the tensor {name} is missing.")
        if self._unpickled:
            return self._unpickled[name][rows]
        with _opened(self._file_of[name]) as weights:
            tensor = weights.get_slice(name)
            if (dtype := tensor.get_dtype()) not in _DTYPES:
                raise ValueError(
                    f"The tensor {name} has the type {dtype}; {', '.join(_DTYPES)} can "
                    "be read. Take the model without quantization."
                )
            return np.asarray(tensor[rows], np.float32)


def _unpickle(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Read the tensors of a pickle as float32, with PyTorch.

    Raises:
        ValueError: If PyTorch is not installed, or refuses the file.
    """
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            f"{path} is a pickle, which only PyTorch can read: install "
            f"keras_transformer[pytorch], or convert the file to {WEIGHTS} elsewhere."
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


def _model_config(options, suppressed_ids, own) -> ModelConfig:
    heads = options["encoder_attention_heads"], options["decoder_attention_heads"]
    check_options(options, {"decoder_attention_heads": heads[:1]})
    depths = options["encoder_layers"], options["decoder_layers"]
    widths = options["encoder_ffn_dim"], options["decoder_ffn_dim"]
    return ModelConfig(
        vocab_size=options["vocab_size"],
        num_layers=depths[0],
        num_decoder_layers=None if depths[0] == depths[1] else depths[1],
        d_model=options["d_model"],
        d_ff=widths[0],
        decoder_d_ff=None if widths[0] == widths[1] else widths[1],
        num_heads=heads[0],
        activation=_ACTIVATIONS[options["activation_function"]],
        dropout_rate=options.get("dropout", 0.0),
        attention_dropout_rate=options.get("attention_dropout", 0.0),
        ffn_dropout_rate=options.get("activation_dropout", 0.0),
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        attention_bias=True,
        suppressed_ids=suppressed_ids,
        pad_id=options["pad_token_id"],
        bos_id=options["decoder_start_token_id"],
        eos_id=options["eos_token_id"],
        **own,
    )


def _max_input_length(options: Options, names: Options) -> int:
    """Return the most tokens of a source, by the model and by its tokenizer."""
    limits = (
        names.get("model_max_length", _MAX_INPUT_LENGTH),
        options.get("max_position_embeddings", _MAX_INPUT_LENGTH),
    )
    return int(min(limits))


def _sharing(options) -> dict[str, Any]:
    """Return the fields of `ModelConfig` for the vocabularies of a Marian model."""
    is_shared = options.get("share_encoder_decoder_embeddings", True)
    is_tied = options.get("tie_word_embeddings", True)
    if is_shared:
        check_options(options, {"tie_word_embeddings": (True,)})
        return {"share_embeddings": True}
    return {
        "share_embeddings": False,
        "share_decoder_embeddings": is_tied,
        "target_vocab_size": options.get("decoder_vocab_size", options["vocab_size"]),
    }


def _marian_tokenizer(folder, options, is_separate) -> MappedTokenizer:
    files = [folder / "vocab.json"]
    if is_separate:
        files.append(folder / "target_vocab.json")
    vocabularies = [_read_vocabulary(path) for path in files]
    _check_added(folder, vocabularies[0])
    return MappedTokenizer.from_files(
        source=folder / "source.spm",
        target=folder / "target.spm",
        vocabularies=vocabularies,
        special_ids=_special_ids(options, vocabularies[0]),
        files=files,
    )


def _multilingual_tokenizer(
    folder, options, source_language, target_language
) -> MappedTokenizer:
    """Return the tokenizer of M2M-100 or, without vocab.json, of NLLB."""
    path = folder / _MULTILINGUAL
    is_nllb = not (folder / "vocab.json").is_file()
    pieces = _nllb_pieces(path) if is_nllb else _read_vocabulary(folder / "vocab.json")
    tokens = _language_tokens(folder, len(pieces))
    _check_added(folder, [*pieces, *tokens, "<mask>"])  # no text has a mask
    if is_nllb and any(token.startswith("__") for token in tokens):
        check_is_file(folder / "vocab.json")  # M2M-100
    languages = {token.strip("_"): number for token, number in tokens.items()}
    language_tokens.check("source_language", source_language, languages)
    language_tokens.check("target_language", target_language, languages)
    return MappedTokenizer.from_files(
        source=path,
        target=path,
        vocabularies=[{**pieces, **tokens}],
        special_ids=_special_ids(options, pieces),
        source_prefix_id=languages[source_language],
        target_prefix_id=languages[target_language],
        vocab_size=options["vocab_size"],
        languages=languages,
        files=() if is_nllb else (folder / "vocab.json",),
    )


def _nllb_pieces(path: pathlib.Path) -> dict[str, int]:
    """Return the ids of NLLB: four special ids, then the pieces from the third on."""
    names = _optional_json(path.parent / "tokenizer_config.json")
    check_options(names, {"legacy_behaviour": (False,)})
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(path)[3:]]
    return {name: number for number, name in enumerate(names)}


def _special_ids(options: Options, pieces: Mapping[str, int]) -> dict[str, int]:
    """Return the special ids of the model.

    Raises:
        ValueError: If the vocabulary has others.
    """
    for piece, name in _SPECIAL_PIECES.items():
        if pieces[piece] != options[name]:
            raise ValueError(
                f"{options.path}: {name} is {options[name]}, but {piece} has the id "
                f"{pieces[piece]} in the vocabulary. They belong to different models."
            )
    return {ours: options[name] for ours, name in _SPECIAL_IDS.items()}


def _language_tokens(folder: pathlib.Path, first_id: int) -> dict[str, int]:
    """Return the ids of the languages' tokens, which follow the vocabulary.

    Releases of Transformers from 4.34 on store the id of each added token, those from 5
    on no list of languages for M2M-100.
    """
    if (folder / "languages.json").is_file():
        tokens = read_json(folder / "languages.json")
        check_ids(tokens.path, tokens)
        return tokens
    found = {
        token: number
        for token, number in _added_tokens(folder).items()
        if number >= first_id and _LANGUAGE_TOKEN.fullmatch(token)
    }
    if found:
        return found
    path = folder / "special_tokens_map.json"
    described = _optional_json(folder / "tokenizer_config.json")
    codes = described.get("language_codes")
    if codes in _LANGUAGES and not path.is_file():
        names = [f"__{code}__" for code in _LANGUAGES[codes].split()]
    else:
        tokens = read_json(path)
        names = [
            token if isinstance(token, str) else Options(path, token)["content"]
            for token in tokens.get("additional_special_tokens", ())
        ]
    return {name: first_id + number for number, name in enumerate(names)}


def _added_tokens(folder: pathlib.Path) -> dict[str, int]:
    """Return the ids of the tokens that the tokenizer finds before all pieces.

    Transformers stores them in a file of their own before release 4.34.
    """
    described = _optional_json(folder / "tokenizer_config.json")
    added = Options(described.path, described.get("added_tokens_decoder", {}))
    return {
        **_optional_json(folder / "added_tokens.json"),
        **{
            Options(described.path, token)["content"]: int(number)
            for number, token in added.items()
        },
    }


def _check_added(folder: pathlib.Path, known: Collection[str]) -> None:
    """Raise ValueError if texts may have a token that no vocabulary has."""
    if others := sorted(_added_tokens(folder).keys() - set(known)):
        raise ValueError(
            f"{folder}: the tokenizer has tokens beside the vocabulary, such as "
            f"{others[0]!r}, which is not supported. Add them to the vocabulary and to "
            "the SentencePiece model as symbols that the user defines."
        )


def _optional_json(path: pathlib.Path) -> Options:
    return read_json(path) if path.is_file() else Options(path, {})


def _read_vocabulary(path: pathlib.Path) -> Options:
    pieces = read_json(path)
    check_vocabulary(path, pieces)
    return pieces
