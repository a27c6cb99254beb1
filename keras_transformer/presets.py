"""Named configurations: the paper's models, and smaller ones for smaller jobs."""

from __future__ import annotations

import dataclasses

from keras_transformer.config import (
    DecodingConfig,
    ModelConfig,
    TrainingConfig,
    check_choice,
)


@dataclasses.dataclass(frozen=True)
class Preset:
    """A model, how it is trained, and how it decodes."""

    name: str
    # What it is for, in a line.
    description: str
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig = DecodingConfig()


_PRESETS = (
    Preset(
        name="tiny",
        description="Tens of thousands of pairs, on a CPU (as fairseq's for Multi30k).",
        model=ModelConfig(
            vocab_size=8000,
            num_layers=4,
            d_model=128,
            d_ff=256,
            num_heads=4,
            dropout_rate=0.3,
        ),
        # The rate peaks at 0.005 after 2,000 steps.
        training=TrainingConfig(
            train_steps=8000,
            tokens_per_batch=4096,
            learning_rate_scale=2.53,
            warmup_steps=2000,
            average_last=10,
        ),
    ),
    Preset(
        name="small",
        description="Hundreds of thousands of pairs, on one GPU.",
        model=ModelConfig(
            vocab_size=16_000, num_layers=4, d_model=256, d_ff=1024, num_heads=4
        ),
        training=TrainingConfig(train_steps=50_000, tokens_per_batch=8192),
    ),
    Preset(
        name="base",
        description="The paper's base model (Table 3): millions of pairs, 8 GPUs.",
        model=ModelConfig(),
        training=TrainingConfig(),
    ),
    Preset(
        name="big",
        description="The paper's big model (Table 3), for English to German.",
        model=ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout_rate=0.3),
        training=TrainingConfig(train_steps=300_000, average_last=20),
    ),
)


def names() -> list[str]:
    """Return the names of all presets."""
    return [preset.name for preset in _PRESETS]


def get(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: If there is none of that name; the message suggests the nearest.
    """
    check_choice("preset", name, names())
    return next(preset for preset in _PRESETS if preset.name == name)
