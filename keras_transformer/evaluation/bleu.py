"""Scores of translations: BLEU in three conventions, chrF and exact match.

A BLEU score depends on the tokenization. The three conventions are:

* sacreBLEU, cased, with the tokenizer that it chooses for the language, mostly 13a:
  comparable between papers today.
* Tokenized BLEU: `multi-bleu.perl` on the tokens of the Moses tokenizer, as in papers
  of 2014 to 2017. Chinese, Japanese and Korean, which Moses cannot split, have the
  tokens of sacreBLEU.
* Compound-split BLEU: the same after hyphenated words are split at the hyphen, which
  adds easy n-grams and about half a point. Table 2 reports this: 27.3 and 28.4.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import sacrebleu
import sacremoses
from absl import logging

from keras_transformer import bleu_metric, config

_NGRAM_ORDER = sacrebleu.BLEU().max_ngram_order
_LANGUAGE_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*")
_HYPHEN_IN_WORD = re.compile(r"(\S)-(\S)")


@dataclasses.dataclass(frozen=True)
class TranslationScores:
    """Scores of one set of translations; all but counts and perplexity in [0, 100].

    Examples:
        >>> scores = kt.evaluation.score_translations(
        ...     ["Ein Hund läuft."], ["Ein Hund läuft."], bootstrap_samples=0
        ... )
        >>> round(scores.sacrebleu), scores.exact_match
        (100, 100.0)
    """

    # Cased, the language's tokenizer, exponential smoothing; see `signature`.
    sacrebleu: float
    # 95 % bootstrap interval of `sacrebleu` over the choice of test sentences; None
    # without samples.
    sacrebleu_low: float | None
    sacrebleu_high: float | None
    # Cased, no smoothing, mostly on Moses tokens; see `tokenized_signature`.
    bleu_tokenized: float
    # The same on lower-cased tokens, as usual for Multi30k.
    bleu_tokenized_lowercase: float
    # On the same tokens split at hyphens: Table 2 of the paper.
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
    target_language: str | Sequence[str] = "de",
    bootstrap_samples: int = 1000,
    seed: int = 12345,
) -> TranslationScores:
    """Score translations against one reference each.

    Args:
        hypotheses: Translations as plain text, not tokenized; may be empty strings.
        references: Reference translations in the same order.
        target_language: Code such as "de" or "pt-BR", or one for each line. It decides
            the tokenizer of sacreBLEU and which abbreviations the Moses tokenizer
            knows. A language without a list of abbreviations uses the English list, as
            in Moses, with a warning.
        bootstrap_samples: Resampled test sets for the interval of sacreBLEU; 0: no
            interval.
        seed: Seed of the resampling.

    Returns:
        The scores, without perplexity: `dataclasses.replace` adds it.

    Raises:
        TypeError: If an argument is a single string, or a line is not a string.
        ValueError: If there are no lines, or not one reference for each hypothesis, or
            `target_language` is not a language code, or packages of its tokenizer are
            not installed.

    Examples:
        >>> scores = kt.evaluation.score_translations(
        ...     ["Ein Hund läuft schnell.", "Es regnet."],
        ...     ["Ein Hund läuft schnell.", "Es schneit."],
        ...     bootstrap_samples=0,
        ... )
        >>> scores.exact_match
        50.0
    """
    _check_lines("hypotheses", hypotheses)
    _check_lines("references", references)
    _check_pairs(hypotheses, references)
    config.check_at_least("bootstrap_samples", bootstrap_samples, 0)
    languages = (
        [target_language] * len(references)
        if isinstance(target_language, str)
        else target_language
    )
    tokenizers = {code: _Tokenizers(code) for code in dict.fromkeys(languages)}
    _warn_of_missing_spaces(languages, references)

    of_lines = [tokenizers[code] for code in languages]
    statistics = _sentence_statistics(of_lines, hypotheses, references)
    low, high = _bootstrap_interval(statistics, bootstrap_samples, seed)
    hypothesis_tokens, reference_tokens = (
        [each.tokenize(line) for each, line in zip(of_lines, lines, strict=True)]
        for lines in (hypotheses, references)
    )
    return TranslationScores(
        sacrebleu=_bleu(statistics.sum(axis=0)),
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
        signature=_signature(tokenizers.values()),
        tokenized_signature=_tokenized_signature(tokenizers.values()),
    )


def check_languages(languages: Iterable[str]) -> None:
    """Raise ValueError if text of a language cannot be scored.

    For programs that score after long work.

    Args:
        languages: Codes, as `score_translations` takes them.

    Examples:
        >>> kt.evaluation.check_languages(["de", "pt-BR"])
    """
    for code in dict.fromkeys(languages):
        _primary_code(code)
        bleu_metric.metric(code)


def tokenized(lines: Sequence[str], target_language: str) -> list[str]:
    """Return the tokens of each line that tokenized BLEU counts, joined by spaces.

    Args:
        lines: Plain text.
        target_language: As in `score_translations`, one for all lines.

    Raises:
        ValueError: If `target_language` is not a language code, or packages of its
            tokenizer are not installed.

    Examples:
        >>> kt.evaluation.tokenized(["Ein Hund läuft."], "de")
        ['Ein Hund läuft .']
    """
    return [*map(_Tokenizers(target_language).tokenize, lines)]


class _Tokenizers:
    """How sacreBLEU and tokenized BLEU split the text of a language.

    Args:
        language: Its code.
    """

    # sacreBLEU's metric.
    metric: sacrebleu.BLEU
    # Returns the tokens of a line for tokenized BLEU, joined by spaces.
    tokenize: Callable[[str], str]
    # The parts of a signature that say how `tokenize` works.
    name: str
    version: str

    def __init__(self, language: str):
        _primary_code(language)
        self.metric = bleu_metric.metric(language)
        if bleu_metric.is_spaced(language):
            moses_language = _moses_language(language)
            self.name = f"moses-{moses_language}"
            self.version = f"sacremoses:{sacremoses.__version__}"
            self.tokenize = _moses_tokenizer(moses_language)
        else:
            self.name = self.metric.tokenizer_signature
            self.version = f"version:{sacrebleu.__version__}"
            self.tokenize = self.metric.tokenizer


def _signature(tokenizers: Iterable[_Tokenizers]) -> str:
    """Return sacreBLEU's signature, with all tokenizers joined by a plus."""
    metrics = [each.metric for each in tokenizers]
    names = dict.fromkeys(each.tokenizer_signature for each in metrics)
    signature = metrics[0].get_signature()
    signature.info["tok"] = "+".join(names)
    return str(signature)


