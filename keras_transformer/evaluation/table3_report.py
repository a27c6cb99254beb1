"""The report of a reproduction of Table 3, compared with the paper."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from keras_transformer import atomic_files, data, text_files
from keras_transformer import hardware as machine_lib
from keras_transformer.evaluation import table3
from keras_transformer.evaluation.table3 import RowResult
from keras_transformer.presets import Preset
from keras_transformer.visualization import figures

# A difference in BLEU counts if the p value of the paired bootstrap is below this.
SIGNIFICANT_P = 0.05
_COLUMNS = (
    "row",
    "change",
    "parameters in millions (paper)",
    "perplexity (paper)",
    "Δ base (paper)",
    "as the paper?",
    "BLEU (paper)",
    "Δ base (paper)",
    "p",
    "as the paper?",
    "minutes",
)


@dataclasses.dataclass(frozen=True)
class ComparedRow:
    """A row of the paper and its reproduction, with their changes from base."""

    row: str
    # What the row changes, in words.
    change: str
    paper_perplexity: float
    paper_bleu: float
    # Millions.
    paper_parameters: int
    perplexity: float
    bleu: float
    num_parameters: int
    seconds: float
    paper_perplexity_change: float
    paper_bleu_change: float
    perplexity_change: float
    bleu_change: float
    # p value of the paired bootstrap against base; None for base itself.
    p_value: float | None

    @property
    def perplexity_verdict(self) -> str:
        """Whether perplexity changed in the same direction as in the paper."""
        return _verdict(self.paper_perplexity_change, self.perplexity_change)

    @property
    def bleu_verdict(self) -> str:
        """Whether BLEU changed in the same direction, if the change is significant."""
        verdict = _verdict(self.paper_bleu_change, self.bleu_change)
        is_close = self.p_value is not None and self.p_value >= SIGNIFICANT_P
        return "too close to tell" if is_close and verdict in ("yes", "no") else verdict


def write_report(
    path: str | os.PathLike,
    data_dir: str,
    scaled: Mapping[str, Preset],
    results: Mapping[str, RowResult],
    *,
    scale: str,
    seed: int,
    command: str,
) -> list[ComparedRow]:
    """Write the page, and a picture of the finished rows beside it.

    Args:
        path: The page, ending in `.md`; the folders of the rows are beside it.
        data_dir: The corpus the rows were trained on.
        scaled: Preset of each row.
        results: Results of the finished rows, base first.
        scale: "full" or "mini".
        seed: Seed of the runs.
        command: The command that makes this report.

    Returns:
        The compared rows.
    """
    page = pathlib.Path(path)
    metadata = data.read_metadata(data_dir)
    references = text_files.read_lines(f"{data_dir}/valid.target")
    hypotheses = {
        row: text_files.read_lines(page.parent / row / "valid.hypothesis")
        for row in results
    }
    p_values = [
        None
        if row == "base"
        else table3.difference_p_value(
            hypotheses[row], hypotheses["base"], references, metadata.target_language
        )
        for row in results
    ]
    rows = compare(
        [table3.row_preset(row) for row in results],
        list(results.values()),
        p_values,
    )
    model, training = scaled["base"].model, scaled["base"].training
    facts = {
        "scale": scale,
        "command": command,
        "machine": machine_lib.in_words(machine_lib.describe()),
        "data": (
            f"{metadata.splits['train'].pairs:,} pairs, {metadata.source_language} to "
            f"{metadata.target_language}, {metadata.vocab_size:,} words "
            f"({metadata.tokenizer_kind}); {len(references):,} validation pairs."
        ),
        "recipe": (
            f"Base here: {model.num_layers} layers, width {model.d_model}, "
            f"{model.d_ff} inside, {model.num_heads} heads; "
            f"{training.train_steps:,} steps of {training.tokens_per_batch:,} tokens, "
            f"warm-up {training.warmup_steps:,}, seed {seed}."
        ),
        "missing": [row for row in scaled if row not in results],
        "picture": page.with_suffix(".png").name,
    }
    figures.save_png(figure(rows), page.with_suffix(".png"))
    atomic_files.atomic_write(page, markdown(rows, facts))
    return rows


def compare(
    presets: Sequence[Preset],
    results: Sequence[RowResult],
    p_values: Sequence[float | None],
) -> list[ComparedRow]:
    """Compare rows with the paper.

    Args:
        presets: Published presets of the rows, base first.
        results: Results of the same rows.
        p_values: p value of each row's difference in BLEU to base; None for base.
    """
    base_paper, base = presets[0].paper, results[0]
    return [
        ComparedRow(
            row=result.row,
            change=preset.description.removeprefix(f"Table 3, row {result.row}: ")[:-1],
            paper_perplexity=preset.paper.perplexity,
            paper_bleu=preset.paper.bleu,
            paper_parameters=preset.paper.parameters,
            perplexity=result.perplexity,
            bleu=result.bleu,
            num_parameters=result.num_parameters,
            seconds=result.seconds,
            # Rounded to the digits of the paper.
            paper_perplexity_change=round(
                preset.paper.perplexity - base_paper.perplexity, 2
            ),
            paper_bleu_change=round(preset.paper.bleu - base_paper.bleu, 1),
            perplexity_change=result.perplexity - base.perplexity,
            bleu_change=result.bleu - base.bleu,
            p_value=p_value,
        )
        for preset, result, p_value in zip(presets, results, p_values, strict=True)
    ]


def markdown(rows: Sequence[ComparedRow], facts: dict[str, Any]) -> str:
    """Return the report as a Markdown page.

    Args:
        rows: From `compare`.
        facts: Facts on the run: "scale", "command", "machine", "data", "recipe",
            "missing" (rows that are not finished) and "picture".
    """
    lines = [
        f"# Table 3, reproduced ({facts['scale']})",
        "",
        f"`{facts['command']}`, {facts['machine']}.",
        "",
        f"{facts['data']} {facts['recipe']}",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---" * len(_COLUMNS) + "|",
        *map(_line, rows),
        "",
        summary(rows),
        "",
    ]
    if facts["missing"]:
        lines += [f"Not run yet: {', '.join(facts['missing'])}.", ""]
    lines += [
        "Perplexity is per subword and BLEU tokenized, both on the validation split "
        "(the paper: newstest2013), by beam search with the last weights, no "
        "averaging. Δ base: the change from base, ours and, in brackets, the paper's. "
        "p: of a paired bootstrap of BLEU against base; from "
        f"{SIGNIFICANT_P} on the two are too close to tell. It measures the choice of "
        "test sentences; each row is one training, so that the luck of a seed is in "
        "every number.",
        "",
        f"![changes from base]({facts['picture']})",
        "",
    ]
    return "\n".join(lines)


def summary(rows: Sequence[ComparedRow]) -> str:
    """Say for which rows the change has the direction of the paper's change."""
    parts = []
    for name in ("perplexity", "bleu"):
        by_verdict: dict[str, list[str]] = {}
        for row in rows[1:]:
            by_verdict.setdefault(getattr(row, f"{name}_verdict"), []).append(row.row)
        listed = "; ".join(
            f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items()
        )
        label = "BLEU" if name == "bleu" else "perplexity"
        parts.append(f"Direction of the paper's change in {label}: {listed or 'none'}.")
    return " ".join(parts)


