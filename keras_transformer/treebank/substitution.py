"""Further training trees from few: constituents substituted by others of their kind.

As in "Substructure Substitution: Structured Data Augmentation for NLP" (Shi, Livescu &
Gimpel 2021): a constituent of one tree takes the place of one with the same label in
another. What a label may contain then no longer hangs on the words around it, which a
model of a few thousand trees would learn by heart.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np

from keras_transformer import config
from keras_transformer.treebank import trees


class Substitution:
    """Draws trees that are `bank`'s, with constituents of its other trees.

    From the root down, each constituent below it is substituted with probability
    `rate`, and what is within it stays. What takes its place is drawn among the
    constituents of the bank with the same label, under a parent of the same label, and
    about as long: its words are at least half as many and at most twice.

    Args:
        bank: Cleaned trees.
        rate: In [0, 1).

    Raises:
        ValueError: If `rate` is outside [0, 1).
    """

    def __init__(self, bank: Sequence[trees.Tree], rate: float = 0.2):
        config.check_rate("rate", rate)
        self.rate = rate
        by_kind = collections.defaultdict(list)
        for tree in bank:
            for parent, node in _below_root(tree):
                by_kind[parent.label, node.label].append((len(node.leaves), node))
        self._donors = {}
        for kind, donors in by_kind.items():
            donors.sort(key=lambda donor: donor[0])
            lengths, nodes = zip(*donors, strict=True)
            self._donors[kind] = np.array(lengths), nodes

    def draw(self, tree: trees.Tree, random: np.random.Generator) -> trees.Tree:
        """Return one more tree, made from a tree of the bank."""
        inside = 0  # constituents that are open within a chosen one
        stack = [[]]
        path = []
        for kind, node in trees.walk(tree):
            if kind == trees.OPEN:
                if inside or (path and random.random() < self.rate):
                    inside += 1
                path.append(node)
                stack.append([])
            elif kind == trees.LEAF:
                stack[-1].append(node)
            else:
                path.pop()
                children = stack.pop()
                if inside == 1:
                    donor = self._donor(path[-1], node, random)
                    stack[-1].append(donor)
                else:
                    stack[-1].append(trees.Tree(node.label, tuple(children)))
                inside -= bool(inside)
        return stack[0][0]

    def _donor(self, parent, node, random):
        lengths, nodes = self._donors[parent.label, node.label]
        n = len(node.leaves)
        first = np.searchsorted(lengths, (n + 1) // 2)
        end = np.searchsorted(lengths, 2 * n, side="right")
        return nodes[random.integers(first, end)]


def _below_root(tree):
    path = []
    for kind, node in trees.walk(tree):
        if kind == trees.OPEN:
            if path:
                yield path[-1], node
            path.append(node)
        elif kind == trees.CLOSE:
            path.pop()
