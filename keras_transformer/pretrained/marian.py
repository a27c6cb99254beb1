"""Reading models of Marian: an .npz with its options inside, and vocabularies.

The names of the weights and the meaning of the options are those of Marian 1.10.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.pretrained.published_model import (
    REMEDY,
    Options,
    PublishedModel,
    PublishedTensor,
    check_numbers,
    check_options,
    check_vocabulary,
)
from keras_transformer.tokenization.mapped import MappedTokenizer, pieces_of

_OPTIONS = "special:model.yml"
_DECODER = "decoder.yml"
# All that is read of a model, as patterns of names.
FILES = ("*decoder.yml", "*.npz", "*.yml", "*.spm")
_SUPPORTED = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-pool": (False,),
    "transformer-preprocess": ("", "n"),
    "transformer-postprocess-emb": ("", "n"),
    "transformer-tied-layers": ([],),
    "transformer-depth-scaling": (False,),
    "right-left": (False,),
    "ulr": (False,),
    "factors-combine": ("sum",),
    "factors-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    "lemma-dependency": ("",),
    "input-types": ([],),
}
# Options of post-norm and of pre-norm models, by `transformer-preprocess`.
_NORMS = {
    "": {
        "transformer-postprocess": ("an",),
        "transformer-postprocess-top": ("",),
    },
    "n": {
        "transformer-postprocess": ("a",),
        "transformer-postprocess-top": ("n",),
    },
}
# Options that list what surrounds a sublayer, each a letter.
_AROUND = (
    "transformer-preprocess",
    "transformer-postprocess",
    "transformer-postprocess-top",
    "transformer-postprocess-emb",
)
_DROPOUT = "d"
# Marian's gelu is an approximation, x * sigmoid(1.702 x), that is not here.
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}
# Options of decoder.yml that change outputs, with the values that are read.
_SEARCH = {
    "allow-unk": (False, True),
    "word-penalty": (0,),
    "shortlist": ([],),
    "output-sampling": ([], False),
    "force-decode": (False,),
    "no-spm-decode": (False,),
    "ignore-model-config": (False,),
}
_LAYER_NORM_EPSILON = 1e-5
_MAX_INPUT_LENGTH = 512


def read(
    folder: pathlib.Path, source_language: str | None, target_language: str | None
) -> PublishedModel:
    """Describe the model in a folder of Marian.

    Args:
        folder: Has a file for `decoder_file`, which names the .npz and the
            vocabularies; unless these are SentencePiece models themselves, source.spm
            and target.spm.
        source_language: Code of the source language, which the files do not have.
        target_language: Code of the target language.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If the model has an option that is not supported, or a file is
            damaged.
    """
    decoder = _read_yaml(decoder_file(folder) or folder / _DECODER)
    check_options(decoder, _SEARCH, REMEDY)
    check_numbers(decoder, "beam-size", "normalize")
    models, files = (_file_names(decoder, key) for key in ("models", "vocabs"))
    if len(models) > 1:
        raise ValueError(
            f"{decoder.path}: models has {len(models)} files; an ensemble is not "
            "supported. Leave one."
        )
    path = folder / models[0]
    if not path.is_file():
        raise FileNotFoundError(f"{path} is absent, but {decoder.path.name} names it.")
    with _opened(path) as archive:
        text = bytes(archive[_OPTIONS]).rstrip(b"\0").decode()
        names = frozenset(archive.files) - {_OPTIONS}
    options = _checked_options(path, text)
    paths = dict.fromkeys(folder / name for name in files)
    vocabularies = [_read_vocabulary(name) for name in paths]
    sharing = _sharing(path, options, len(vocabularies))
    sizes = _sizes(path, options, len(vocabularies))
    padded, special_ids = _with_padding(folder, vocabularies)
    has_padding = padded == vocabularies
    config = _model_config(
        options, [size + (not has_padding) for size in sizes], special_ids, sharing
    )
    cutters = files if files[0].endswith(".spm") else ("source.spm", "target.spm")
    tokenizer = MappedTokenizer.from_files(
        source=folder / cutters[0],
        target=folder / cutters[-1],
        vocabularies=padded,
        special_ids=special_ids,
        files=tuple(paths),
    )
    return PublishedModel(
        family="marian",
        model=config,
        decoding=DecodingConfig(
            beam_size=decoder.get("beam-size", 4),
            length_penalty="power",
            length_penalty_alpha=float(decoder.get("normalize", 0.0)),
            max_input_length=_MAX_INPUT_LENGTH,
            allow_unk=bool(decoder.get("allow-unk", False)),
        ),
        tokenizer=tokenizer,
        source_language=source_language or "",
        target_language=target_language or "",
        tensors=tensor_names(config, names, has_padding),
        copies={},
        names=names,
        blocks=functools.partial(_blocks, path),
        files=(path, decoder.path, *tokenizer.files),
    )


def _checked_options(path, text):
    """Return the options of a model; raise ValueError if one is not supported."""
    options = _parse_yaml(path, text)
    for name in _AROUND:
        if isinstance(options.get(name), str):
            # Dropout is for training.
            options[name] = options[name].replace(_DROPOUT, "")
    check_options(options, _SUPPORTED)
    check_options(options, {"transformer-ffn-activation": tuple(_ACTIVATIONS)})
    check_options(options, _NORMS[options.get("transformer-preprocess", "")])
    return options


def decoder_file(folder: pathlib.Path) -> pathlib.Path | None:
    """Return the file with the settings of the search; None: there is none.

    Marian names it after the weights: model.npz.best-bleu.npz.decoder.yml.

    Raises:
        ValueError: If there are several and none is called decoder.yml.
    """
    if (folder / _DECODER).is_file():
        return folder / _DECODER
    found = sorted(folder.glob(f"*.{_DECODER}"))
    if len(found) > 1:
        raise ValueError(
            f"{folder} has {len(found)} files such as {found[0].name}. Rename the one "
            f"to read to {_DECODER}."
        )
    return found[0] if found else None


def tensor_names(
    config: ModelConfig, names: Collection[str] = (), has_padding: bool = False
) -> dict[str, PublishedTensor]:
    """Return the tensor of Marian for each weight of ours; biases are `[1, width]`.

    Args:
        config: The model.
        names: Names in the file: an output matrix of its own is stored in one of two
            layouts.
        has_padding: Whether the file has rows for padding; otherwise they are added.
    """

    found = _embedding_tensors(config, names, has_padding)
    is_pre_norm = config.norm_placement == "pre"

    def norm(ours, theirs, is_before=is_pre_norm):
        end = "_pre" if is_before else ""
        found[f"{ours}/gamma"] = PublishedTensor(f"{theirs}_ln_scale{end}", np.ravel)
        found[f"{ours}/beta"] = PublishedTensor(f"{theirs}_ln_bias{end}", np.ravel)

    def linear(ours, kernel, bias):
        found[f"{ours}/kernel"] = PublishedTensor(kernel)
        found[f"{ours}/bias"] = PublishedTensor(bias, np.ravel)

    attention = {"query": "q", "key": "k", "value": "v", "output": "o"}
    for side, depth, parts in (
        ("encoder", config.encoder_depth, {"self_attention": "self"}),
        (
            "decoder",
            config.decoder_depth,
            {"self_attention": "self", "cross_attention": "context"},
        ),
    ):
        if config.normalize_embeddings:
            ours = "source_norm" if side == "encoder" else "target_norm"
            norm(ours, f"{side}_emb", is_before=True)
        if is_pre_norm:
            norm(f"{side}/final_norm", f"{side}_top", is_before=False)
        for number in range(depth):
            ours, theirs = f"{side}/layer_{number}", f"{side}_l{number + 1}"
            for part, name in parts.items():
                for own, letter in attention.items():
                    linear(
                        f"{ours}/{part}/{own}",
                        f"{theirs}_{name}_W{letter}",
                        f"{theirs}_{name}_b{letter}",
                    )
                norm(f"{ours}/{part}_residual/norm", f"{theirs}_{name}_Wo")
            for own, letter in {"hidden": "1", "output": "2"}.items():
                linear(
                    f"{ours}/feed_forward/{own}",
                    f"{theirs}_ffn_W{letter}",
                    f"{theirs}_ffn_b{letter}",
                )
            norm(f"{ours}/feed_forward_residual/norm", f"{theirs}_ffn_ffn")
    return found


def _embedding_tensors(config, names, has_padding) -> dict[str, PublishedTensor]:
    """Return the tensors of embeddings and of the pre-softmax map."""

    def table(array, size=config.output_vocab_size):
        """Return the rows with one for padding, if the file has none.

        An array of another size stays: it is an error later.
        """
        if not has_padding and len(array) == size - 1:
            array = np.insert(array, config.pad_id, 0.0, axis=0)
        return array

    def source_table(array):
        return table(array, config.vocab_size)

    output, name = "embedding", "decoder_ff_logit_out"
    found = {"embedding/embeddings": PublishedTensor("Wemb", table)}
    if not config.share_embeddings:
        output = "target_embedding"
        found = {
            "embedding/embeddings": PublishedTensor("encoder_Wemb", source_table),
            "target_embedding/embeddings": PublishedTensor("decoder_Wemb", table),
        }
        if not config.share_decoder_embeddings:
            output = "output_embedding"
            found["output_embedding/embeddings"] = (
                PublishedTensor(f"{name}_Wt", table)
                if f"{name}_Wt" in names
                else PublishedTensor(f"{name}_W", lambda array: table(array.T))
            )
    if config.output_bias:
        found[f"{output}/output_bias"] = PublishedTensor(
            f"{name}_b", lambda array: table(np.ravel(array))
        )
    return found


def _with_padding(folder, vocabularies) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Return the vocabularies with a piece for padding, and the special ids.

    Marian has no padding. It gets an id that is the same in both vocabularies: the end
    of the smaller. Later ids of the larger move up by one.

    Raises:
        ValueError: If two vocabularies have EOS at different ids.
    """
    eos_ids = {vocabulary["</s>"] for vocabulary in vocabularies}
    if len(eos_ids) > 1:
        raise ValueError(
            f"{folder}: </s> must have the same id in both vocabularies. Received: "
            f"{sorted(eos_ids)}."
        )
    (pad_id, *others) = {vocabulary.get("<pad>") for vocabulary in vocabularies}
    if pad_id is None or others:
        pad_id = min(map(len, vocabularies))
        vocabularies = [
            {
                **{piece: i + (i >= pad_id) for piece, i in vocabulary.items()},
                "<pad>": pad_id,
            }
            for vocabulary in vocabularies
        ]
    special_ids = {"pad_id": pad_id, "bos_id": pad_id, "eos_id": eos_ids.pop()}
    return vocabularies, special_ids


