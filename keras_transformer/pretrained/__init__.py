"""Published models: from their files to a model, tokenizer and settings of ours.

Begin reading with `importing`, which writes a model_dir. `huggingface` reads folders of
Transformers (OPUS-MT, M2M-100), `marian` those of Marian. Both describe what they find
as a `PublishedModel`.
"""
