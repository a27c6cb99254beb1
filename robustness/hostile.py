"""Hostile input strings, and sending them to an exported model."""

from __future__ import annotations

import random
from collections.abc import Sequence

from keras_transformer import white_space

MAX_CHARACTERS = 100_000
_CODE_POINTS = 0x110000
# White space, control, combining, right-to-left and joined characters, characters with
# a meaning in vocabularies, and plain text.
_ALPHABETS = (
    " \t\n\r\v\f\u00a0\u1680\u2003\u2028\u2029\u202f\u3000\ufeff",
    "".join(map(chr, [*range(32), *range(127, 160)])),
    "a\u0300\u0301\u0323\u20dd\u0e33\u0f74",
    "\u202e\u202d\u2066\u2069\u200f\u05d0\u0627\u0644",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\ufe0f\U0001f3fd\U0001f1e9\U0001f1ea",
    "\u2581\ufffd\ufffe\uffff",
    "0123456789.,:;%$-",
    "the quick brown fox is over there, and a man rides his bicycle. ",
    "\u7684\u4e00\u662f\u4e0d\u4e86\u4eba\u6211\u5728\uac00\ud7a3\u3042\u30a2",
)
_PHRASES = (b"<unk>", b"<pad>", b"<s>", b"</s>", b"<0x41>", b"%s", b"{}", b"\\x00")


def hostile_strings(count: int, seed: int = 0) -> list[bytes]:
    """Return strings that a server may receive by mistake or from an attacker.

    A quarter of them contain all code points of Unicode, including surrogates. The
    others are random bytes, unusual characters and special tokens, with lengths of 0 to
    100,000.

    Args:
        count: Number of strings, at least 4.
        seed: Random seed.
    """
    draw = random.Random(seed)
    slices = count // 4
    step = -(-_CODE_POINTS // slices)
    strings = [
        "".join(map(chr, range(start, min(start + step, _CODE_POINTS)))).encode(
            "utf-8", "surrogatepass"
        )
        for start in range(0, _CODE_POINTS, step)
    ]
    strings += [b"", b" ", b"\0", b"\xff", b"a" * MAX_CHARACTERS]
    while len(strings) < count:
        # Log-uniform: 10 to 100 is as likely as 100 to 1,000.
        length = int(MAX_CHARACTERS ** draw.random())
        kind = draw.randrange(3)
        if kind == 0:
            strings.append(draw.randbytes(length))
        elif kind == 1:
            letters = draw.choices(draw.choice(_ALPHABETS), k=length)
            strings.append("".join(letters).encode())
        else:
            strings.append(b"".join(draw.choices(_PHRASES, k=-(-length // 5))))
    draw.shuffle(strings)
    return strings[:count]


def too_long(
    strings: Sequence[bytes], tokenizer_model: bytes, limit: int
) -> list[bool]:
    """Return which strings have more than `limit` tokens, EOS included.

    Without white space at their ends, as a search reads them.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer_model)
    return [len(processor.encode(_read(string))) + 1 > limit for string in strings]


def _read(string: bytes) -> bytes:
    text = string.decode("utf-8", "surrogateescape")
    text = "" if white_space.is_blank(text) else white_space.strip(text)
    return text.encode("utf-8", "surrogateescape")


def send(signature, strings: Sequence[bytes], batch_size: int) -> list[bool]:
    """Translate strings in the given order; return `truncated` of each.

    Args:
        signature: The signature `serving_default` of an export.
        strings: The strings to send.
        batch_size: Strings per request.

    Raises:
        ValueError: If an answer is missing or not valid UTF-8, or its score is not
            finite.
    """
    import numpy as np
    import tensorflow as tf

    truncated = []
    for start in range(0, len(strings), batch_size):
        batch = strings[start : start + batch_size]
        answer = signature(text=tf.constant(batch))
        for translation in answer["translation"].numpy():
            translation.decode("utf-8")
        if not np.all(np.isfinite(answer["score"])):
            raise ValueError(
                f"Scores must be finite. Received for strings {start} to "
                f"{start + len(batch) - 1}: {answer['score']}."
            )
        truncated += answer["truncated"].numpy().tolist()
    return truncated
