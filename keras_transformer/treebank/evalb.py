"""Bracket scores by the rules of EVALB (Sekine and Collins), in its layout and as JSON.

A constituent of the test tree is correct if the gold tree has one over the same words
with the same label. The parameters define which words and labels count. Written from
EVALB's documentation and its published output, which the tests reproduce.

Differs from EVALB: a bracket without a label never counts (EVALB needs gold trees under
TOP), so trees can be scored without cleaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.treebank import trees
from keras_transformer.treebank.evalb_parameters import COLLINS, EvalbParameters

# Status of a sentence: scored, different words than the gold tree, no parse.
VALID, ERROR, SKIP = 0, 1, 2

# Quotation marks, whose tags parsers confuse; see `EvalbParameters.quote_labels`.
_QUOTES = frozenset({"'", "`", "''", "``", '"'})

_TABLE_HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
"""
_TABLE_RULE = "=" * 76 + "\n"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The scored constituents and words of a gold tree and a test tree."""

    # VALID, ERROR or SKIP; for the last two, all other fields are empty.
    status: int
    gold: list[trees.Constituent] = dataclasses.field(default_factory=list)
    test: list[trees.Constituent] = dataclasses.field(default_factory=list)
    # Pairs (gold, test) of equal constituents; each constituent is in one pair at most.
    matched: list[tuple[trees.Constituent, trees.Constituent]] = dataclasses.field(
        default_factory=list
    )
    # Test constituents that cross a gold one: they overlap and neither contains the
    # other.
    num_crossing: int = 0
    num_words: int = 0
    num_correct_tags: int = 0


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """One line of EVALB's table."""

    # From 1.
    number: int
    # Words of the gold tree, including punctuation.
    length: int
    # VALID, ERROR or SKIP; for the last two, all fields below are 0.
    status: int
    num_matched: int
    num_gold: int
    num_test: int
    num_crossing: int
    # Scored words.
    num_words: int
    num_correct_tags: int

    @property
    def recall(self) -> float:
        """Percentage of gold constituents that the test tree has."""
        return percent(self.num_matched, self.num_gold)

    @property
    def precision(self) -> float:
        """Percentage of test constituents that are correct."""
        return percent(self.num_matched, self.num_test)

    @property
    def tag_accuracy(self) -> float:
        """Percentage of tags that are correct."""
        return percent(self.num_correct_tags, self.num_words)

    @property
    def is_complete(self) -> bool:
        """Whether all constituents match."""
        return (
            self.status == VALID and self.num_matched == self.num_gold == self.num_test
        )


