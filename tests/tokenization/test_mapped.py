"""SentencePiece models whose pieces get their ids from a map."""

import numpy as np

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
