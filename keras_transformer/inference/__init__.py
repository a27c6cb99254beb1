"""Fast inference with a trained model: from text to tokens and back.

Begin reading with `translator`. It is a `generator`, which connects tokenizer, model
and search. The search of `decoding/` calls `decoder_step` for each model of an
`ensemble`, usually one; it reads weights from `prepared_weights`, or integers from
`quantized_weights`, and writes `kv_cache`. `sublayers` are the parts of its layers.
`shortlist` says which pieces it chooses from. The other modules make this fast on a
CPU, or quick to trace and to load. `layers/` has the same computation as in the paper.
"""
