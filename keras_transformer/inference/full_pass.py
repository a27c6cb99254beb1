"""Whole sentences through a trained model, with one trace for all layers.

Computes the same as `Transformer.call` without training. Tracing, saving and loading
this graph take about the same time for any number of layers.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_transformer.inference import sublayers
from keras_transformer.inference.shared_traces import call_nth_layer
from keras_transformer.model.transformer import Transformer


def encode(model: Transformer, source_tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Run the encoder.

    Args:
        model: A built model.
        source_tokens: int32 `[batch, source_length]`.

    Returns:
        The encoder output, float `[batch, source_length, d_model]`, and the mask of the
        source, bool `[batch, 1, source_length]`.
    """
    x, mask = model.embed_source(source_tokens)
    encode_layer = call_nth_layer(
        model.encoder.layers,
        lambda layer, x, mask: layer(x, attention_mask=mask, training=False)[0],
    )
    for number in range(model.config.encoder_depth):
        x = encode_layer(number, x, mask)
    return model.encoder.normed(x, training=False), mask


def start(model: Transformer, source_tokens: tf.Tensor) -> dict[str, Any]:
    """Encode the sources and compute cross-attention keys and values of all layers.

    Args:
        model: A built model.
        source_tokens: int32 `[batch, source_length]`.

    Returns:
        `source` of `decoder_step.decode_step`: "memory", the keys of each layer, float
        `[batch, heads, key_dim, source_length]`, and its values, float `[batch, heads,
        source_length, value_dim]`; and "mask", bool `[batch, 1, source_length]`.
    """
    encoder_output, mask = encode(model, source_tokens)
    project = call_nth_layer(
        [layer.cross_attention for layer in model.decoder.layers],
        lambda attention, source: sublayers.memory(
            tf.transpose, *attention.project_source(source)
        ),
        lambda attention: [
            *attention.key_projection.weights,
            *attention.value_projection.weights,
        ],
    )
    memory = [project(n, encoder_output) for n in range(model.config.decoder_depth)]
    return {"memory": memory, "mask": mask}


def decode(
    model: Transformer, source_tokens: tf.Tensor, decoder_inputs: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Run pairs through the model, without the pre-softmax map.

    The logits are by far the largest tensor and not always needed.

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
    x = model.embed_target(decoder_inputs)
    self_mask = model.decoder.self_attention_mask(x)
    cross_weights = []
    for number in range(model.config.decoder_depth):
        x, weights = decode_layer(number, x, encoder_output, self_mask, source_mask)
        cross_weights.append(weights)
    return model.decoder.normed(x, training=False), cross_weights
