"""The components of the paper as Keras layers, one per file.

Begin reading with `attention` (§3.2), then `encoder` and `decoder` (§3.1). Search,
caches and weight layouts for fast inference are in `inference/`.
"""
