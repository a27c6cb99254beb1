"""Named configurations: every model of the paper, and smaller ones for smaller jobs."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

from keras_transformer.config import (
    DecodingConfig,
    ModelConfig,
    TrainingConfig,
    check_choice,
    from_dict,
)
from keras_transformer.model import cost


@dataclasses.dataclass(frozen=True)
class PaperFigures:
    """The paper's results for a model; None if the paper has none.

    Examples:
        >>> kt.presets.get("big").paper.bleu
        26.4
    """

    # Table 3: per subword on newstest2013, the development set of English to German.
    perplexity: float | None = None
    # Table 3: tokenized BLEU on newstest2013, beam search, no averaging.
    bleu: float | None = None
    # Table 3, in millions, as rounded there; rows without a figure have that of base.
    parameters: int | None = None
    # Table 2: on newstest2014, checkpoints averaged (v5 of the paper).
    test_bleu: float | None = None
    # Table 2: FLOPs of the whole training.
    training_flops: float | None = None
    # Table 4: F1 of brackets on section 23 of the Wall Street Journal, in percent.
    f1: float | None = None


@dataclasses.dataclass(frozen=True)
class Preset:
    """A model, how it is trained, and how it decodes.

    Examples:
        >>> preset = kt.presets.get("tiny")
        >>> preset.model.d_model, preset.training.train_steps, preset.decoding.beam_size
        (128, 8000, 4)
    """

    name: str
    # One line on its purpose.
    description: str
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig = DecodingConfig()
    paper: PaperFigures | None = None


def _row(
    row: str,
    change: str,
    figures: tuple[float, float, int],
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
) -> Preset:
    """Make a row of Table 3: base with one change."""
    return Preset(
        name=f"table3_{row.lower()}",
        description=f"Table 3, row {row}: {change}.",
        model=ModelConfig(**(model or {})),
        training=TrainingConfig(**(training or {})),
        paper=PaperFigures(*figures),
    )


# Kasai et al. 2021, "Deep Encoder, Shallow Decoder" (arXiv 2006.10369): the encoder
# reads a sentence once, the decoder runs for each token. Trained on distilled text, 12
# layers and 1 translate about as well as 6 and 6, and faster.
_FAST_DEPTHS = {"num_encoder_layers": 12, "num_decoder_layers": 1}


def _fast(preset: Preset) -> Preset:
    """Make a preset's deep encoder and shallow decoder."""
    return dataclasses.replace(
        preset,
        name=f"{preset.name}_fast",
        description=f"As {preset.name}, for fast translation: 12 encoder layers and 1.",
        model=dataclasses.replace(preset.model, **_FAST_DEPTHS),
        paper=None,
    )


_BIG = ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout_rate=0.3)
_BIG_TRAINING = TrainingConfig(train_steps=300_000, average_last=20)
# §5.1: English to French has 32,000 word pieces
# (bin/prepare_data.py --tokenizer=wordpiece --vocab_size=32000).
_WORD_PIECES = 32_000

# §6.3: 4 layers of width 1024, all else as base. The target is symbols: it has a
# vocabulary of its own. "Dropout, both attention and residual", and learning rates were
# chosen on section 22 and are not in the paper: 0.2 and 16,000 steps of warm-up for
# the WSJ alone are tensor2tensor's.
_PARSER_SYMBOLS = 100  # roughly, for labels and tags; only for `table`
_PARSER = ModelConfig(num_layers=4, d_model=1024, share_embeddings=False)
_PARSER_TRAINING = TrainingConfig(max_length=512)
PARSER_DECODING = DecodingConfig(
    beam_size=21, length_penalty_alpha=0.3, extra_decode_length=300
)

_TINY = Preset(
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
)
_BASE = Preset(
    name="base",
    description="The paper's base model: millions of pairs, 8 GPUs.",
    model=ModelConfig(),
    training=TrainingConfig(),
    paper=PaperFigures(4.92, 25.8, 65, test_bleu=27.3, training_flops=3.3e18),
)

