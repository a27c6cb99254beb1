"""Constituency parsing (§6.3): trees and the brackets that they are kept in."""

from keras_transformer.parsing.trees import Leaf, Tree, clean, read_trees, write_trees

__all__ = ["Leaf", "Tree", "clean", "read_trees", "write_trees"]