def _sharing(path, options, num_vocabularies) -> dict[str, bool]:
    """Return which matrices of embeddings are the same, as fields of `ModelConfig`.

    Raises:
        ValueError: If no model of ours shares the same ones.
    """
    is_tied = options.get("tied-embeddings", False)
    is_source_tied = options.get("tied-embeddings-src", False)
    if options.get("tied-embeddings-all", True) or (is_tied and is_source_tied):
        if num_vocabularies > 1:
            raise ValueError(
                f"{path} has one matrix of embeddings, but decoder.yml names two "
                "vocabularies."
            )
        return {"share_embeddings": True}
    check_options(options, {"tied-embeddings-src": (False,)})
    return {"share_embeddings": False, "share_decoder_embeddings": is_tied}


def _sizes(path, options, num_vocabularies) -> list[int]:
    """Return the number of ids of each vocabulary, without padding that is added.

    Raises:
        ValueError: If the file does not have them.
    """
    sizes = options["dim-vocabs"]
    if not (isinstance(sizes, list) and len(sizes) >= num_vocabularies):
        raise ValueError(
            f"{path}: dim-vocabs must have the sizes of {num_vocabularies} "
            f"vocabularies. Received: {sizes!r}."
        )
    return sizes[:num_vocabularies]


def _model_config(options, sizes, special_ids, sharing) -> ModelConfig:
    depths = options["enc-depth"], options["dec-depth"]
    d_ff = options["transformer-dim-ffn"]
    # 0: the same as in the encoder.
    decoder_d_ff = options.get("transformer-decoder-dim-ffn") or d_ff
    return ModelConfig(
        vocab_size=sizes[0],
        target_vocab_size=None if len(sizes) == 1 else sizes[1],
        num_layers=depths[0],
        num_decoder_layers=None if depths[0] == depths[1] else depths[1],
        d_model=options["dim-emb"],
        d_ff=d_ff,
        decoder_d_ff=None if decoder_d_ff == d_ff else decoder_d_ff,
        num_heads=options["transformer-heads"],
        activation=_ACTIVATIONS[options["transformer-ffn-activation"]],
        norm_placement="pre" if options.get("transformer-preprocess") else "post",
        layer_norm_epsilon=_LAYER_NORM_EPSILON,
        attention_bias=True,
        output_bias=not options.get("output-omit-bias", False),
        position_layout="concatenated",
        normalize_embeddings="n" in options.get("transformer-postprocess-emb", ""),
        zero_first_input=True,
        suppressed_ids=(special_ids["pad_id"],),
        **special_ids,
        **sharing,
    )


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[Any]:
    try:
        # NumPy leaves a file that it opened itself open if it is damaged.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            yield archive
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a model of Marian, or is damaged: {error}."
        ) from error