_PRESETS = (
    _TINY,
    _fast(_TINY),
    Preset(
        name="small",
        description="Hundreds of thousands of pairs, on one GPU.",
        model=ModelConfig(
            vocab_size=16_000, num_layers=4, d_model=256, d_ff=1024, num_heads=4
        ),
        training=TrainingConfig(train_steps=50_000, tokens_per_batch=8192),
    ),
    _BASE,
    _fast(_BASE),
    Preset(
        name="big",
        description="The paper's big model, for English to German.",
        model=_BIG,
        training=_BIG_TRAINING,
        paper=PaperFigures(4.33, 26.4, 213, test_bleu=28.4, training_flops=2.3e19),
    ),
    Preset(
        name="base_enfr",
        description="The paper's base model for English to French (Table 2).",
        model=ModelConfig(vocab_size=_WORD_PIECES),
        training=TrainingConfig(),
        paper=PaperFigures(test_bleu=38.1, training_flops=3.3e18),
    ),
    Preset(
        name="big_enfr",
        description="The paper's big model for English to French: less dropout (§6.1).",
        model=dataclasses.replace(_BIG, vocab_size=_WORD_PIECES, dropout_rate=0.1),
        training=_BIG_TRAINING,
        paper=PaperFigures(test_bleu=41.8, training_flops=2.3e19),
    ),
    Preset(
        name="base_restricted",
        description="§4: base whose self-attention sees 64 positions, for long texts.",
        model=ModelConfig(attention_window=64),
        training=TrainingConfig(),
    ),
    Preset(
        name="parsing_wsj",
        description="§6.3: the paper's parser, from the 40,000 trees of the WSJ alone.",
        model=dataclasses.replace(
            _PARSER, vocab_size=16_000, dropout_rate=0.2, attention_dropout_rate=0.2
        ),
        training=dataclasses.replace(_PARSER_TRAINING, warmup_steps=16_000),
        decoding=PARSER_DECODING,
        paper=PaperFigures(f1=91.3),
    ),
    Preset(
        name="parsing_semi",
        description="§6.3: the paper's parser, with 17 million trees of other parsers.",
        model=dataclasses.replace(_PARSER, vocab_size=32_000),
        training=_PARSER_TRAINING,
        decoding=PARSER_DECODING,
        paper=PaperFigures(f1=92.7),
    ),
    Preset(
        name="parsing_tiny",
        description="A parser from thousands of trees, on a CPU.",
        model=ModelConfig(
            vocab_size=4000,
            num_layers=3,
            d_model=256,
            d_ff=768,
            num_heads=4,
            dropout_rate=0.2,
            share_embeddings=False,
        ),
        # The rate peaks at 0.002 after 1,000 steps.
        training=TrainingConfig(
            train_steps=6000,
            tokens_per_batch=2048,
            max_length=256,
            warmup_steps=1000,
            guided_alignment=0.5,
            average_last=10,
        ),
        decoding=dataclasses.replace(PARSER_DECODING, beam_size=4),
    ),
    _row("A1", "1 head of 512", (5.29, 24.9, 65), {"num_heads": 1}),
    _row("A2", "4 heads of 128", (5.00, 25.5, 65), {"num_heads": 4}),
    _row("A3", "16 heads of 32", (4.91, 25.8, 65), {"num_heads": 16}),
    _row("A4", "32 heads of 16", (5.01, 25.4, 65), {"num_heads": 32}),
    _row("B1", "keys of 16", (5.16, 25.1, 58), {"key_dim": 16}),
    _row("B2", "keys of 32", (5.01, 25.4, 60), {"key_dim": 32}),
    _row("C1", "2 layers", (6.11, 23.7, 36), {"num_layers": 2}),
    _row("C2", "4 layers", (5.19, 25.3, 50), {"num_layers": 4}),
    _row("C3", "8 layers", (4.88, 25.5, 80), {"num_layers": 8}),
    _row("C4", "width 256, heads of 32", (5.75, 24.5, 28), {"d_model": 256}),
    _row("C5", "width 1024, heads of 128", (4.66, 26.0, 168), {"d_model": 1024}),
    _row("C6", "feed-forward width 1024", (5.12, 25.4, 53), {"d_ff": 1024}),
    _row("C7", "feed-forward width 4096", (4.75, 26.2, 90), {"d_ff": 4096}),
    _row("D1", "no dropout", (5.77, 24.6, 65), {"dropout_rate": 0.0}),
    _row("D2", "dropout 0.2", (4.95, 25.5, 65), {"dropout_rate": 0.2}),
    _row(
        "D3", "no label smoothing", (4.67, 25.3, 65), training={"label_smoothing": 0.0}
    ),
    _row(
        "D4", "label smoothing 0.2", (5.47, 25.7, 65), training={"label_smoothing": 0.2}
    ),
    _row("E", "learned positions", (4.92, 25.7, 65), {"position_encoding": "learned"}),
)


