"""How many texts are searched at once by default. Imports no TensorFlow."""

# A model of 1.2 M weights in two processes takes 5 % less time per sentence than with
# 256 sentences, and no less with 768. The base model takes as long with 128 as with
# 256, and 6 % less memory.
TRANSLATION_BATCH_SIZE = 384

# With beam 21 and room for the input + 300 symbols, a sentence takes the memory of
# about 20 translations.
PARSING_BATCH_SIZE = 16

# Batches searched at the same time: while one waits for Python, or has a layer too
# small for all cores, the other uses them.
BATCHES_AT_ONCE = 2