def _blocks(path: pathlib.Path, name: str) -> Iterator[np.ndarray]:
    """Read one tensor as float32, in one block."""
    with _opened(path) as archive:
        array = archive[name]
        if not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f"{name} has the type {array.dtype}, not floating point")
    yield np.atleast_1d(np.asarray(array, np.float32))


def _file_names(decoder: Options, key: str) -> list[str]:
    """Return a list of file names in decoder.yml.

    Paths of another machine count as files of the folder.

    Raises:
        ValueError: If it is something else.
    """
    names = decoder[key]
    if not (
        isinstance(names, list) and names and all(isinstance(n, str) for n in names)
    ):
        raise ValueError(
            f"{decoder.path}: {key} must be a list of file names. Received: {names!r}."
        )
    return [
        name
        if (decoder.path.parent / name).is_file()
        and not pathlib.Path(name).is_absolute()
        else pathlib.Path(name).name
        for name in names
    ]


def _read_vocabulary(path: pathlib.Path) -> dict[str, int]:
    """Read a map from pieces to ids, or take the ids of a SentencePiece model.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged, or an id is missing.
    """
    if path.suffix == ".spm":
        return Options(path, {piece: i for i, piece in enumerate(pieces_of(path))})
    # Otherwise the pieces "no" and "1" would become a truth value and a number.
    entries = _read_yaml(path, keys_are_text=True)
    try:
        vocabulary = {piece: int(number) for piece, number in entries.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a vocabulary of Marian: {error}.") from error
    check_vocabulary(path, vocabulary)
    return Options(path, vocabulary)


def _read_yaml(path: pathlib.Path, keys_are_text: bool = False) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is absent. Copy the whole folder of the model."
        )
    return _parse_yaml(path, path.read_bytes(), keys_are_text)


def _parse_yaml(path, text, keys_are_text=False) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.load(text, yaml.BaseLoader if keys_are_text else yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} is damaged: {first}.") from error
    return Options(path, values)