def names() -> list[str]:
    """Return the names of all presets.

    Examples:
        >>> kt.presets.names()[:4]
        ['tiny', 'tiny_fast', 'small', 'base']
    """
    return [preset.name for preset in _PRESETS]


def folder_of_run(path: str | os.PathLike) -> pathlib.Path:
    """Return the model_dir that a path names, or that has the checkpoint it names.

    Args:
        path: A model_dir, or a checkpoint in one.

    Raises:
        FileNotFoundError: If there is no `config.json`.

    Examples:
        >>> kt.presets.folder_of_run("runs/my").name
        'my'
    """
    folder = pathlib.Path(path)
    # A checkpoint is model_dir/checkpoints/step-NNNNNNNN.
    for candidate in (folder, folder.parent.parent):
        if (candidate / "config.json").is_file():
            return candidate
    raise FileNotFoundError(
        f"No model in {folder}: it has no config.json. Correct --init_checkpoint."
    )


def of_run(path: str | os.PathLike) -> Preset:
    """Return the configuration of a run as a preset.

    Whether another run from it packs pairs is decided anew, for its devices.

    Args:
        path: A model_dir, or a checkpoint in one.

    Raises:
        FileNotFoundError: If there is no `config.json`.
        ValueError: If it cannot be read.

    Examples:
        >>> kt.presets.of_run("runs/my").model.num_layers
        2
    """
    folder = folder_of_run(path)
    try:
        text = (folder / "config.json").read_text(encoding="utf-8")
        values = json.loads(text)
        parts = {
            "model": from_dict(ModelConfig, values["model"]),
            "training": from_dict(TrainingConfig, {**values["training"], "pack": None}),
            "decoding": from_dict(DecodingConfig, values["decoding"]),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}/config.json is damaged: {error}.") from error
    return Preset(name=values["preset"], description=f"As in {folder}.", **parts)


def get(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: If there is no such preset; the message suggests the nearest name.

    Examples:
        >>> kt.presets.get("base").model.d_model
        512
    """
    check_choice("preset", name, names())
    return next(preset for preset in _PRESETS if preset.name == name)


def table() -> str:
    """Return all presets and their values as a table in Markdown.

    Parameters are counted for the preset's vocabulary size and, for a parser, 100
    symbols; a trained model takes both numbers from its corpus.

    Examples:
        >>> kt.presets.table().splitlines()[0][:30]
        '| preset          | N    | d_m'
    """
    rows = [
        ("preset", "N", "d_model", "d_ff", "h", "P_drop", "words", "parameters")
        + ("steps", "warm-up", "tokens a batch", "beam", "what it is for")
    ]
    rows += [_table_row(preset) for preset in _PRESETS]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows)


def _table_row(preset: Preset) -> tuple[str, ...]:
    model, training = preset.model, preset.training
    counted = model
    if not model.share_embeddings:
        counted = dataclasses.replace(model, target_vocab_size=_PARSER_SYMBOLS)
    depths = {str(model.encoder_depth): None, str(model.decoder_depth): None}
    return (
        preset.name,
        "+".join(depths),
        str(model.d_model),
        str(model.d_ff),
        str(model.num_heads),
        str(model.dropout_rate),
        f"{model.vocab_size:,}",
        f"{cost.num_parameters(counted) / 1e6:.1f} M",
        f"{training.train_steps:,}",
        f"{training.warmup_steps:,}",
        f"{training.tokens_per_batch:,}",
        str(preset.decoding.beam_size),
        preset.description,
    )
