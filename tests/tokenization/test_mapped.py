"""SentencePiece models whose pieces get their ids from a map."""

import numpy as np
import pytest

from keras_transformer import tokenization
from keras_transformer.tokenization import mapped
from tests.small_models import LINES


def test_line_ends_and_underscores_of_a_text_stay():
    """The ids are those of the SentencePiece model, renamed."""
    own = tokenization.train_bpe([*LINES, "x__ y__ __init__"] * 5, vocab_size=310)
    pieces = [p.decode() for p in own.pieces(np.arange(own.vocab_size)).numpy()]
    ids = {piece or "<pad>": number for number, piece in enumerate(pieces)}
    special_ids = {"pad_id": own.pad_id, "bos_id": own.bos_id, "eos_id": own.eos_id}
    proto = own._vocabulary
    made = mapped.MappedTokenizer(mapped.pack(proto, proto, [ids], special_ids))
    text = "x__ one\n__init__"
    (found,) = made.encode([text])
    assert ids["__"] in found
    assert found.tolist() == own.encode([text])[0].tolist()
    assert made.decode([found]) == [text]


SYMBOLS = ("<ph1>", "<pc1>", "</pc1>")


def tokenizer_of(*sides):
    """Return a tokenizer of models and maps; one map is that of both sides."""
    protos, maps = zip(*sides, strict=True)
    special_ids = {"pad_id": 0, "bos_id": 2, "eos_id": 3}
    packed = mapped.pack(protos[0], protos[-1], maps, special_ids)
    return mapped.MappedTokenizer(packed)


def side(symbols, swapped=()):
    """Return a SentencePiece model and its map, in which two ids may be swapped."""
    own = tokenization.train_bpe(LINES * 5, vocab_size=300, symbols=symbols)
    proto, _, ids = own.sentencepiece_models()
    if swapped:
        first, second = swapped
        ids[first], ids[second] = ids[second], ids[first]
    return proto, ids


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ([(SYMBOLS,)], SYMBOLS),
        ([(SYMBOLS,), (SYMBOLS,)], SYMBOLS),
        ([(SYMBOLS,), (SYMBOLS, ("<ph1>", "<pc1>"))], ("</pc1>",)),
        ([(SYMBOLS,), (("<pc1>", "</pc1>"),)], ()),
        ([(("<news>",),)], ()),
    ],
    ids=["one map", "equal maps", "other ids", "other pieces", "none"],
)
def test_placeholders_are_those_that_both_sides_have(sides, expected):
    made = tokenizer_of(*(side(*each) for each in sides))
    assert set(made.placeholders) == set(expected)
    for name, number in made.placeholders.items():
        assert made.encode([f"x{name}y"])[0].tolist().count(number) == 1


def test_a_piece_that_texts_cannot_have_is_no_placeholder():
    """A vocabulary may name it although its SentencePiece model would split it."""
    proto, ids = side(())
    ids["<ph1>"] = len(ids)
    assert tokenizer_of((proto, ids)).placeholders == {}
