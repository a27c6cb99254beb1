"""Constituency trees, without TensorFlow: reading, writing, scoring (§6.3).

Begin with `trees`. `linearisation` turns a tree into the symbols that a parser writes,
and back; `evalb` scores brackets as EVALB does.
"""
