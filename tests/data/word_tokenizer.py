"""A vocabulary of whole words, so that token counts in tests are word counts."""

import json
import pathlib

import numpy as np

from keras_transformer import config


class WordTokenizer:
    """Has what `prepare` needs of a tokenizer; word n of the text is id 4 + n."""

    kind = "words"
    fingerprint = "f00d"
    pad_id, unk_id = config.PAD_ID, config.UNK_ID
    target_unk_id = unk_id
    markers = ()
    bos_id, eos_id = config.BOS_ID, config.EOS_ID

    def __init__(self, texts, vocab_size=None):
        self.texts = list(texts)
        words = dict.fromkeys(word for text in self.texts for word in text.split())
        self.words = list(words)
        self._ids = {word: 4 + number for number, word in enumerate(self.words)}
        self.vocab_size = vocab_size or 4 + len(self.words)

    def encode(self, texts):
        return [
            np.array([self._ids.get(word, self.unk_id) for word in text.split()], int)
            for text in texts
        ]

    def words_of_tokens(self, texts, tokens, is_target=False):
        return [np.arange(len(ids)) for ids in tokens]

    def has_symbol(self, symbol):
        return True

    def encode_target(self, texts):
        return self.encode(texts)

    def decode(self, ids):
        return " ".join(self.words[id - 4] for id in ids if id != self.eos_id)

    def ids(self):
        names = ("vocab_size", "pad_id", "unk_id", "bos_id", "eos_id")
        return {name: getattr(self, name) for name in names}

    def save(self, directory):
        pathlib.Path(directory).mkdir()
        (pathlib.Path(directory) / "words.json").write_text(json.dumps(self.words))


def write_lines(path, *lines):
    """Write text lines and return the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
