"""Attention pictures (§3.2, appendix): recorded weights, heat maps, a page to explore.

The modules are imported by name, so that figures need no TensorFlow.
"""