def _tokenized_signature(tokenizers: Iterable[_Tokenizers]) -> str:
    names = dict.fromkeys(each.name for each in tokenizers)
    versions = dict.fromkeys(each.version for each in tokenizers)
    return "|".join(
        ["nrefs:1", "case:mixed", f"tok:{'+'.join(names)}", "smooth:none", *versions]
    )


def _warn_of_missing_spaces(
    languages: Sequence[str], references: Sequence[str]
) -> None:
    """Warn of each language whose words are not separated by spaces."""
    lines = [*zip(languages, references, strict=True)]
    for code in dict.fromkeys(languages):
        own = [line for language, line in lines if language == code]
        if warning := bleu_metric.warning_of(code, own):
            logging.warning("%s", warning)


def _sentence_statistics(
    tokenizers: Sequence[_Tokenizers],
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> np.ndarray:
    """Return the counts of BLEU for each sentence, int64 `[sentence, 2 + 2 * order]`.

    A row has both lengths in tokens, the matches for each n-gram order, and the n-grams
    of the hypothesis for each order. BLEU of any selection of sentences is computed
    from the sum of their rows.
    """
    rows = []
    for each, hypothesis, reference in zip(
        tokenizers, hypotheses, references, strict=True
    ):
        score = each.metric.corpus_score([hypothesis], [[reference]])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, dtype=np.int64)


def _bleu(statistics: np.ndarray) -> float:
    """Return BLEU of one row of summed statistics."""
    score = sacrebleu.BLEU.compute_bleu(
        sys_len=int(statistics[0]),
        ref_len=int(statistics[1]),
        correct=statistics[2 : 2 + _NGRAM_ORDER].tolist(),
        total=statistics[2 + _NGRAM_ORDER :].tolist(),
        smooth_method="exp",
    )
    return score.score


def _bootstrap_interval(
    statistics: np.ndarray, num_samples: int, seed: int
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
        scores.append(_bleu(statistics[chosen].sum(axis=0)))
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


def _primary_code(code: str) -> str:
    """Return the language of a code without its region."""
    match = _LANGUAGE_CODE.fullmatch(code)
    if match is None:
        raise ValueError(
            '`target_language` must be a language code such as "de" or "pt-BR". '
            f"Received: target_language={code!r}."
        )
    return match[1].lower()


def _moses_language(code: str) -> str:
    """Return the language of a code as Moses takes it."""
    language = _primary_code(code)
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
