"""A trained model, run fast: from text to tokens and back.

Begin with `translator`. It is a `generator`, which joins tokenizer, model and search;
the search of `decoding/` calls `decoder_step`, which reads weights from
`prepared_weights` and writes `kv_cache`. The rest makes that fast on a CPU, or quick to
trace and to load. `layers/` has the same computation as the paper writes it.
"""
