"""From texts to their translations, whatever model translates: imports none.

`pipeline` protects, asks, restores and joins; `batching` sorts texts into batches of
similar length, and `word_alignment` tells which word comes from which. `exported_model`
opens exports as an `opened_model`: `sampling` draws translations with them instead of
searching, and `compiling_beside` compiles searches of the `program_sizes` that pay.
"""