def figure(rows: Sequence[ComparedRow]) -> Figure:
    """Draw the changes from base, the paper's and ours, for perplexity and BLEU."""
    shown = rows[1:]
    chart = Figure(figsize=(9, 1.6 + 0.34 * len(shown)), layout="constrained")
    axes = chart.subplots(1, 2, sharey=True)
    heights = range(len(shown))
    for axis, name, label in (
        (axes[0], "perplexity", "change of perplexity (less is better)"),
        (axes[1], "bleu", "change of BLEU (more is better)"),
    ):
        paper = [getattr(row, f"paper_{name}_change") for row in shown]
        ours = [getattr(row, f"{name}_change") for row in shown]
        axis.axvline(0, color="0.6", linewidth=1)
        axis.hlines(heights, paper, ours, color="0.8")
        axis.plot(paper, heights, "o", color="black", fillstyle="none", label="paper")
        axis.plot(ours, heights, "o", color="tab:blue", label="ours")
        axis.set_xlabel(label)
        axis.grid(True, axis="x", alpha=0.3)
    axes[0].set_yticks(heights, [f"{row.row}: {row.change}" for row in shown])
    axes[0].invert_yaxis()
    chart.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2
    )
    return chart


def _line(row: ComparedRow) -> str:
    is_base = row.p_value is None
    cells = [
        row.row,
        "" if is_base else row.change,
        f"{row.num_parameters / 1e6:.2f} ({row.paper_parameters})",
        f"{row.perplexity:.3f} ({row.paper_perplexity:.2f})",
        "" if is_base else _changes(row.perplexity_change, row.paper_perplexity_change),
        "" if is_base else row.perplexity_verdict,
        f"{row.bleu:.2f} ({row.paper_bleu:.1f})",
        "" if is_base else _changes(row.bleu_change, row.paper_bleu_change, digits=1),
        "" if is_base else f"{row.p_value:.3f}",
        "" if is_base else row.bleu_verdict,
        f"{row.seconds / 60:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _changes(ours: float, paper: float, digits: int = 2) -> str:
    return f"{ours:+.2f} ({paper:+.{digits}f})"


def _verdict(paper_change: float, change: float) -> str:
    if paper_change == 0:
        return "the paper has no change"
    if change == 0:
        return "no change here"
    return "yes" if paper_change * change > 0 else "no"
