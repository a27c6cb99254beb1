"""Subword vocabularies: trained on the host, applied in the graph (§5.1).

Begin with `tokenizer`, the interface of every tokenizer. `sentence_piece` and
`word_piece` are the two kinds; `loading` loads a saved one.
"""

from keras_transformer.tokenization.loading import load
from keras_transformer.tokenization.sentence_piece import (
    SentencePieceTokenizer,
    from_sentencepiece_file,
    train_bpe,
)
from keras_transformer.tokenization.tokenizer import Tokenizer
from keras_transformer.tokenization.word_piece import (
    WordPieceTokenizer,
    train_wordpiece,
)

__all__ = [
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordPieceTokenizer",
    "from_sentencepiece_file",
    "load",
    "train_bpe",
    "train_wordpiece",
]
