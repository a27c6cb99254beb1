"""Constituency parsing with the Transformer (§6.3).

Begin with `parser`, text to trees; `constraint` keeps its search among well-formed
trees, `preparation` makes a corpus of trees, `evaluation` scores brackets. What needs
no model is in `treebank/`, and offered here too.
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
