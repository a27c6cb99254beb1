"""Scores as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from keras_transformer.evaluation import bleu


def format_scores(scores: bleu.TranslationScores) -> str:
    """Return the scores as lines of text, with their signatures.

    Examples:
        >>> scores = kt.evaluation.score_translations(
        ...     ["Ein Hund läuft."], ["Ein Hund läuft."], bootstrap_samples=0
        ... )
        >>> print(kt.evaluation.format_scores(scores).splitlines()[0])
        sacreBLEU                    100.00
    """
    sacrebleu_value = f"{scores.sacrebleu:.2f}"
    if scores.sacrebleu_low is not None:
        interval = f"{scores.sacrebleu_low:.2f} to {scores.sacrebleu_high:.2f}"
        sacrebleu_value += f"  (95 % interval {interval})"
    rows = [
        ("sacreBLEU", sacrebleu_value),
        ("BLEU, tokenized", f"{scores.bleu_tokenized:.2f}"),
        ("BLEU, tokenized, lower case", f"{scores.bleu_tokenized_lowercase:.2f}"),
        ("BLEU, compounds split", f"{scores.bleu_compound_split:.2f}"),
        ("chrF2", f"{scores.chrf:.2f}"),
        ("exact match", f"{scores.exact_match:.2f} %"),
    ]
    if scores.perplexity is not None:
        rows.append(("perplexity per token", f"{scores.perplexity:.3f}"))
    rows += [
        ("sentences", f"{scores.num_sentences:,}"),
        ("sacreBLEU signature", scores.signature),
        ("tokenized signature", scores.tokenized_signature),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def format_parts(title: str, scores: Mapping[str, bleu.TranslationScores]) -> str:
    """Return the main scores of several test sets as a table.

    Args:
        title: Of the first column.
        scores: By what the first column says.

    Examples:
        >>> scores = kt.evaluation.score_translations(
        ...     ["Ein Hund läuft."], ["Ein Hund läuft."], bootstrap_samples=0
        ... )
        >>> print(kt.evaluation.format_parts("corpus", {"news": scores}))
        corpus  sentences  sacreBLEU   chrF2  exact match
        news            1     100.00  100.00     100.00 %
    """
    table = [(title, "sentences", "sacreBLEU", "chrF2", "exact match")] + [
        (
            name,
            f"{each.num_sentences:,}",
            f"{each.sacrebleu:.2f}",
            f"{each.chrf:.2f}",
            f"{each.exact_match:.2f} %",
        )
        for name, each in scores.items()
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in table
    )
