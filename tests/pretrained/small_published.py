"""Small folders in the formats of published models, with random weights."""

import io
import json

import numpy as np
import sentencepiece
import yaml
from safetensors.numpy import save_file

from keras_transformer import tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.pretrained import huggingface, marian
from tests.small_models import LINES, choosing_model

MARIAN = {
    "num_decoder_layers": 1,
    "decoder_d_ff": 11,
    "activation": "silu",
    "position_layout": "concatenated",
    "zero_first_input": True,
    "output_bias": True,
}
M2M100 = {"norm_placement": "pre", "position_layout": "halves", "first_position": 2}


def vocabulary():
    """Return the SentencePiece model of some lines, and its pieces in other order."""
    tokenizer = tokenization.train_bpe(LINES * 5, vocab_size=300)
    pieces = tokenizer.pieces(np.arange(tokenizer.vocab_size)).numpy()
    names = sorted(piece.decode() for piece in pieces[4:])
    return tokenizer._vocabulary, names


def nllb_vocabulary():
    """Return a SentencePiece model as NLLB has it, and its pieces but the special."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 5),
        model_writer=written,
        model_type="bpe",
        vocab_size=100,
        minloglevel=2,
    )
    proto = written.getvalue()
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
        table = model.embedding.embeddings.numpy()
        table[special_ids["pad_id"]] = 0.0
        model.embedding.embeddings.assign(table)
    return model


def tensors_of(model, tensor_names):
    """Return the weights under the names of a format, in its layout."""
    found = {}
    for weight in model.weights:
        tensor = tensor_names(model.config)[weight.path.split("/", 1)[1]]
        array = weight.numpy()
        if tensor.convert is np.transpose:
            array = array.T
        elif tensor.convert is not np.asarray:
            array = array[np.newaxis]  # a bias
        found[tensor.name] = np.ascontiguousarray(array)
    return found


def write_huggingface(folder, family="marian"):
    """Write a folder as Transformers does, and return the model in it.

    Args:
        folder: The folder to make.
        family: "marian", "m2m_100" or "nllb".
    """
    proto, names = nllb_vocabulary() if family == "nllb" else vocabulary()
    folder.mkdir(parents=True)
    if family == "marian":
        pieces = ["</s>", "<unk>", ">>deu<<", *names, "<pad>"]
        special_ids = {"pad_id": len(pieces) - 1, "eos_id": 0}
        special_ids["bos_id"] = special_ids["pad_id"]
        model = make_model(MARIAN, pieces, special_ids)
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
    }
    write_json(folder / "config.json", options)
    bad_words = [[config.pad_id]]
    write_json(folder / "generation_config.json", {"bad_words_ids": bad_words})
    if family != "nllb":
        write_json(folder / "vocab.json", {p: i for i, p in enumerate(pieces)})
    save_file(tensors_of(model, huggingface.tensor_names), folder / "model.safetensors")
    return model


def write_marian(folder):
    """Write a folder as Marian does, without a row for padding; return the model."""
    proto, names = vocabulary()
    folder.mkdir(parents=True)
    pieces = ["</s>", "<unk>", *names]
    pad_id = len(pieces)
    special_ids = {"pad_id": pad_id, "eos_id": 0, "bos_id": pad_id}
    options = {**MARIAN, "normalize_embeddings": True}
    model = make_model(options, [*pieces, "<pad>"], special_ids)
    config = model.config
    tensors = tensors_of(model, marian.tensor_names)
    tensors["Wemb"] = tensors["Wemb"][0, :-1]
    bias = tensors["decoder_ff_logit_out_b"]
    model.embedding.output_bias.assign(np.append(bias[0, :-1], 0.0))
    tensors["decoder_ff_logit_out_b"] = bias[:, :-1]
    described = {
        "type": "transformer",
        "dim-emb": config.d_model,
        "dim-vocabs": [len(pieces), len(pieces)],
        "enc-depth": config.encoder_depth,
        "dec-depth": config.decoder_depth,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.encoder_ffn_dim,
        "transformer-decoder-dim-ffn": config.decoder_ffn_dim,
        "transformer-ffn-activation": "swish",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "nd",
        "tied-embeddings-all": True,
    }
    text = yaml.safe_dump(described).encode() + b"\0"
    np.savez(
        folder / "model.npz",
        **tensors,
        **{"special:model.yml": np.frombuffer(text, np.int8)},
    )
    write_json(folder / "vocab.yml", {p: i for i, p in enumerate(pieces)})
    decoder = {"models": ["model.npz"], "vocabs": ["vocab.yml"] * 2, "normalize": 0.6}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(proto)
    return model


def write_json(path, values):
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
