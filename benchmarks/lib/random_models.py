"""Translators with random weights, whose outputs always have the largest length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer import config as config_lib
from keras_transformer.config import SPACE, DecodingConfig, ModelConfig
from keras_transformer.decoding.scoring import normalized_scores
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.tokenization import SentencePieceTokenizer
from keras_transformer.tokenization.sentencepiece_proto import (
    BPE,
    CONTROL,
    UNKNOWN,
    ModelProto,
)

_SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
# Special pieces, the space and the ten digits have the ids before the numbers.
FIRST_NUMBER = len(_SPECIAL_PIECES) + 1 + 10

# Of a copying model: the factor of attention's scores, which makes it look at one
# position, and that of the copied token beside the token before.
_SHARP, _LOUD = 30.0, 10.0


def number_tokenizer(vocab_size: int) -> SentencePieceTokenizer:
    """Return a tokenizer of a `number_vocabulary`."""
    return SentencePieceTokenizer(number_vocabulary(vocab_size)[0], kind="bpe")


def number_vocabulary(vocab_size: int) -> tuple[bytes, list[str]]:
    """Return a BPE model in which each number from 0 on is one token.

    It needs no training: "369" is merged from "36" and "9", "36" from "3" and "6".

    Args:
        vocab_size: Number of ids; those from `FIRST_NUMBER` on are the numbers.

    Returns:
        The SentencePiece model, and all its pieces.

    Raises:
        ValueError: If `vocab_size` is too small for a number.
    """
    config_lib.check_at_least("vocab_size", vocab_size, FIRST_NUMBER + 1)
    model = ModelProto()
    model.trainer_spec.model_type = BPE
    model.normalizer_spec.name = "identity"
    for piece in _SPECIAL_PIECES:
        kind = UNKNOWN if piece == "<unk>" else CONTROL
        model.pieces.add(piece=piece, score=0.0, type=kind)
    numbers = (f"{SPACE}{number}" for number in range(vocab_size - FIRST_NUMBER))
    for rank, piece in enumerate([SPACE, *"0123456789", *numbers]):
        model.pieces.add(piece=piece, score=-rank)
    return model.SerializeToString(), [piece.piece for piece in model.pieces]


def number_texts(vocab_size: int, count: int, length: int, seed: int) -> list[str]:
    """Return random sources of exactly `length` tokens, EOS included.

    Args:
        vocab_size: Vocabulary size of the `number_tokenizer`.
        count: Number of sources.
        length: At least 2 (one word and EOS).
        seed: Seed of the numbers.
    """
    config_lib.check_at_least("source_length", length, 2)
    draw = np.random.default_rng(seed)
    rows = draw.integers(vocab_size - FIRST_NUMBER, size=(count, length - 1))
    return [" ".join(map(str, row)) for row in rows]


def random_translator(
    config: ModelConfig, decoding: DecodingConfig, precision: str
) -> Translator:
    """Return a translator with random weights that only writes numbers.

    The output projection is zero for all other pieces, including EOS. Their logits are
    0, and half of the numbers have larger logits. So every output reaches its length
    limit, and its text has the same number of tokens.

    Args:
        config: The model's configuration, with the package's special ids.
        decoding: Search settings.
        precision: Name of a Keras dtype policy.
    """
    tokenizer = number_tokenizer(config.vocab_size)
    model = Transformer(config, dtype=precision)
    table = model.output_embedding.embeddings
    is_number = tf.range(table.shape[0]) >= FIRST_NUMBER
    table.assign(table.value * tf.cast(is_number, table.dtype)[:, tf.newaxis])
    return Translator(model, tokenizer, decoding)


def copying_translator(
    config: ModelConfig, decoding: DecodingConfig, precision: str
) -> Translator:
    """Return a translator of numbers that copies its sources, so that outputs end.

    The last layer of the decoder attends to the source's token at its own position,
    which the first dimensions tell; what the other layers add is zero.

    Args:
        config: The model's configuration: sinusoidal positions, norms after residuals,
            shared embeddings.
        decoding: Search settings.
        precision: Name of a Keras dtype policy.
    """
    model = Transformer(config, dtype=precision)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        parts = [layer.self_attention.output_projection, layer.ffn.output_projection]
        if layer in model.decoder.layers:
            parts.append(layer.cross_attention.output_projection)
        for part in parts:
            part.kernel.assign(tf.zeros_like(part.kernel))
    width = config.head_key_dim
    attention = model.decoder.layers[-1].cross_attention
    table = model.target_embedding.embeddings
    is_word = np.arange(config.d_model) >= width
    is_word[-2] = False
    table.assign(table.value * is_word)
    # Each head has the position; together their values are the whole token. The last
    # sine is about 0 at each position, so it has what a norm added to all numbers.
    position = np.eye(config.d_model, width)
    position[-2] = -1
    position = np.tile(position, config.num_heads)
    identity = np.eye(config.d_model)
    for part, kernel in (
        (attention.query_projection, _SHARP * position),
        (attention.key_projection, position),
        (attention.value_projection, identity),
        (attention.output_projection, _LOUD * identity),
    ):
        part.kernel.assign(kernel)
    return Translator(model, number_tokenizer(config.vocab_size), decoding)


def teacher_forced_scores(
    translator: Translator, texts: Sequence[str], outputs: Sequence[str]
) -> tuple[list[float], list[int]]:
    """Score outputs of a search with teacher-forced passes of the model, one by one.

    Args:
        translator: The result of `random_translator`.
        texts: The sources.
        outputs: The translation of each source; EOS is added to outputs below the
            length limit.

    Returns:
        Log probability / length penalty of each output, and its number of tokens, EOS
        included.
    """
    model, decoding = translator.model, translator.decoding
    scores, lengths = [], []
    written = translator.tokenizer.encode(list(outputs))
    for text, tokens in zip(texts, written, strict=True):
        source, _ = translator.source_tokens(tf.constant([text]))
        if len(tokens) < int(translator.output_limits(source)[0]):
            tokens = np.append(tokens, model.config.eos_id)
        target = tf.constant(tokens[np.newaxis], tf.int32)
        logits = model(source, model.shift_right(target), training=False)
        each = tf.gather(tf.nn.log_softmax(logits), target, batch_dims=2)
        score = normalized_scores(tf.reduce_sum(each), tf.size(target), decoding)
        scores.append(float(score))
        lengths.append(len(tokens))
    return scores, lengths
