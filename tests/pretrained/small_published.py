"""Small folders in the formats of published models, with random weights."""

import functools
import json

import numpy as np
import sentencepiece
import yaml
from safetensors.numpy import save_file

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.pretrained import huggingface, marian
from tests import small_models
from tests.small_models import LINES, choosing_model

MARIAN = {
    "num_decoder_layers": 1,
    "decoder_d_ff": 11,
    "activation": "silu",
    "position_layout": "concatenated",
    "zero_first_input": True,
    "output_bias": True,
}
SEPARATE = {"share_embeddings": False, "share_decoder_embeddings": True}
M2M100 = {"norm_placement": "pre", "position_layout": "halves", "first_position": 2}


def vocabulary(size=300):
    """Return the SentencePiece model of some lines, and its pieces in other order."""
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=size)
    pieces = tokenizer.pieces(np.arange(tokenizer.vocab_size)).numpy()
    names = sorted(piece.decode() for piece in pieces[4:])
    return tokenizer._vocabulary, names


def nllb_vocabulary():
    """Return a SentencePiece model as NLLB has it, and its pieces but the special."""
    proto = small_models.vocabulary(pad_id=-1)
    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return proto, [model.id_to_piece(i) for i in range(3, model.get_piece_size())]


def make_model(options, pieces, special_ids):
    config = ModelConfig(
        vocab_size=len(pieces),
        num_layers=2,
        d_model=6,
        d_ff=7,
        num_heads=2,
        layer_norm_epsilon=1e-5,
        attention_bias=True,
        suppressed_ids=(special_ids["pad_id"],),
        **special_ids,
        **options,
    )
    model = choosing_model(config, seed=5)
    if config.zero_first_input:
        for embedding in (model.embedding, model.target_embedding):
            table = embedding.embeddings.numpy()
            table[special_ids["pad_id"]] = 0.0
            embedding.embeddings.assign(table)
    return model


def tensors_of(model, tensor_names):
    """Return the weights under the names of a format, in its layout."""
    found = {}
    for weight in model.weights:
        tensor = tensor_names(model.config)[weight.path.split("/", 1)[1]]
        array = weight.numpy()
        if tensor.convert is np.transpose:
            array = array.T
        elif tensor.convert is not None:
            array = array[np.newaxis]  # a bias
        found[tensor.name] = np.ascontiguousarray(array)
    return found


def _made_once(write):
    """Let a function that writes a folder make the model of the same options once."""
    made = {}

    @functools.wraps(write)
    def write_again(folder, *options, **named):
        key = (*options, *sorted(named.items()))
        if key not in made:
            model = write(folder, *options, **named)
            files = {path.name: path.read_bytes() for path in folder.iterdir()}
            made[key] = model, files
            return model
        model, files = made[key]
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return model

    return write_again


@_made_once
def write_huggingface(folder, family="marian", separate=False):
    """Write a folder as Transformers does, and return the model in it.

    Args:
        folder: The folder to make.
        family: "marian", "m2m_100" or "nllb".
        separate: "marian": whether targets have a vocabulary of their own.
    """
    proto, names = nllb_vocabulary() if family == "nllb" else vocabulary()
    folder.mkdir(parents=True)
    if family == "marian":
        pieces = ["</s>", "<unk>", ">>deu<<", *names, "<pad>"]
        special_ids = {"pad_id": len(pieces) - 1, "eos_id": 0}
        special_ids["bos_id"] = special_ids["pad_id"]
        sharing = {**SEPARATE, "target_vocab_size": len(pieces)} if separate else {}
        model = make_model(MARIAN | sharing, pieces, special_ids)
        for name in ("source.spm", "target.spm"):
            (folder / name).write_bytes(proto)
    else:
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *names]
        languages = ["__en__", "__de__"]
        if family == "nllb":
            languages = ["eng_Latn", "deu_Latn"]
        special_ids = {"pad_id": 1, "eos_id": 2, "bos_id": 2}
        model = make_model(M2M100, [*pieces, *languages], special_ids)
        (folder / "sentencepiece.bpe.model").write_bytes(proto)
        write_json(
            folder / "special_tokens_map.json",
            {"additional_special_tokens": languages},
        )
    config = model.config
    options = {
        "model_type": "marian" if family == "marian" else "m2m_100",
        "activation_function": {"silu": "swish"}.get(config.activation, "relu"),
        "d_model": config.d_model,
        "encoder_layers": config.encoder_depth,
        "decoder_layers": config.decoder_depth,
        "encoder_ffn_dim": config.encoder_ffn_dim,
        "decoder_ffn_dim": config.decoder_ffn_dim,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "vocab_size": config.vocab_size,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.eos_id,
        "decoder_start_token_id": config.bos_id,
        "dropout": config.dropout_rate,
        "scale_embedding": True,
    }
    if separate:
        options |= {"share_encoder_decoder_embeddings": False}
        options |= {"decoder_vocab_size": config.output_vocab_size}
        write_json(folder / "tokenizer_config.json", {"separate_vocabs": True})
        pieces_of_targets = ["</s>", "<unk>", "<none>", *reversed(names), "<pad>"]
        ids = {piece: i for i, piece in enumerate(pieces_of_targets)}
        write_json(folder / "target_vocab.json", ids)
    write_json(folder / "config.json", options)
    bad_words = [[config.pad_id]]
    write_json(folder / "generation_config.json", {"bad_words_ids": bad_words})
    if family != "nllb":
        write_json(folder / "vocab.json", {p: i for i, p in enumerate(pieces)})
    save_file(tensors_of(model, huggingface.tensor_names), folder / "model.safetensors")
    return model


