"""From texts to their translations, whatever model translates: imports none.

`pipeline` protects, asks, restores and joins; `batching` sorts texts into batches of
similar length, and `word_alignment` tells which word comes from which.
"""
