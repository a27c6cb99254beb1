"""Recording the attention weights of a model for one sentence pair."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer.config import check_choice
from keras_transformer.inference.translator import Translator

# The three uses of attention, §3.2.3, as headings.
KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "encoder-decoder attention",
}


@dataclasses.dataclass(frozen=True)
class AttentionRecord:
    """The attention weights of every layer and head for one sentence pair.

    In decoder self-attention, queries and keys are the tokens that the decoder read,
    BOS first. In encoder-decoder attention, the query is the token being written.
    """

    source_text: str
    # Vocabulary entries, EOS last. "▁" stands for the space before a piece.
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    # The first input of the decoder.
    bos_piece: str
    # By kind: float32 `[layer, head, query, key]`; each query's weights sum to 1.
    weights: dict[str, np.ndarray]

    def queries(self, kind: str) -> tuple[str, ...]:
        """Return the query pieces (the rows of the weights), in order."""
        return {
            "encoder": self.source_pieces,
            "decoder": self._read,
            "cross": self.target_pieces,
        }[kind]

    def keys(self, kind: str) -> tuple[str, ...]:
        """Return the key pieces (the columns of the weights), in order."""
        return self._read if kind == "decoder" else self.source_pieces

    def num_layers(self, kind: str) -> int:
        """Return the number of layers with this kind of attention."""
        return len(self.weights[kind])

    @property
    def num_heads(self) -> int:
        """Number of heads in every layer."""
        return self.weights["encoder"].shape[1]

    @property
    def _read(self) -> tuple[str, ...]:
        return (self.bos_piece, *self.target_pieces[:-1])


def record_attention(
    translator: Translator, source_text: str, target_text: str | None = None
) -> AttentionRecord:
    """Run a sentence pair through the model and record every attention weight.

    Args:
        translator: Model and tokenizer.
        source_text: The source sentence.
        target_text: The target sentence; None: the model's own translation.

    Raises:
        ValueError: If a text has no words, or the source exceeds the model's input
            limit.
    """
    source = _tokens(translator, "source_text", source_text)
    limit = translator.decoding.max_input_length
    if len(source) > limit:
        raise ValueError(
            f"`source_text` must have at most {limit} tokens, EOS included. "
            f"Received: {len(source)} tokens."
        )
    if target_text is None:
        target = _translated(translator, source)
    else:
        target = _tokens(translator, "target_text", target_text)
    model = translator.model
    decoder_inputs = model.shift_right(tf.constant([target], tf.int32))
    _, weights = model(
        tf.constant([source], tf.int32), decoder_inputs, return_attention=True
    )
    return AttentionRecord(
        source_text=source_text,
        source_pieces=_as_text(translator.tokenizer.pieces(source)),
        target_pieces=_as_text(translator.tokenizer.target_pieces(target)),
        bos_piece=_as_text(translator.tokenizer.pieces([model.config.bos_id]))[0],
        weights={
            kind: np.stack([np.float32(layer[0]) for layer in layers])
            for kind, layers in weights.items()
        },
    )


def check_layer_and_heads(
    record: AttentionRecord, kind: str, layer: int, heads: list[int]
) -> None:
    """Raise ValueError unless the record has this layer and these heads, from 1."""
    check_choice("attention", kind, tuple(KINDS))
    for name, number, maximum in (
        ("layer", layer, record.num_layers(kind)),
        *(("head", head, record.num_heads) for head in heads),
    ):
        if not 1 <= number <= maximum:
            raise ValueError(
                f"`{name}` must be from 1 to {maximum}, the number that the model has. "
                f"Received: {name}={number}."
            )
    if not heads:
        raise ValueError("`heads` must name at least one head, counted from 1.")


def _tokens(translator, name, text) -> list[int]:
    """Return the ids of a text, EOS last."""
    tokenizer = translator.tokenizer
    is_target = name == "target_text"
    encode = tokenizer.encode_target if is_target else tokenizer.encode
    (tokens,) = encode([text])
    if not len(tokens):
        raise ValueError(f"`{name}` must have words. Received: {text!r}.")
    return [*tokens.tolist(), translator.model.config.eos_id]


def _translated(translator, source) -> list[int]:
    """Return the ids of the best hypothesis, EOS last."""
    config = translator.model.config
    best = translator.search(tf.constant([source], tf.int32)).tokens[0, 0].numpy()
    # A hypothesis cut at the output limit has no EOS of its own.
    written = best[(best != config.pad_id) & (best != config.eos_id)]
    return [*written.tolist(), config.eos_id]


def _as_text(pieces: tf.Tensor) -> tuple[str, ...]:
    return tuple(piece.decode("utf-8", "replace") for piece in pieces.numpy())
