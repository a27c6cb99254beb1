"""The model card of a written model: what it is, how it was trained, how to load it."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from keras_transformer import text_files
from keras_transformer.runs.checkpoints import Checkpoint
from keras_transformer.runs.run_config import RunConfig

_CARD = """\
---
{front_matter}
---

# {title}

The Transformer of "Attention Is All You Need" (arXiv 1706.03762), {origin}. It is
stored for `MarianMTModel` and `MarianTokenizer` of Transformers.

## Use

```python
from transformers import MarianMTModel, MarianTokenizer

folder = "."  # this folder
tokenizer = MarianTokenizer.from_pretrained(folder)
model = MarianMTModel.from_pretrained(folder)
inputs = tokenizer(["..."], return_tensors="pt", padding=True)
outputs = model.generate(**inputs)
print(tokenizer.batch_decode(outputs, skip_special_tokens=True))
```

## Model

{model}
{training}{evaluation}
## Differences in Transformers

Layer normalization adds 1e-5 to the variance, here {epsilon:g}. Beam search divides log
probabilities by length ** alpha{penalty}.
"""
# Keys of an evaluation report, and their names in the card.
_SCORES = {
    "sacrebleu": "sacreBLEU",
    "chrf": "chrF2",
    "exact_match": "exact match, %",
    "perplexity": "perplexity per token",
}


def make_card(
    run: RunConfig,
    checkpoint: Checkpoint,
    num_parameters: int,
    report: Mapping[str, Any] | None = None,
) -> str:
    """Return the text of README.md.

    Args:
        run: Languages, model and training.
        checkpoint: The weights that are written.
        num_parameters: Of the model.
        report: Content of a report of bin/evaluate.py.
    """
    languages = [code for code in (run.source_language, run.target_language) if code]
    model = run.model
    return _CARD.format(
        front_matter="\n".join(_front_matter(languages)),
        title=(
            f"Translation from {languages[0]} to {languages[1]}"
            if len(languages) == 2
            else "A translation model"
        ),
        origin=(
            "imported by keras_transformer from a published model "
            f"({run.origin['family']})"
            if run.origin
            else "trained with keras_transformer"
        ),
        model=_table(
            {
                "layers of the encoder": model.encoder_depth,
                "layers of the decoder": model.decoder_depth,
                "d_model": model.d_model,
                "d_ff of the encoder": f"{model.encoder_ffn_dim:,}",
                "d_ff of the decoder": f"{model.decoder_ffn_dim:,}",
                "attention heads": model.num_heads,
                "vocabulary": f"{model.vocab_size:,} pieces",
                "parameters": f"{num_parameters:,}",
            }
        ),
        training="" if run.origin else _training(run, checkpoint),
        evaluation=_evaluation(report) if report else "",
        epsilon=model.layer_norm_epsilon,
        penalty=(
            ""
            if run.decoding.length_penalty == "power"
            else "; the run by the paper's ((5 + length) / 6) ** alpha"
        ),
    )


def read_report(path: str | os.PathLike, checkpoint: Checkpoint) -> dict[str, Any]:
    """Read a report of bin/evaluate.py on the weights that are written.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is not a report of translations, or is of other weights or of
            an ensemble.
    """
    try:
        report = json.loads("\n".join(text_files.read_lines(path)))
        scored = report["checkpoint"]
        report["sacrebleu"], report["num_sentences"], report["signature"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a report of bin/evaluate.py on a translation model "
            f"({type(error).__name__}: {error})."
        ) from error
    # The run may have moved since: averaged/step-00000650.
    names = [
        "/".join(pathlib.PurePath(place).parts[-2:])
        for place in (scored, checkpoint.path)
    ]
    if names[0] != names[1]:
        raise ValueError(
            f"{path} has the scores of {names[0]}, but {names[1]} is written. Evaluate "
            "it, or choose with --checkpoint."
        )
    if others := report.get("ensemble"):
        raise ValueError(
            f"{path} has the scores of an ensemble with {', '.join(others)}, but one "
            "model is written. Evaluate it without --ensemble."
        )
    return report


def _front_matter(languages: Iterable[str]) -> list[str]:
    lines = ["library_name: transformers", "pipeline_tag: translation", "tags:"]
    lines += [f"- {tag}" for tag in ("translation", "marian", "keras_transformer")]
    if languages:
        # Quoted: YAML reads a bare no, Norwegian, as false.
        lines += ["language:", *(f"- {json.dumps(code)}" for code in languages)]
    return lines


def _training(run: RunConfig, checkpoint: Checkpoint) -> str:
    training, state = run.training, checkpoint.state
    steps = state.get("averaged_steps") or [checkpoint.step]
    listed = ", ".join(f"{step:,}" for step in steps)
    rate = f"Eq. 3 of the paper, times {training.learning_rate_scale:g}"
    if training.learning_rate_schedule != "paper":
        rate = f"{training.learning_rate_schedule}, {training.learning_rate:g}"
    rows = {
        "preset": run.preset,
        "weights": f"mean of steps {listed}" if len(steps) > 1 else f"step {listed}",
        "optimizer": (
            f"Adam, beta_1 {training.adam_beta_1:g}, beta_2 {training.adam_beta_2:g}, "
            f"epsilon {training.adam_epsilon:g}"
        ),
        "learning rate": f"{rate}; warm-up of {training.warmup_steps:,} steps",
        "tokens in a batch, each side": f"{training.tokens_per_batch:,}",
        "longest sentence in tokens": training.max_length,
        "dropout": f"{run.model.dropout_rate:g}",
        "label smoothing": f"{training.label_smoothing:g}",
        "precision": run.precision,
        "seed": run.seed,
    }
    if training.lora_rank:
        rows["fine-tuned with LoRA adapters of rank"] = training.lora_rank
    for name, value in state.get("metrics", {}).items():
        rows[f"{name} in validation"] = f"{value:.3f}"
    return f"\n## Training\n\n{_table(rows)}"


def _evaluation(report: Mapping[str, Any]) -> str:
    rows = {
        shown: f"{report[name]:.2f}"
        for name, shown in _SCORES.items()
        if report.get(name) is not None
    }
    rows["sentences"] = f"{report['num_sentences']:,}"
    rows["sacreBLEU signature"] = f"`{report['signature']}`"
    return f"\n## Evaluation\n\n{_table(rows)}"


def _table(rows: Mapping[str, Any]) -> str:
    lines = ["| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(lines) + "\n"
