"""Constituency parsing with the Transformer (§6.3).

Begin with `parser`, which turns text into trees. `constraint` restricts its search to
well-formed trees, `preparation` encodes treebanks for training, `evaluation` scores
brackets. Code that needs no model is in `treebank/` and re-exported here.
"""

from keras_transformer.treebank.drawing import draw_svg, draw_text
from keras_transformer.treebank.linearisation import (
    delinearise,
    linearise,
    repair,
    tag_of,
    tags_of,
)
from keras_transformer.treebank.trees import Leaf, Tree, clean, read_trees, write_trees

__all__ = [
    "Leaf",
    "Tree",
    "clean",
    "delinearise",
    "draw_svg",
    "draw_text",
    "linearise",
    "read_trees",
    "repair",
    "tag_of",
    "tags_of",
    "write_trees",
]
