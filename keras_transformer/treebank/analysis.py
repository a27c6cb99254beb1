"""Where a parser is good: scores by sentence length and by label, and a baseline."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from keras_transformer.treebank import evalb, trees
from keras_transformer.treebank.evalb_parameters import EvalbParameters

_COLLINS = EvalbParameters()


@dataclasses.dataclass(frozen=True)
class LabelScore:
    """Scores of the constituents with one label, in percent."""

    recall: float
    precision: float
    f1: float
    # Constituents with this label that count.
    num_gold: int
    num_test: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping that JSON can hold."""
        return dataclasses.asdict(self)


def scores_by_length(
    scores: evalb.EvalbScores, bounds: Sequence[int] = (10, 20, 30, 40)
) -> dict[str, evalb.Summary]:
    """Return the summary of the sentences of similar length.

    Args:
        scores: Of all sentences.
        bounds: Longest length in words of each class, rising; what is longer than the
            last is one more class.

    Returns:
        By class, such as "1-10" and ">40"; classes without sentences are left out.

    Raises:
        ValueError: If `bounds` do not rise from 1 or more.
    """
    edges = [0, *bounds]
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise ValueError(
            f"`bounds` must rise from 1 or more. Received: bounds={tuple(bounds)}."
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
    parameters: EvalbParameters = _COLLINS,
) -> dict[str, LabelScore]:
    """Return the scores of each label, the most frequent in gold first.

    Sentences that `evalb.score_trees` does not score count here neither. Where two
    labels count as one (ADVP and PRT), a match counts for gold's in recall and for the
    parse's in precision.

    Args:
        gold: The right trees.
        test: The parse of each; None where there is none.
        parameters: Rules; the default is COLLINS.prm.
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
    return {
        label: _label_score(
            found[label], num_gold[label], right[label], num_test[label]
        )
        for label in labels
    }


def _label_score(found: int, num_gold: int, right: int, num_test: int) -> LabelScore:
    recall = 100.0 * found / num_gold if num_gold else 0.0
    precision = 100.0 * right / num_test if num_test else 0.0
    total = recall + precision
    return LabelScore(
        recall=recall,
        precision=precision,
        f1=2 * recall * precision / total if total else 0.0,
        num_gold=num_gold,
        num_test=num_test,
    )


def right_branching(
    words: Sequence[str], tags: Sequence[str], root: str = "S", inner: str = "VP"
) -> trees.Tree:
    """Return the tree in which every word but the last takes all that follows.

    The baseline of a parser that knows only that English branches to the right:
    `(S (DT the) (VP (NN fox) (VP (VBD ran) (RB off))))`. VP within S is the strongest
    choice of one inner label: F1 on dev.mrg of the treebank's sample, by COLLINS.prm,
    is 17.27, against 12.86 with NP, 8.93 with S and 9.56 for flat trees under S.

    Raises:
        ValueError: If there are no words, or not one tag for each.
    """
    if not words or len(words) != len(tags):
        raise ValueError(
            "`words` must be at least one, and `tags` one for each. Received: "
            f"{len(words)} words, {len(tags)} tags."
        )
    leaves = [trees.Leaf(tag, word) for tag, word in zip(tags, words, strict=True)]
    rest = tuple(leaves[-2:])
    for leaf in reversed(leaves[:-2]):
        rest = (leaf, trees.Tree(inner, rest))
    return trees.Tree(root, rest)
