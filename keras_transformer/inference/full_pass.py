"""Whole sentences through a trained model, equal layers traced once.

Computes what `Transformer.call` does without training, in a graph that is made, stored
and loaded as fast for many layers as for one.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_transformer.inference.shared_traces import call_nth_layer
from keras_transformer.model.transformer import Transformer


def encode(model: Transformer, source_tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Run the encoder.

    Args:
        model: A built model.
        source_tokens: int32 `[batch, source_length]`.

    Returns:
        The encoder's output, float `[batch, source_length, d_model]`, and the mask of
        the source, bool `[batch, 1, source_length]`.
    """
    x, mask = model.embed_source(source_tokens)
    encode_layer = call_nth_layer(
        model.encoder.layers,
        lambda layer, x, mask: layer(x, attention_mask=mask, training=False)[0],
    )
    for number in range(model.config.num_layers):
        x = encode_layer(number, x, mask)
    return model.encoder.normed(x, training=False), mask


def start(model: Transformer, source_tokens: tf.Tensor) -> dict[str, Any]:
    """Encode the sources and project them for every decoder layer, once a sentence.

    Args:
        model: A built model.
        source_tokens: int32 `[batch, source_length]`.

    Returns:
        What `decoder_step.decode_step` needs of the source: "memory", per layer keys
        and values, float `[batch, heads, source_length, dim]`, and "mask", bool
        `[batch, 1, source_length]`.
    """
    encoder_output, mask = encode(model, source_tokens)
    project = call_nth_layer(
        [layer.cross_attention for layer in model.decoder.layers],
        lambda attention, source: attention.project_source(source),
        lambda attention: [
            *attention.key_projection.weights,
            *attention.value_projection.weights,
        ],
    )
    memory = [project(n, encoder_output) for n in range(model.config.num_layers)]
    return {"memory": memory, "mask": mask}


def decode(
    model: Transformer, source_tokens: tf.Tensor, decoder_inputs: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Run pairs through the model, up to the pre-softmax map.

    That map's output is the largest by far, and not always needed.

    Args:
        model: A built model.
        source_tokens: int32 `[batch, source_length]`.
        decoder_inputs: int32 `[batch, target_length]`: the target shifted right.

    Returns:
        The decoder's output, float `[batch, target_length, d_model]`, and for each
        layer the encoder-decoder attention weights, float
        `[batch, heads, target_length, source_length]`.
    """
    encoder_output, source_mask = encode(model, source_tokens)

    def run(layer, x, encoder_output, self_mask, source_mask):
        x, _, weights = layer(
            x,
            encoder_output,
            self_attention_mask=self_mask,
            cross_attention_mask=source_mask,
            training=False,
        )
        return x, weights

    decode_layer = call_nth_layer(model.decoder.layers, run)
    x = model.target_positions(model.target_embedding(decoder_inputs))
    self_mask = model.decoder.self_attention_mask(x)
    cross_weights = []
    for number in range(model.config.num_layers):
        x, weights = decode_layer(number, x, encoder_output, self_mask, source_mask)
        cross_weights.append(weights)
    return model.decoder.normed(x, training=False), cross_weights
