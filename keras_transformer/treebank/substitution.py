"""Data augmentation for small treebanks: constituents substituted by similar ones.

As in "Substructure Substitution: Structured Data Augmentation for NLP" (Shi, Livescu &
Gimpel 2021): a constituent of one tree replaces one with the same label in another. The
content of a constituent then no longer depends on the words around it, which a model
trained on a few thousand trees would memorize.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np

from keras_transformer import config
from keras_transformer.treebank import trees


class Substitution:
    """Draws variants of the trees of a treebank by substituting constituents.

    Going down from the root, each constituent below the root is substituted with
    probability `rate`; constituents inside a substituted one are not visited. The
    replacement is drawn from all constituents of the treebank that have the same label,
    a parent with the same label, and between half and twice the number of words.

    Args:
        bank: Cleaned trees.
        rate: Probability of substituting a constituent, in [0, 1).

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
        """Return a variant of a tree of the bank."""
        num_replaced = 0  # open constituents that belong to a replaced one
        stack = [[]]
        path = []
        for kind, node in trees.walk(tree):
            if kind == trees.OPEN:
                if num_replaced or (path and random.random() < self.rate):
                    num_replaced += 1
                path.append(node)
                stack.append([])
            elif kind == trees.LEAF:
                stack[-1].append(node)
            else:
                path.pop()
                children = stack.pop()
                if num_replaced == 1:
                    donor = self._donor(path[-1], node, random)
                    stack[-1].append(donor)
                else:
                    stack[-1].append(trees.Tree(node.label, tuple(children)))
                num_replaced -= bool(num_replaced)
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
