"""The rows of Table 3: their names, their flags of bin/train.py and their results."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras_transformer import presets
from keras_transformer.config import check_choice
from keras_transformer.model import cost

# Names of the rows in the paper; each is base with one change.
ROWS = (
    "base",
    *(
        name.removeprefix("table3_").upper()
        for name in presets.names()
        if name.startswith("table3_")
    ),
    "big",
)
SCALES = ("full", "mini")
# Divisors of `mini`. The number of heads stays the same. The warm-up shrinks less than
# the steps, because a rate that rises too fast diverges.
_MINI_WIDTH, _MINI_DEPTH = 4, 2
_MINI_STEPS, _MINI_WARMUP, _MINI_BATCH = 50, 10, 10
# Tokens of a sentence in estimates of cost.
_LENGTH = 30


@dataclasses.dataclass(frozen=True)
class RowResult:
    """Results of a row on the validation split: `result.json`."""

    row: str
    # The row's configuration, as in its `config.json`.
    config: dict[str, Any]
    # Per subword.
    perplexity: float
    # Tokenized BLEU of the last weights by beam search, as in Table 3.
    bleu: float
    num_parameters: int
    # Training, as bin/train.py counts it over all its starts, and evaluation.
    seconds: float


def choose_rows(text: str) -> list[str]:
    """Return the rows named by a list such as "A1,B2" or by "all", base first.

    Raises:
        ValueError: If a row is not in the table; the message suggests the nearest.
    """
    by_lower = {row.lower(): row for row in ROWS}
    wanted = {"base"}  # the others are compared with it
    for name in text.lower().split(","):
        check_choice("row", name.strip(), [*by_lower, "all"])
        wanted.update(ROWS if name.strip() == "all" else [by_lower[name.strip()]])
    return [row for row in ROWS if row in wanted]


def row_preset(row: str, scale: str = "full") -> presets.Preset:
    """Return the preset of a row, shrunk if `scale` is "mini"."""
    check_choice("scale", scale, SCALES)
    name = row if row in presets.names() else f"table3_{row.lower()}"
    preset = presets.get(name)
    return shrink(preset) if scale == "mini" else preset


def shrink(preset: presets.Preset) -> presets.Preset:
    """Make a preset small enough for a CPU; its change from base stays.

    Widths are divided by 4, layers by 2, steps by 50, batches and warm-up by 10; heads,
    rates and the rest stay.
    """
    model = preset.model
    widths = {
        name: value // _MINI_WIDTH
        for name in ("d_model", "d_ff", "key_dim", "value_dim")
        if (value := getattr(model, name)) is not None
    }
    training = preset.training
    return dataclasses.replace(
        preset,
        model=dataclasses.replace(
            model, num_layers=model.num_layers // _MINI_DEPTH, **widths
        ),
        training=dataclasses.replace(
            training,
            train_steps=training.train_steps // _MINI_STEPS,
            warmup_steps=training.warmup_steps // _MINI_WARMUP,
            tokens_per_batch=training.tokens_per_batch // _MINI_BATCH,
        ),
    )


def train_flags(preset: presets.Preset) -> dict[str, Any]:
    """Return the flags of bin/train.py that train a preset.

    Args:
        preset: From `row_preset`; other values of model and training may be replaced.

    Returns:
        Values by flag: the published preset, and each field that differs from it.
    """
    published = presets.get(preset.name)
    return {"preset": preset.name} | {
        name: value
        for part in ("model", "training")
        for name, value in vars(getattr(preset, part)).items()
        if value != getattr(getattr(published, part), name)
    }


def seconds_left(
    results: Mapping[str, RowResult], chosen: Mapping[str, presets.Preset]
) -> float | None:
    """Estimate how long the remaining rows take, from their FLOPs.

    Args:
        results: Results of the finished rows.
        chosen: Presets of all rows.

    Returns:
        The seconds; None if no row is finished.
    """
    if not results:
        return None

    def flops(rows):
        return sum(
            cost.training_flops(chosen[row].model, _LENGTH, _LENGTH)
            * chosen[row].training.tokens_per_batch
            * chosen[row].training.train_steps
            for row in rows
        )

    seconds = sum(result.seconds for result in results.values())
    return seconds * flops(chosen.keys() - results.keys()) / flops(results)


def read_result(row_dir: str | os.PathLike) -> RowResult | None:
    """Read the result of a row; None if it is not finished, ValueError if damaged."""
    path = pathlib.Path(row_dir) / "result.json"
    if not path.exists():
        return None
    try:
        return RowResult(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}). Delete it, so that the row is evaluated "
            "again from its last checkpoint."
        ) from error


def difference_p_value(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    target_language: str,
) -> float:
    """Test whether two sets of translations differ in tokenized BLEU.

    Args:
        hypotheses: Translations of one system.
        baseline: Translations of the other system, of the same sources.
        references: Reference translations.
        target_language: As in `evaluation.score_translations`.

    Returns:
        sacreBLEU's p value of a paired bootstrap with 1,000 samples: the probability of
        a difference this large between two equally good systems. It does not include
        the variation between seeds of the training.
    """
    import sacrebleu
    from sacrebleu import significance

    from keras_transformer import evaluation

    texts = [
        evaluation.tokenized(lines, target_language)
        for lines in (baseline, hypotheses, references)
    ]
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    _, results = significance.PairedTest(
        [("baseline", texts[0]), ("row", texts[1])],
        {"BLEU": metric},
        [texts[2]],
        test_type="bs",
        n_samples=1000,
    )()
    return float(results["BLEU"][1].p_value)
