"""Tokenizers take texts as layers and tokenizers of Keras do."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import tokenization
from tests.small_models import LINES, TOKENIZERS

TEXTS = ["one two", "two", ""]


@pytest.fixture(scope="module", params=TOKENIZERS.values(), ids=TOKENIZERS)
def tokenizer(request):
    return request.param()


@pytest.fixture(scope="module")
def rows(tokenizer):
    """The ids of the texts."""
    return tokenizer.tokenize(tf.constant(TEXTS)).to_list()


ONE = {
    "str": "one two",
    "bytes": b"one two",
    "np.str_": np.str_("one two"),
    "array": np.array("one two"),
    "tensor": tf.constant("one two"),
}
SEVERAL = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "bytes": [text.encode() for text in TEXTS],
    "both": [TEXTS[0], *(text.encode() for text in TEXTS[1:])],
    "array": np.array(TEXTS),
    "objects": np.array(TEXTS, object),
    "tensor": tf.constant(TEXTS),
    "tensors": [*map(tf.constant, TEXTS)],
}


@pytest.mark.parametrize("text", ONE.values(), ids=ONE)
def test_one_text_has_one_answer(tokenizer, rows, text):
    """As keras_hub and TensorFlow Text have it; it is not a list of letters."""
    for ids in (tokenizer.tokenize(text), tokenizer.encode(text)):
        assert ids.dtype == np.int32
        assert np.array(ids).tolist() == rows[0]
    assert tokenizer.encode_rows(text).tolist() == [[*rows[0], tokenizer.eos_id]]
    assert tokenizer.tokenize_target(text).shape == tokenizer.encode_target(text).shape


@pytest.mark.parametrize("texts", SEVERAL.values(), ids=SEVERAL)
def test_several_texts_have_as_many(tokenizer, rows, texts):
    assert tokenizer.tokenize(texts).to_list() == rows
    assert [ids.tolist() for ids in tokenizer.encode(texts)] == rows
    assert len(tokenizer.encode_rows(texts)) == len(texts)


def test_texts_have_any_shape(tokenizer, rows):
    first, second, third = rows
    ragged = tf.ragged.constant([TEXTS[:2], [], TEXTS[2:]])
    assert tokenizer.tokenize(ragged).to_list() == [[first, second], [], [third]]
    nested = [[TEXTS[0], TEXTS[1]], [TEXTS[1], TEXTS[2]]]
    for texts in (nested, tf.constant(nested)):
        found = tokenizer.tokenize(texts)
        assert found.to_list() == [[first, second], [second, third]]
        joined = tokenizer.detokenize(found).to_list()
        assert joined == [[b"one two", b"two"], [b"two", b""]]


def test_a_dataset_is_tokenized_before_and_after_it_is_batched(tokenizer, rows):
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    found = texts.map(tokenizer.tokenize)
    assert [row.tolist() for row in found.as_numpy_iterator()] == rows
    (padded,) = found.padded_batch(3, padding_values=tokenizer.pad_id)
    (batch,) = texts.batch(3).map(tokenizer.tokenize)
    assert batch.to_tensor(tokenizer.pad_id).numpy().tolist() == padded.numpy().tolist()
    (batch,) = texts.ragged_batch(3).map(tokenizer.tokenize)
    assert batch.to_list() == rows
    assert [row.tolist() for row in tokenizer.encode(texts)] == rows


def test_a_generator_of_texts_is_encoded(tokenizer, rows):
    found = tokenizer.encode(text for text in TEXTS)
    assert [row.tolist() for row in found] == rows


IDS = {
    "lists": lambda rows: rows,
    "arrays": lambda rows: [np.array(row, np.int64) for row in rows],
    "ragged": tf.ragged.constant,
    "first empty": lambda rows: [[], *rows],
}


@pytest.mark.parametrize("form", IDS.values(), ids=IDS)
def test_ids_are_joined_in_any_form(tokenizer, rows, form):
    given = form(rows)
    texts = ["", *TEXTS] if form is IDS["first empty"] else TEXTS
    assert tokenizer.decode(given) == texts
    joined = tokenizer.detokenize(given).numpy()
    assert [text.decode() for text in joined] == texts


def test_ids_of_one_text_are_one_text(tokenizer, rows):
    for ids in (rows[0], np.array(rows[0]), tf.constant(rows[0])):
        assert tokenizer.decode(ids) == "one two"
        assert tokenizer.detokenize(ids).numpy() == b"one two"
    assert tokenizer.decode(tokenizer.encode("one two")) == "one two"
    assert tokenizer.decode([]) == []


WRONG_TEXTS = {
    "nothing": None,
    "number": 5,
    "numbers": [1, 2],
    "a text and nothing": ["one", None],
    "a text and a list": ["one", ["two"]],
    "dictionary": {"text": "one"},
    "tensor of ids": tf.constant([5, 6]),
}


@pytest.mark.parametrize("texts", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_what_is_no_text_is_named_in_one_line(tokenizer, texts):
    for split in (tokenizer.tokenize, tokenizer.encode, tokenizer.tokenize_target):
        with pytest.raises(TypeError, match="` must be strings. Received: ") as raised:
            split(texts)
        assert "\n" not in str(raised.value)


WRONG_IDS = {
    "floats": ([[5.5, 6.0]], TypeError, "`tokens` must be integers. Received: [[5.5"),
    "array of floats": (np.array([1.5]), TypeError, "`tokens` must be integers."),
    "texts": (["one"], TypeError, "`tokens` must be integers. Received: ['one']."),
    "nothing": (None, TypeError, "`tokens` must be integers. Received: None."),
    "one id": (5, ValueError, "`tokens` must be the ids of a text or of several."),
    "negative": ([[-1]], ValueError, "). Received: -1."),
    "large": ([[2**40]], ValueError, "). Received: 1,099,511,627,776."),
}


@pytest.mark.parametrize("name", WRONG_IDS)
def test_what_is_no_id_is_named_in_one_line(tokenizer, name):
    tokens, error, message = WRONG_IDS[name]
    for join in (tokenizer.decode, tokenizer.detokenize):
        with pytest.raises(error) as raised:
            join(tokens)
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


def test_bytes_that_are_not_utf_8_have_the_ids_of_the_graph(tokenizer):
    texts = [b"one \xff two", b"\xe4\xb8", b"a\0", b"\xf0\x9f\x98 two"]
    expected = tokenizer.tokenize(tf.constant(texts)).to_list()
    assert [ids.tolist() for ids in tokenizer.encode(texts)] == expected


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda own: pickle.loads(pickle.dumps(own))]
)
def test_a_copy_has_the_same_ids(tokenizer, rows, again):
    other = again(tokenizer)
    assert type(other) is type(tokenizer)
    assert other.fingerprint == tokenizer.fingerprint
    assert other.ids() == tokenizer.ids()
    assert other.tokenize(TEXTS).to_list() == rows


def test_a_copy_translates_into_the_same_language():
    tokenizer = tokenization.train_bpe(LINES * 5, 300, symbols=[">>de<<", ">>fr<<"])
    chosen = pickle.loads(pickle.dumps(tokenizer.with_languages(None, "fr")))
    expected = tokenizer.encode(">>fr<< one").tolist()
    assert chosen.encode("one").tolist() == expected
    assert chosen.encode(b"one").tolist() == expected
    assert tokenizer.encode(b" >>fr<< one").tolist() == expected


@pytest.mark.parametrize(
    "train", [tokenization.train_bpe, tokenization.train_wordpiece]
)
def test_a_vocabulary_is_learned_from_texts_in_any_form(train):
    lines, size = LINES * 5, 300 if train is tokenization.train_bpe else 120
    expected = train(lines, size).fingerprint
    forms = [
        [line.encode() for line in lines],
        np.array(lines),
        tf.constant(lines),
        tf.data.Dataset.from_tensor_slices(lines),
        (line for line in lines),
    ]
    assert {train(form, size).fingerprint for form in forms} == {expected}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("corpus.txt", "`texts` must be several strings. Received one: 'corpus.txt'."),
        (None, "`texts` must be strings. Received: None."),
        (["one", None], r"`texts` must be strings. Received: texts\[1\]=None."),
        ([["one"]], r"`texts` must be strings. Received: texts\[0\]=\['one'\]."),
    ],
)
def test_a_vocabulary_is_not_learned_from_others(texts, message):
    with pytest.raises(TypeError, match=message):
        tokenization.train_bpe(texts, 300)
