"""The cost of training in floating-point operations, §6.1 and Table 2.

The paper estimates it as time x GPUs x sustained FLOPS. The alternative is to count the
multiplications and additions of all matrix products: three times those of the forward
pass, because the gradient of a product is two products of the same size.
"""

from __future__ import annotations

import dataclasses

from keras_transformer.config import ModelConfig

# Sustained single-precision TFLOPS of a device, from the paper (§6.1, footnote).
SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
# Peak TFLOPS of later devices, from data sheets: bfloat16 matrix products without
# sparsity, float16 for V100. Training often sustains 0.3 to 0.5 of the peak.
PEAK_TFLOPS = {"V100": 125.0, "A100": 312.0, "H100": 989.0, "H200": 989.0}


@dataclasses.dataclass(frozen=True)
class PublishedCost:
    """A row of Table 2: BLEU on newstest2014 and FLOPs of training."""

    model: str
    bleu_ende: float | None = None
    bleu_enfr: float | None = None
    flops_ende: float | None = None
    flops_enfr: float | None = None


TABLE_2 = (
    PublishedCost("ByteNet", 23.75),
    PublishedCost("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    PublishedCost("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    PublishedCost("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    PublishedCost("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    PublishedCost("Deep-Att + PosUnk ensemble", None, 40.4, None, 8.0e20),
    PublishedCost("GNMT + RL ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    PublishedCost("ConvS2S ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    PublishedCost("Transformer (base)", 27.3, 38.1, 3.3e18, 3.3e18),
    PublishedCost("Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19),
)


def flops_of_time(hours: float, num_devices: int, sustained_tflops: float) -> float:
    """Estimate FLOPs with the paper's formula, §6.1.

    Args:
        hours: Wall time of the training.
        num_devices: Number of devices.
        sustained_tflops: Sustained 1e12 operations per second of one device.

    Raises:
        ValueError: If a number is not above 0.
    """
    given = {
        "hours": hours,
        "num_devices": num_devices,
        "sustained_tflops": sustained_tflops,
    }
    for name, value in given.items():
        if not value > 0:
            raise ValueError(f"`{name}` must be above 0. Received: {name}={value}.")
    return hours * 3600.0 * num_devices * sustained_tflops * 1e12


def forward_flops(config: ModelConfig, source_length: int, target_length: int) -> float:
    """Count the FLOPs of the matrix products of one pair's forward pass.

    Softmax, normalization and dropout are not counted: less than 1 % at the paper's
    sizes. Masked positions are counted, because they are computed.

    Args:
        config: The model.
        source_length: Tokens of the source, padding included.
        target_length: Tokens of the target, padding included.
    """
    inner = config.num_heads * (config.head_key_dim + config.head_value_dim)
    projection = 2.0 * config.d_model * inner  # two of the four, for one token
    encoder_ffn = 4.0 * config.d_model * config.encoder_ffn_dim
    decoder_ffn = 4.0 * config.d_model * config.decoder_ffn_dim
    seen_by = 2.0 * inner  # both products with one key, for one query
    window = config.attention_window or max(source_length, target_length)
    encoder = source_length * (
        2 * projection + encoder_ffn + seen_by * min(source_length, window)
    )
    decoder_self = target_length * (
        2 * projection + seen_by * min(target_length, window)
    )
    # Queries and outputs are at target positions, keys and values at source positions.
    cross_queries = target_length * (projection + seen_by * source_length)
    cross = cross_queries + source_length * projection
    decoder = decoder_self + cross + target_length * decoder_ffn
    logits = 2.0 * target_length * config.d_model * config.output_vocab_size
    return config.encoder_depth * encoder + config.decoder_depth * decoder + logits


def training_flops(
    config: ModelConfig, source_length: int, target_length: int
) -> float:
    """Count the FLOPs of one pair in training: forward plus twice that backward."""
    return 3.0 * forward_flops(config, source_length, target_length)


def num_parameters(config: ModelConfig) -> int:
    """Count the parameters of a model without building it."""
    d_model = config.d_model
    key_width = config.num_heads * config.head_key_dim
    value_width = config.num_heads * config.head_value_dim
    attention = 2 * d_model * (key_width + value_width)
    if config.attention_bias:
        attention += 2 * key_width + value_width + d_model

    def ffn(d_ff):
        return 2 * d_model * d_ff + d_ff + d_model

    norm = 2 * d_model
    encoder_layer = attention + ffn(config.encoder_ffn_dim) + 2 * norm
    decoder_layer = 2 * attention + ffn(config.decoder_ffn_dim) + 3 * norm
    total = config.encoder_depth * encoder_layer + config.decoder_depth * decoder_layer
    if config.norm_placement == "pre":
        total += 2 * norm
    if config.normalize_embeddings:
        total += 2 * norm
    words = config.vocab_size
    if not config.share_embeddings:
        matrices = 1 if config.share_decoder_embeddings else 2
        words += matrices * config.output_vocab_size
    total += words * d_model
    if config.output_bias:
        total += config.output_vocab_size
    if config.position_encoding == "learned":
        total += 2 * config.num_positions * d_model
    return total
