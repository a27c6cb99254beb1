"""Scores of translations: BLEU in three conventions, chrF and exact match.

A BLEU score depends on the tokenization. The three conventions are:

* sacreBLEU, cased, with the 13a tokenizer: comparable between papers today.
* Tokenized BLEU: `multi-bleu.perl` on the tokens of the Moses tokenizer, as in papers
  of 2014 to 2017.
* Compound-split BLEU: the same after hyphenated words are split at the hyphen, which
  adds easy n-grams and about half a point. Table 2 reports this: 27.3 and 28.4.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import sacrebleu
import sacremoses
from absl import logging

from keras_transformer import config

_NGRAM_ORDER = sacrebleu.BLEU().max_ngram_order
_LANGUAGE_CODE = re.compile(r"([a-z]{2,3})(?:[-_][A-Za-z0-9]+)*")
_HYPHEN_IN_WORD = re.compile(r"(\S)-(\S)")


@dataclasses.dataclass(frozen=True)
class TranslationScores:
    """Scores of one set of translations; all but counts and perplexity in [0, 100]."""

    # Cased, 13a tokenizer, exponential smoothing; see `signature`.
    sacrebleu: float
    # 95 % bootstrap interval of `sacrebleu` over the choice of test sentences; None
    # without samples.
    sacrebleu_low: float | None
    sacrebleu_high: float | None
    # On Moses tokens, cased, no smoothing; see `tokenized_signature`.
    bleu_tokenized: float
    # The same on lower-cased tokens, as usual for Multi30k.
    bleu_tokenized_lowercase: float
    # On Moses tokens split at hyphens: Table 2 of the paper.
    bleu_compound_split: float
    # chrF2: F-score of character n-grams up to 6, recall counted twice.
    chrf: float
    # Percentage of translations equal to their reference, ignoring outer whitespace.
    exact_match: float
    num_sentences: int
    signature: str
    tokenized_signature: str
    # Of the references under the model, per token; None without a model.
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping for JSON."""
        return dataclasses.asdict(self)


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str = "de",
    bootstrap_samples: int = 1000,
    seed: int = 12345,
) -> TranslationScores:
    """Score translations against one reference each.

    Args:
        hypotheses: Translations as plain text, not tokenized; may be empty strings.
        references: Reference translations in the same order.
        target_language: Code such as "de" or "pt-BR". It decides which abbreviations
            the Moses tokenizer knows. A language without a list of abbreviations uses
            the English list, as in Moses, with a warning.
        bootstrap_samples: Resampled test sets for the interval of sacreBLEU; 0: no
            interval.
        seed: Seed of the resampling.

    Returns:
        The scores, without perplexity: `dataclasses.replace` adds it.

    Raises:
        TypeError: If an argument is a single string, or a line is not a string.
        ValueError: If there are no lines, or not one reference for each hypothesis, or
            `target_language` is not a language code.
    """
    _check_lines("hypotheses", hypotheses)
    _check_lines("references", references)
    _check_pairs(hypotheses, references)
    config.check_at_least("bootstrap_samples", bootstrap_samples, 0)
    moses_language = _moses_language(target_language)

    metric = sacrebleu.BLEU(tokenize="13a", smooth_method="exp")
    statistics = _sentence_statistics(metric, hypotheses, references)
    low, high = _bootstrap_interval(metric, statistics, bootstrap_samples, seed)
    tokenize = _moses_tokenizer(moses_language)
    hypothesis_tokens = [tokenize(line) for line in hypotheses]
    reference_tokens = [tokenize(line) for line in references]
    return TranslationScores(
        sacrebleu=_bleu(metric, statistics.sum(axis=0)),
        sacrebleu_low=low,
        sacrebleu_high=high,
        bleu_tokenized=_token_bleu(hypothesis_tokens, reference_tokens),
        bleu_tokenized_lowercase=_token_bleu(
            hypothesis_tokens, reference_tokens, lowercase=True
        ),
        bleu_compound_split=_token_bleu(
            [_split_compounds(line) for line in hypothesis_tokens],
            [_split_compounds(line) for line in reference_tokens],
        ),
        chrf=sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        exact_match=_exact_match(hypotheses, references),
        num_sentences=len(hypotheses),
        signature=str(metric.get_signature()),
        tokenized_signature=(
            f"nrefs:1|case:mixed|tok:moses-{moses_language}|smooth:none|"
            f"sacremoses:{sacremoses.__version__}"
        ),
    )