@_made_once
def write_marian(folder, separate=False, tied=True):
    """Write a folder as Marian does, without a row for padding; return the model.

    Args:
        folder: The folder to make.
        separate: Whether targets have a vocabulary of their own, a smaller one.
        tied: Whether the output has the matrix of target embeddings.
    """
    proto, names = vocabulary()
    folder.mkdir(parents=True)
    vocabularies = {"vocab.yml": ["</s>", "<unk>", *names]}
    protos, options = [proto] * 2, {**MARIAN, "normalize_embeddings": True}
    if separate:
        protos[1], targets = vocabulary(290)
        vocabularies["target.yml"] = ["</s>", "<unk>", *reversed(targets)]
        options |= SEPARATE | {"share_decoder_embeddings": tied}
    sizes = [len(pieces) for pieces in vocabularies.values()]
    if separate:
        options["target_vocab_size"] = sizes[1] + 1
    pad_id = min(sizes)
    special_ids = {"pad_id": pad_id, "eos_id": 0, "bos_id": pad_id}
    model = make_model(options, range(sizes[0] + 1), special_ids)
    config = model.config
    tensors = tensors_of(model, marian.tensor_names)
    for name in ("Wemb", "encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_W"):
        if name in tensors:
            tensors[name] = np.delete(tensors[name][0], pad_id, axis=0)
    if not tied:
        tensors["decoder_ff_logit_out_W"] = tensors["decoder_ff_logit_out_W"].T
        table = model.output_embedding.embeddings.numpy()
        table[pad_id] = 0.0
        model.output_embedding.embeddings.assign(table)
    bias = tensors["decoder_ff_logit_out_b"]
    tensors["decoder_ff_logit_out_b"] = np.delete(bias, pad_id, axis=1)
    bias[0, pad_id] = 0.0
    model.output_embedding.output_bias.assign(bias[0])
    described = {
        "type": "transformer",
        "dim-emb": config.d_model,
        "dim-vocabs": [sizes[0], sizes[-1]],
        "enc-depth": config.encoder_depth,
        "dec-depth": config.decoder_depth,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.encoder_ffn_dim,
        "transformer-decoder-dim-ffn": config.decoder_ffn_dim,
        "transformer-ffn-activation": "swish",
        "transformer-ffn-depth": 2,
        "transformer-decoder-autoreg": "self-attention",
        "transformer-guided-alignment-layer": "last",
        "transformer-no-projection": False,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "nd",
        "tied-embeddings-all": not separate,
        "tied-embeddings": tied,
    }
    text = yaml.safe_dump(described).encode() + b"\0"
    np.savez(
        folder / "model.npz",
        **tensors,
        **{"special:model.yml": np.frombuffer(text, np.int8)},
    )
    for name, pieces in vocabularies.items():
        lines = [
            f"{json.dumps(p, ensure_ascii=False)}: {i}\n" for i, p in enumerate(pieces)
        ]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    files = [*vocabularies][:1] + [*vocabularies][-1:]
    decoder = {"models": ["model.npz"], "vocabs": files, "normalize": 0.6}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    for name, content in zip(("source.spm", "target.spm"), protos, strict=True):
        (folder / name).write_bytes(content)
    return model


def write_json(path, values):
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
