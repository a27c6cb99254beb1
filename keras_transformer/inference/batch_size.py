"""How many texts are searched at once by default. Imports no TensorFlow."""

# A model of 2 M weights takes a fifth less time per sentence than with half as many
# sentences, and hardly less with twice as many.
TRANSLATION_BATCH_SIZE = 128

# With beam 21 and room for the input + 300 symbols, a sentence takes the memory of
# about 20 translations.
PARSING_BATCH_SIZE = 16