def moses_tokenized(lines: Sequence[str], target_language: str) -> list[str]:
    """Return the Moses tokens of each line, joined by spaces.

    Args:
        lines: Plain text.
        target_language: As in `score_translations`.

    Raises:
        ValueError: If `target_language` is not a language code.
    """
    return [*map(_moses_tokenizer(_moses_language(target_language)), lines)]


def _sentence_statistics(
    metric: sacrebleu.BLEU, hypotheses: Sequence[str], references: Sequence[str]
) -> np.ndarray:
    """Return the counts of BLEU for each sentence, int64 `[sentence, 2 + 2 * order]`.

    A row has both lengths in tokens, the matches for each n-gram order, and the n-grams
    of the hypothesis for each order. BLEU of any selection of sentences is computed
    from the sum of their rows.
    """
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.corpus_score([hypothesis], [[reference]])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, dtype=np.int64)


def _bleu(metric: sacrebleu.BLEU, statistics: np.ndarray) -> float:
    """Return BLEU of one row of summed statistics."""
    score = metric.compute_bleu(
        sys_len=int(statistics[0]),
        ref_len=int(statistics[1]),
        correct=statistics[2 : 2 + _NGRAM_ORDER].tolist(),
        total=statistics[2 + _NGRAM_ORDER :].tolist(),
        smooth_method=metric.smooth_method,
    )
    return score.score


def _bootstrap_interval(
    metric: sacrebleu.BLEU, statistics: np.ndarray, num_samples: int, seed: int
) -> tuple[float | None, float | None]:
    """Return the 2.5 and 97.5 percentiles of BLEU over resampled test sets.

    sacreBLEU's resampling needs memory for all samples at once (0.8 GB for 20,000
    sentences), reads its seed from the environment and returns only half the width.
    """
    if num_samples == 0:
        return None, None
    generator = np.random.default_rng(seed)
    num_sentences = len(statistics)
    scores = []
    for _ in range(num_samples):
        chosen = generator.integers(num_sentences, size=num_sentences)
        scores.append(_bleu(metric, statistics[chosen].sum(axis=0)))
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)


def _moses_tokenizer(language: str):
    """Return a function from a line to its Moses tokens, joined by spaces.

    The options are those of `tokenizer.perl -l LANGUAGE`: special characters are
    escaped, hyphens are kept (no `-a`), punctuation is not normalized. They reproduce
    the published 19.52 (tokenized) and 20.00 (compound-split) of the newstest2014
    output in the tests, with equal token counts. With `-a` they would be 20.00 and
    20.85, with normalized punctuation 20.44 and 20.90.
    """
    tokenizer = sacremoses.MosesTokenizer(language)
    return lambda line: tokenizer.tokenize(line, return_str=True)


def _split_compounds(tokens: str) -> str:
    """Split words at their hyphens, marked as in tensor2tensor's get_ende_bleu.sh.

    As there, only the first of two hyphens with one character between is split.
    """
    return _HYPHEN_IN_WORD.sub(r"\1 ##AT##-##AT## \2", tokens)


def _token_bleu(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> float:
    """Return BLEU on given tokens, without smoothing, as multi-bleu.perl."""
    # `force` silences the warning that the text looks tokenized.
    metric = sacrebleu.BLEU(
        tokenize="none", smooth_method="none", lowercase=lowercase, force=True
    )
    return metric.corpus_score(hypotheses, [references]).score


def _exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    pairs = zip(hypotheses, references, strict=True)
    matches = sum(left.strip() == right.strip() for left, right in pairs)
    return 100.0 * matches / len(hypotheses)


def _moses_language(code: str) -> str:
    """Return the language of a code without its region, as Moses takes it."""
    match = _LANGUAGE_CODE.fullmatch(code)
    if match is None:
        raise ValueError(
            '`target_language` must be a language code such as "de" or "pt-BR". '
            f"Received: target_language={code!r}."
        )
    language = match[1]
    if language not in sacremoses.corpus.NonbreakingPrefixes().available_langs.values():
        logging.warning(
            "The Moses tokenizer knows no abbreviations of language %r; tokenized BLEU "
            "uses those of English.",
            language,
        )
    return language


def _check_lines(name: str, lines: Sequence[str]) -> None:
    if isinstance(lines, (str, bytes)):
        raise TypeError(
            f"`{name}` must be a sequence of lines, not one string. "
            f"Received: {name}={lines[:40]!r}."
        )
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise TypeError(
                f"`{name}` must hold strings. Received: {line!r} as line {number}."
            )


def _check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(
            "`hypotheses` and `references` must have equally many lines. Received: "
            f"{len(hypotheses)} hypotheses, {len(references)} references."
        )
    if not hypotheses:
        raise ValueError("There is nothing to score: `hypotheses` has no lines.")
