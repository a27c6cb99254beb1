"""Attention pictures (§3.2, appendix): recorded weights, heat maps, interactive page.

Begin with `attention`, which runs a sentence pair through a model and records every
attention weight. `heat_map` draws a record with Matplotlib, `page` as interactive HTML;
`figures` saves any Matplotlib figure as PNG. Import the modules by name: `figures`
works without TensorFlow.
"""
