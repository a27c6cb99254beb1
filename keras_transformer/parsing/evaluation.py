"""Scoring the parses of a model on a held-out split, or parses from files, §6.3."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_transformer import tasks, wording
from keras_transformer.data import metadata
from keras_transformer.parsing import Tree
from keras_transformer.treebank import analysis, evalb, trees
from keras_transformer.treebank.evalb_parameters import (
    COLLINS,
    EvalbParameters,
    read_parameters,
)


@dataclasses.dataclass(frozen=True)
class ModelAnswers:
    """A model's parses of the sentences of gold trees."""

    trees: list[Tree]
    # Sentences that were cut to the model's input limit.
    num_truncated: int
    # Sentences whose output was not a valid tree and was repaired.
    num_repaired: int


@dataclasses.dataclass(frozen=True)
class ParsingScores:
    """Scores of parses, and of a baseline to compare with."""

    evalb: evalb.EvalbScores
    by_length: dict[str, evalb.Summary]
    by_label: dict[str, analysis.LabelScore]
    # F1 of `analysis.right_branching` on the same sentences.
    right_branching_f1: float

    def to_dict(self) -> dict[str, Any]:
        """Return a mapping that JSON can hold; EVALB's summary is at the top level."""
        return {
            **self.evalb.to_dict(),
            "right_branching_f1": self.right_branching_f1,
            "by_length": _dicts(self.by_length),
            "by_label": _dicts(self.by_label),
        }


def parameters_of(path: str | os.PathLike | None) -> EvalbParameters:
    """Read an EVALB parameter file; None: the rules of COLLINS.prm."""
    return COLLINS if path is None else read_parameters(path)


def read_gold(data_dir: str | os.PathLike, split: str) -> list[Tree]:
    """Read the gold trees of a split that `preparation.prepare` made.

    Raises:
        FileNotFoundError: If there is no corpus, or it has no such split.
        ValueError: If the corpus is not a treebank.
    """
    folder = pathlib.Path(data_dir)
    described = metadata.read_metadata(folder)
    if described.task != tasks.PARSING.name:
        raise ValueError(
            f"The corpus in {folder} is prepared for --task={described.task}, but a "
            "parser is scored on trees. Choose another --data_dir."
        )
    path = folder / f"{split}.target"
    if not path.is_file():
        raise FileNotFoundError(
            f"No {path.name} in {folder}: the corpus was prepared without this split. "
            "Choose another --split."
        )
    return trees.read_trees(path, one_per_line=True).trees


def parse_words(
    parser: Any, gold: Sequence[Tree], batch_size: int | None = None
) -> ModelAnswers:
    """Parse the words of gold trees; the model sees nothing else of the trees.

    Args:
        parser: A `Parser`.
        gold: The gold trees, cleaned.
        batch_size: Sentences parsed at once; None: `PARSING_BATCH_SIZE`.
    """
    from keras_transformer.translation.batch_sizes import PARSING_BATCH_SIZE

    sentences = [" ".join(map(trees.escape, tree.words)) for tree in gold]
    answers = parser.parse(sentences, batch_size or PARSING_BATCH_SIZE)
    return ModelAnswers(
        [answer.tree for answer in answers],
        num_truncated=sum(answer.truncated for answer in answers),
        num_repaired=sum(not answer.valid for answer in answers),
    )


def score(
    gold: Sequence[Tree],
    test: Sequence[Tree | None],
    parameters: EvalbParameters = COLLINS,
) -> ParsingScores:
    """Score parses overall, by sentence length and by label.

    Args:
        gold: The gold trees.
        test: The parse of each gold tree; None for a missing parse.
        parameters: Scoring rules; the default is COLLINS.prm.

    Raises:
        ValueError: Same as `evalb.score_trees`.
    """
    scores = evalb.score_trees(gold, test, parameters)
    baseline = [analysis.right_branching(tree.words, tree.tags) for tree in gold]
    return ParsingScores(
        scores,
        analysis.scores_by_length(scores),
        analysis.scores_by_label(gold, test, parameters),
        evalb.score_trees(gold, baseline, parameters).summary.bracket_f1,
    )


def score_answers(
    gold: Sequence[Tree],
    answers: ModelAnswers,
    parameters: EvalbParameters = COLLINS,
) -> ParsingScores:
    """Score the parses of a model.

    If `linearisation.tags_of` and the gold tree disagree about which words are
    punctuation, a sentence is left out of the percentages and counted in `num_error`.
    The words are known to be the same, so any number of such sentences is accepted.
    """
    unlimited = dataclasses.replace(parameters, max_errors=len(gold) + 1)
    return score(gold, answers.trees, unlimited)


def read_pairs(
    hypothesis: str | os.PathLike, reference: str | os.PathLike
) -> tuple[list[Tree], list[Tree | None]]:
    """Read gold trees and parses, one per line; return (gold, parses).

    An empty line in the hypothesis file is a missing parse.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a line is not a tree, or the numbers of lines differ.
    """
    gold = trees.read_trees(reference, one_per_line=True).trees
    test = trees.read_trees(hypothesis, one_per_line=True, allow_empty=True).trees
    if len(gold) != len(test):
        raise ValueError(
            f"{hypothesis} has {wording.count(len(test), 'line')} and {reference} has "
            f"{wording.count(len(gold), 'line')}: line n of both must be a tree of the "
            "same sentence."
        )
    return gold, test


def format_report(scores: ParsingScores) -> str:
    """Return the summaries in EVALB's layout, followed by the baseline's F1."""
    return (
        f"{evalb.format_summaries(scores.evalb)}\n"
        f"Right-branching FMeasure  = {scores.right_branching_f1:6.2f}"
    )


def _dicts(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: value.to_dict() for name, value in values.items()}
