"""Constituency trees, without TensorFlow: reading, writing, scoring (§6.3).

Begin with `trees`. `linearisation` converts a tree to the symbols that a parser writes,
and back. `evalb` scores brackets by the rules of EVALB.
"""
