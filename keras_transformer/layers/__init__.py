"""The paper's components, one a file, as Keras layers.

Begin with `attention` (§3.2) and go on with `encoder` and `decoder` (§3.1). Nothing
here knows of a search, a cache, a CPU or a layout of weights: see `inference/`.
"""
