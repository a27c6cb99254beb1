"""A treebank of three labels, prepared in a moment."""

import random

from keras_transformer import tokenization
from keras_transformer.parsing import preparation

NOUNS, VERBS = ["fox", "dog", "moon", "shares"], ["sees", "sells", "barks"]


def tree_lines(seed, count):
    """Sentences such as (S (NP (DT the) (NN fox)) (VP (VBZ sees))), a tree a line."""
    draw = random.Random(seed)

    def noun_phrase():
        return f"(NP-SBJ (DT the) (NN {draw.choice(NOUNS)}))"

    def sentence():
        verb = f"(VBZ {draw.choice(VERBS)})"
        rest = draw.choice(["", f" {noun_phrase()}"])
        return f"( (S {noun_phrase()} (VP {verb}{rest}) (. .)))"

    return [sentence() for _ in range(count)]


def write_trees(path, lines):
    """Write the lines and return the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_corpus(folder, name="data", extra=(), vocab_size=290):
    """Prepare 61 training trees, and `extra` ones, and 7 for validation."""
    banks = {
        "train": write_trees(folder / "train.mrg", [*tree_lines(2, 61), *extra]),
        "valid": write_trees(folder / "valid.mrg", tree_lines(3, 7)),
    }
    source = preparation.TreeFiles(
        {split: [preparation.WeightedTrees(path)] for split, path in banks.items()}
    )
    preparation.prepare(
        source,
        folder / name,
        lambda texts: tokenization.train_bpe(texts, vocab_size),
    )
    return str(folder / name)
