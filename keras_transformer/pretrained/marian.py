"""Reading models of Marian: an .npz with its options inside, and vocabularies.

The names of the weights and the meaning of the options are those of Marian 1.10.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, ModelConfig
from keras_transformer.pretrained.published_model import (
    PublishedModel,
    PublishedTensor,
    check_options,
)
from keras_transformer.tokenization.mapped import MappedTokenizer

_OPTIONS = "special:model.yml"
_SUPPORTED = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-preprocess": ("", "n"),
    "transformer-postprocess-emb": ("d", "nd", "", "n"),
    "transformer-tied-layers": ([],),
    "transformer-depth-scaling": (False,),
    "tied-embeddings-all": (True,),
    "right-left": (False,),
    "ulr": (False,),
    "factors-combine": ("sum",),
}
# Options of post-norm and of pre-norm models, by `transformer-preprocess`.
_NORMS = {
    "": {
        "transformer-postprocess": ("dan",),
        "transformer-postprocess-top": ("",),
    },
    "n": {
        "transformer-postprocess": ("da",),
        "transformer-postprocess-top": ("n",),
    },
}
_ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu"}
_LAYER_NORM_EPSILON = 1e-5
_MAX_INPUT_LENGTH = 512


def read(folder: pathlib.Path) -> PublishedModel:
    """Describe the model in a folder of Marian.

    Args:
        folder: Has decoder.yml, which names the .npz and the vocabularies, and
            source.spm and target.spm.

    Raises:
        FileNotFoundError: If a file is absent.
        ValueError: If the model has an option that is not supported, or a file is
            damaged.
    """
    decoder = _read_yaml(folder / "decoder.yml")
    path = folder / decoder["models"][0]
    if not path.is_file():
        raise FileNotFoundError(f"{path} is absent, but decoder.yml names it.")
    archive = _load(path)
    options = _parse_yaml(path, bytes(archive[_OPTIONS]).rstrip(b"\0").decode())
    check_options(str(path), options, _SUPPORTED)
    check_options(
        str(path), options, {"transformer-ffn-activation": tuple(_ACTIVATIONS)}
    )
    check_options(str(path), options, _NORMS[options.get("transformer-preprocess", "")])
    vocabularies = [folder / name for name in decoder["vocabs"]]
    if vocabularies[0] != vocabularies[-1]:
        raise ValueError(
            f"{folder}/decoder.yml names two vocabularies, which is not supported."
        )
    vocabulary = _read_vocabulary(vocabularies[0])
    pad_id = vocabulary.get("<pad>", len(vocabulary))
    config = _model_config(options, pad_id, vocabulary["</s>"])
    tokenizer = MappedTokenizer.from_files(
        source=folder / "source.spm",
        target=folder / "target.spm",
        vocabulary={**vocabulary, "<pad>": pad_id},
        special_ids={"pad_id": pad_id, "bos_id": pad_id, "eos_id": config.eos_id},
        files=(vocabularies[0],),
    )
    names = frozenset(archive.files) - {_OPTIONS}
    return PublishedModel(
        family="marian",
        model=config,
        decoding=DecodingConfig(
            beam_size=decoder.get("beam-size", 4),
            length_penalty="power",
            length_penalty_alpha=float(decoder.get("normalize", 0.0)),
            max_input_length=_MAX_INPUT_LENGTH,
        ),
        tokenizer=tokenizer,
        source_language="",
        target_language="",
        tensors=tensor_names(config),
        copies={},
        names=names,
        read=lambda name: np.asarray(archive[name], np.float32),
        files=(path, folder / "decoder.yml", *tokenizer.files),
    )


def tensor_names(config: ModelConfig) -> dict[str, PublishedTensor]:
    """Return the tensor of Marian for each weight of ours; biases are `[1, width]`."""

    def table(array):
        missing = config.vocab_size - len(array)  # the row of padding
        return np.concatenate([array, np.zeros((missing, array.shape[1]), array.dtype)])

    found = {
        "embedding/embeddings": PublishedTensor("Wemb", table),
        "embedding/output_bias": PublishedTensor(
            "decoder_ff_logit_out_b", lambda array: table(array.T)[:, 0]
        ),
    }

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


def _model_config(options, pad_id, eos_id) -> ModelConfig:
    depths = options["enc-depth"], options["dec-depth"]
    d_ff = options["transformer-dim-ffn"]
    # 0: the same as in the encoder.
    decoder_d_ff = options.get("transformer-decoder-dim-ffn") or d_ff
    return ModelConfig(
        vocab_size=max(options["dim-vocabs"][0], pad_id + 1),
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
        output_bias=True,
        position_layout="concatenated",
        normalize_embeddings="n" in options.get("transformer-postprocess-emb", "d"),
        zero_first_input=True,
        suppressed_ids=(pad_id,),
        pad_id=pad_id,
        bos_id=pad_id,
        eos_id=eos_id,
    )


def _load(path: pathlib.Path) -> Any:
    try:
        archive = np.load(path, allow_pickle=False)
        archive[_OPTIONS]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(
            f"{path} is not a model of Marian, or is damaged: {error}."
        ) from error
    return archive


def _read_vocabulary(path: pathlib.Path) -> dict[str, int]:
    """Read a map from pieces to ids.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged, or an id is missing.
    """
    # Otherwise the pieces "no" and "1" would become a truth value and a number.
    entries = _read_yaml(path, keys_are_text=True)
    try:
        vocabulary = {piece: int(number) for piece, number in entries.items()}
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{path} is not a vocabulary of Marian: {error}.") from error
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError(
            f"{path} must have every id from 0 to {len(vocabulary) - 1} once."
        )
    return vocabulary


def _read_yaml(path: pathlib.Path, keys_are_text: bool = False) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is absent. Copy the whole folder of the model."
        )
    return _parse_yaml(path, path.read_text(encoding="utf-8"), keys_are_text)


def _parse_yaml(path, text, keys_are_text=False) -> dict[str, Any]:
    import yaml

    try:
        return yaml.load(text, yaml.BaseLoader if keys_are_text else yaml.SafeLoader)
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{path} is damaged: {first}.") from error