@dataclasses.dataclass(frozen=True)
class Summary:
    """Scores of a set of sentences; percentages cover valid sentences only."""

    num_sentences: int
    num_error: int
    num_skipped: int
    num_valid: int
    # In percent, over all constituents of the set.
    bracket_recall: float
    bracket_precision: float
    bracket_f1: float
    # Percentage of sentences in which all constituents match.
    complete_match: float
    # Crossing constituents per sentence.
    average_crossing: float
    # Percentage of sentences with no, or at most two, crossing constituents.
    no_crossing: float
    two_or_less_crossing: float
    tag_accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping that JSON can hold."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class EvalbScores:
    """The content of EVALB's report: one line per sentence, and two summaries."""

    sentences: tuple[SentenceScore, ...]
    # Longest sentence of the second summary, in words.
    cutoff_length: int

    @property
    def summary(self) -> Summary:
        """Summary of all sentences."""
        return summarize(self.sentences)

    @property
    def cutoff_summary(self) -> Summary:
        """Summary of the sentences of up to `cutoff_length` words."""
        return summarize(
            score for score in self.sentences if score.length <= self.cutoff_length
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the summaries as a mapping that JSON can hold.

        The summary of all sentences is at the top level (`bracket_f1`), the other one
        under "up_to_cutoff". Scores of single sentences are left out.
        """
        return {
            **self.summary.to_dict(),
            "cutoff_length": self.cutoff_length,
            "up_to_cutoff": self.cutoff_summary.to_dict(),
        }


def score_trees(
    gold: Sequence[trees.Tree],
    test: Sequence[trees.Tree | None],
    parameters: EvalbParameters = COLLINS,
) -> EvalbScores:
    """Score parses against gold trees.

    Args:
        gold: The gold trees.
        test: The parse of each gold tree, in the same order; None for a missing parse.
        parameters: Scoring rules; the default is COLLINS.prm.

    Raises:
        ValueError: If there are no trees, the numbers of trees differ, or the words of
            `parameters.max_errors` parses differ from those of their gold trees.
    """
    if len(gold) != len(test):
        raise ValueError(
            "`gold` and `test` must have the same number of trees. Received: "
            f"{len(gold)} gold, {len(test)} test."
        )
    if not gold:
        raise ValueError("There is nothing to score: `gold` has no trees.")
    scores = []
    errors = []
    for number, (gold_tree, test_tree) in enumerate(zip(gold, test, strict=True), 1):
        found = compare(gold_tree, test_tree, parameters)
        if found.status == ERROR:
            errors.append(number)
        if len(errors) == parameters.max_errors:
            raise ValueError(
                f"{len(errors)} parses (max_errors) have different words than their "
                f"gold trees: sentences {', '.join(map(str, errors))}. Check that both "
                "contain the same sentences in the same order, with the same tokens."
            )
        score = SentenceScore(
            number=number,
            length=_length(gold_tree, parameters),
            status=found.status,
            num_matched=len(found.matched),
            num_gold=len(found.gold),
            num_test=len(found.test),
            num_crossing=found.num_crossing,
            num_words=found.num_words,
            num_correct_tags=found.num_correct_tags,
        )
        scores.append(score)
    return EvalbScores(tuple(scores), parameters.cutoff_length)


def compare(
    gold: trees.Tree, test: trees.Tree | None, parameters: EvalbParameters = COLLINS
) -> Comparison:
    """Compare the scored constituents and words of two trees of the same sentence."""
    if test is None:
        return Comparison(SKIP)
    gold_leaves, test_leaves = gold.leaves, test.leaves
    gold_kept = [leaf.tag not in parameters.delete_labels for leaf in gold_leaves]
    test_kept = [leaf.tag not in parameters.delete_labels for leaf in test_leaves]
    if sum(gold_kept) != sum(test_kept):
        _restore_quotes(gold_leaves, gold_kept, test_leaves, test_kept, parameters)
    if sum(gold_kept) and not sum(test_kept):
        return Comparison(SKIP)
    gold_words, test_words = (
        _kept(gold_leaves, gold_kept),
        _kept(test_leaves, test_kept),
    )
    if len(gold_words) != len(test_words):
        return Comparison(ERROR)
    pairs = [*zip(gold_words, test_words, strict=True)]
    if not all(parameters.same_word(left.word, right.word) for left, right in pairs):
        return Comparison(ERROR)
    gold_brackets = _brackets(gold, gold_kept, parameters)
    test_brackets = _brackets(test, test_kept, parameters)
    return Comparison(
        VALID,
        gold_brackets,
        test_brackets,
        _matched(gold_brackets, test_brackets, parameters),
        num_crossing=sum(_crosses(bracket, gold_brackets) for bracket in test_brackets),
        num_words=len(pairs),
        num_correct_tags=sum(
            parameters.same_label(left.tag, right.tag) for left, right in pairs
        ),
    )


def summarize(scores: Iterable[SentenceScore]) -> Summary:
    """Return the summary of any selection of sentences."""
    scores = [*scores]
    valid = [score for score in scores if score.status == VALID]
    matched = sum(score.num_matched for score in valid)
    num_gold = sum(score.num_gold for score in valid)
    num_test = sum(score.num_test for score in valid)
    crossing = [score.num_crossing for score in valid]
    return Summary(
        num_sentences=len(scores),
        num_error=sum(score.status == ERROR for score in scores),
        num_skipped=sum(score.status == SKIP for score in scores),
        num_valid=len(valid),
        bracket_recall=percent(matched, num_gold),
        bracket_precision=percent(matched, num_test),
        # 2PR / (P + R), simplified.
        bracket_f1=percent(2 * matched, num_gold + num_test),
        complete_match=percent(sum(score.is_complete for score in valid), len(valid)),
        average_crossing=sum(crossing) / max(len(valid), 1),
        no_crossing=percent(sum(number == 0 for number in crossing), len(valid)),
        two_or_less_crossing=percent(
            sum(number <= 2 for number in crossing), len(valid)
        ),
        tag_accuracy=percent(
            sum(score.num_correct_tags for score in valid),
            sum(score.num_words for score in valid),
        ),
    )


def format_scores(scores: EvalbScores) -> str:
    """Return the scores as EVALB prints them."""
    summary = scores.summary
    return "".join(
        [
            _TABLE_HEAD,
            _TABLE_RULE,
            *map(_format_sentence, scores.sentences),
            _TABLE_RULE,
            _format_totals(scores, summary),
            format_summaries(scores),
        ]
    )


def format_summaries(scores: EvalbScores) -> str:
    """Return the summaries as EVALB prints them below the table of sentences."""
    return "".join(
        [
            "=== Summary ===\n\n-- All --\n",
            _format_summary(scores.summary),
            f"\n-- len<={scores.cutoff_length} --\n",
            _format_summary(scores.cutoff_summary),
        ]
    )


def _length(tree: trees.Tree, parameters: EvalbParameters) -> int:
    return sum(tag not in parameters.delete_labels_for_length for tag in tree.tags)


def _kept(leaves: Sequence[trees.Leaf], kept: Sequence[bool]) -> list[trees.Leaf]:
    return [leaf for leaf, is_kept in zip(leaves, kept, strict=True) if is_kept]


def _restore_quotes(
    gold: Sequence[trees.Leaf],
    gold_kept: list[bool],
    test: Sequence[trees.Leaf],
    test_kept: list[bool],
    parameters: EvalbParameters,
) -> None:
    """Keep a quotation mark in both trees if the tag in one of them keeps it.

    "'" is ignored as a closing quote and scored as a possessive. A parser that confuses
    the two should lose the tag, not the whole sentence.
    """
    gold_quotes = _quotes(gold, parameters)
    test_quotes = _quotes(test, parameters)
    if len(gold_quotes) != len(test_quotes):
        return
    for left, right in zip(gold_quotes, test_quotes, strict=True):
        gold_kept[left] = test_kept[right] = gold_kept[left] or test_kept[right]


def _quotes(leaves: Sequence[trees.Leaf], parameters: EvalbParameters) -> list[int]:
    """Return the indices of quotation marks whose tags may be confused."""
    return [
        index
        for index, leaf in enumerate(leaves)
        if leaf.word in _QUOTES and leaf.tag in parameters.quote_labels
    ]


def _brackets(
    tree: trees.Tree, kept: Sequence[bool], parameters: EvalbParameters
) -> list[trees.Constituent]:
    """Return the scored constituents; spans count scored words only."""
    # before[i]: number of scored words among the first i words.
    before = [0]
    for is_kept in kept:
        before.append(before[-1] + is_kept)
    found = []
    for constituent in trees.constituents(tree):
        label = trees.strip_function(constituent.label)
        start, end = before[constituent.start], before[constituent.end]
        if label and label not in parameters.delete_labels and start < end:
            found.append(trees.Constituent(label, start, end))
    return found


def _matched(
    gold: Sequence[trees.Constituent],
    test: Sequence[trees.Constituent],
    parameters: EvalbParameters,
) -> list[tuple[trees.Constituent, trees.Constituent]]:
    """Pair equal constituents; each constituent is in one pair at most."""
    unmatched: dict[tuple[int, int], list[trees.Constituent]] = {}
    for bracket in test:
        unmatched.setdefault((bracket.start, bracket.end), []).append(bracket)
    pairs = []
    for bracket in gold:
        candidates = unmatched.get((bracket.start, bracket.end), [])
        for index, candidate in enumerate(candidates):
            if not parameters.labeled or parameters.same_label(
                bracket.label, candidate.label
            ):
                pairs.append((bracket, candidates.pop(index)))
                break
    return pairs


def _crosses(bracket: trees.Constituent, others: Sequence[trees.Constituent]) -> bool:
    """Return whether a constituent overlaps another and neither contains the other."""
    return any(
        bracket.start < other.start < bracket.end < other.end
        or other.start < bracket.start < other.end < bracket.end
        for other in others
    )


def percent(part: int, whole: int) -> float:
    """Return a share in percent; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def _format_sentence(score: SentenceScore) -> str:
    return (
        f"{score.number:4d} {score.length:4d} {score.status:4d}  "
        f"{score.recall:6.2f} {score.precision:6.2f} {score.num_matched:5d} "
        f"{score.num_gold:6d} {score.num_test:4d} {score.num_crossing:6d} "
        f"{score.num_words:6d} {score.num_correct_tags:5d} {score.tag_accuracy:8.2f}\n"
    )


def _format_totals(scores: EvalbScores, summary: Summary) -> str:
    def total(name: str) -> int:
        return sum(getattr(score, name) for score in scores.sentences)

    return (
        f"{summary.bracket_recall:22.2f} {summary.bracket_precision:6.2f} "
        f"{total('num_matched'):6d} {total('num_gold'):5d} {total('num_test'):5d} "
        f"{total('num_crossing'):6d} {total('num_words'):6d} "
        f"{total('num_correct_tags'):5d} {summary.tag_accuracy:8.2f}\n"
    )


def _format_summary(summary: Summary) -> str:
    return (
        f"Number of sentence        = {summary.num_sentences:6d}\n"
        f"Number of Error sentence  = {summary.num_error:6d}\n"
        f"Number of Skip  sentence  = {summary.num_skipped:6d}\n"
        f"Number of Valid sentence  = {summary.num_valid:6d}\n"
        f"Bracketing Recall         = {summary.bracket_recall:6.2f}\n"
        f"Bracketing Precision      = {summary.bracket_precision:6.2f}\n"
        f"Bracketing FMeasure       = {summary.bracket_f1:6.2f}\n"
        f"Complete match            = {summary.complete_match:6.2f}\n"
        f"Average crossing          = {summary.average_crossing:6.2f}\n"
        f"No crossing               = {summary.no_crossing:6.2f}\n"
        f"2 or less crossing        = {summary.two_or_less_crossing:6.2f}\n"
        f"Tagging accuracy          = {summary.tag_accuracy:6.2f}\n"
    )
