"""How good translations are: BLEU in three conventions, chrF and exact match.

A BLEU score means little without the tokenization behind it. The three here:

* sacreBLEU, cased, with the 13a tokenizer: the number to compare between papers today.
* Tokenized BLEU: Moses tokenizer, then `multi-bleu.perl` on its tokens. What
  papers of 2014 to 2017 printed.
* Compound-split BLEU: the same after hyphenated words are cut at the hyphen, which adds
  easy n-grams and about half a point. The 27.3 and 28.4 of Table 2 are of this kind.
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

    # Cased, 13a tokenizer, exponential smoothing: `signature` says it in full.
    sacrebleu: float
    # 95 % bootstrap interval of `sacrebleu` over the choice of test sentences; None
    # where no samples were asked for.
    sacrebleu_low: float | None
    sacrebleu_high: float | None
    # On Moses tokens, cased, no smoothing: `tokenized_signature` says it in full.
    bleu_tokenized: float
    # The same on lower-cased tokens, as Multi30k's published numbers are.
    bleu_tokenized_lowercase: float
    # On Moses tokens cut at hyphens: Table 2 of the paper.
    bleu_compound_split: float
    # chrF2: F-score of character n-grams up to 6, recall counted twice.
    chrf: float
    # Percentage of translations equal to their reference but for outer whitespace.
    exact_match: float
    num_sentences: int
    signature: str
    tokenized_signature: str
    # Of the reference under the model, per token; None where no model took part.
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping that JSON can hold."""
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
        references: What each should have been, in the same order.
        target_language: Code such as "de" or "pt-BR": which abbreviations the Moses
            tokenizer leaves whole. A language without a list of them gets the English
            one, as in Moses, and a warning.
        bootstrap_samples: Test sets drawn with replacement for the interval of
            sacreBLEU; 0 leaves it out.
        seed: Of these draws.

    Returns:
        The scores, without perplexity: `dataclasses.replace` adds it.

    Raises:
        TypeError: If an argument is a single string, or a line no string.
        ValueError: If there are no lines, or not one reference for each hypothesis, or
            `target_language` is no language code.
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
    """Return each line as its Moses tokens, joined by spaces: what papers scored.

    Args:
        lines: Plain text.
        target_language: As of `score_translations`.

    Raises:
        ValueError: If `target_language` is no language code.
    """
    return [*map(_moses_tokenizer(_moses_language(target_language)), lines)]


def _sentence_statistics(
    metric: sacrebleu.BLEU, hypotheses: Sequence[str], references: Sequence[str]
) -> np.ndarray:
    """Return what BLEU counts in each sentence, int64 `[sentence, 2 + 2 * order]`.

    A row holds both lengths in tokens, then per n-gram order the matches, then per
    order the n-grams of the hypothesis. BLEU of any selection of sentences follows from
    the sum of their rows.
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

    sacreBLEU's own resampling needs memory for all samples at once (0.8 GB for 20,000
    sentences), takes its seed from the environment and gives half the width only.
    """
    if num_samples == 0:
        return None, None
    generator = np.random.default_rng(seed)
    num_sentences = len(statistics)
    scores = []
    for _ in range(num_samples):
        drawn = generator.integers(num_sentences, size=num_sentences)
        scores.append(_bleu(metric, statistics[drawn].sum(axis=0)))
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)


def _moses_tokenizer(language: str):
    """Return a function from a line to its Moses tokens, joined by spaces.

    The options are those of `tokenizer.perl -l LANGUAGE`: special characters escaped,
    hyphens left alone (no `-a`), punctuation not normalized before. They give the
    published 19.52 (tokenized) and 20.00 (compound-split) of the newstest2014 output in
    the tests, with equal token counts; `-a` would give 20.00 and 20.85, normalized
    punctuation 20.44 and 20.90.
    """
    tokenizer = sacremoses.MosesTokenizer(language)
    return lambda line: tokenizer.tokenize(line, return_str=True)


def _split_compounds(tokens: str) -> str:
    """Cut words at their hyphens, marked as in tensor2tensor's get_ende_bleu.sh.

    As there, of two hyphens with one character between only the first is cut.
    """
    return _HYPHEN_IN_WORD.sub(r"\1 ##AT##-##AT## \2", tokens)


def _token_bleu(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> float:
    """Return BLEU on tokens that are given, without smoothing, as multi-bleu.perl."""
    # `force`: silences the warning that the text looks tokenized, as it should.
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
