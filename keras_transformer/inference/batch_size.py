"""How many texts are searched at once by default. Imports no TensorFlow."""

# A model of 1.2 M weights takes a fifth less time per sentence than with half as many
# sentences, and no less with twice as many. The base model takes as long with half as
# many, and 6 % less memory.
TRANSLATION_BATCH_SIZE = 256

# With beam 21 and room for the input + 300 symbols, a sentence takes the memory of
# about 20 translations.
PARSING_BATCH_SIZE = 16
