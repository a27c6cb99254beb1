"""Low-rank adapters (LoRA, Hu et al. 2021) for fine-tuning; not in the paper."""

from __future__ import annotations

from collections.abc import Iterator

import keras
from keras import ops

from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model.transformer import Transformer

_ADAPTERS = ("lora_kernel_a", "lora_kernel_b")


def add_adapters(model: Transformer, rank: int) -> None:
    """Add an adapter to every linear map of the layers; nothing else is trained then.

    An adapter adds A B to a kernel, where A has `rank` columns and B begins as zero.

    Args:
        model: A built model that is not yet compiled.
        rank: Columns of A; 0: add no adapters.
    """
    if not rank:
        return
    for weight in model.weights:
        weight.trainable = False
    for layer in _linear_layers(model):
        layer.enable_lora(rank)


def has_adapters(model: Transformer) -> bool:
    """Return whether a model has adapters."""
    return any(layer.lora_enabled for layer in _linear_layers(model))


def weights_without_adapters(model: Transformer) -> list[keras.Variable]:
    """Return the weights that a model has without adapters, in the same order."""
    return [weight for weight in model.weights if weight.name not in _ADAPTERS]


def merged(model: Transformer) -> Transformer:
    """Return the model with the adapters added to the kernels.

    Args:
        model: A built model.

    Returns:
        The same model if it has no adapters; otherwise a new one, which is not
        compiled.
    """
    if not has_adapters(model):
        return model
    with skip_weight_init():
        plain = Transformer(model.config, dtype=model.dtype_policy)
    plain.set_weights([weight.numpy() for weight in weights_without_adapters(model)])
    for ours, adapted in zip(_linear_layers(plain), _linear_layers(model), strict=True):
        product = ops.matmul(adapted.lora_kernel_a, adapted.lora_kernel_b)
        ours.kernel.assign_add(adapted.lora_alpha / adapted.lora_rank * product)
    return plain


def _linear_layers(model: Transformer) -> Iterator[keras.layers.Dense]:
    for layer in (*model.encoder.layers, *model.decoder.layers):
        attentions = [layer.self_attention]
        if layer in model.decoder.layers:
            attentions.append(layer.cross_attention)
        for attention in attentions:
            yield attention.query_projection
            yield attention.key_projection
            yield attention.value_projection
            yield attention.output_projection
        yield layer.ffn.hidden
        yield layer.ffn.output_projection
