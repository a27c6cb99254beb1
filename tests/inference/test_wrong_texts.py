"""What is no text is named, and the next call works."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.small_models import make_parser, make_translator

WRONG = {
    "a list of lists": [["one"]],
    "nothing": [None],
    "a text and a number": ["one", 5],
    "an array of two axes": np.array([["one", "two"]]),
    "a tensor of two axes": tf.constant([["one", "two"]]),
    "a tensor of numbers": tf.constant([1, 2]),
    "a number without axes": np.array(5),
    "a missing value": ["one", float("nan")],
}
RIGHT = {
    "a tensor": tf.constant(["one", "two"]),
    "an array": np.array(["one", "two"]),
    "an array of objects": np.array(["one", b"two"], object),
    "bytes": [b"one", b"two"],
    "scalar tensors": [tf.constant("one"), tf.constant("two")],
    "a dataset": tf.data.Dataset.from_tensor_slices(["one", "two"]),
    "a tuple": ("one", np.str_("two")),
}


@pytest.fixture(scope="module", params=[make_translator, make_parser])
def ask(request):
    return request.param()


@pytest.mark.parametrize("texts", WRONG.values(), ids=WRONG)
def test_a_wrong_text_is_named_and_the_next_call_works(ask, texts):
    """It would wait for ever for a lock of `tf.function`."""
    with pytest.raises(TypeError, match=r"` must be strings. Received: \w+\[\d\]="):
        ask(texts)
    assert len(ask(["one", "two"])) == 2


@pytest.mark.parametrize("texts", [None, 5, 0.5, {"one": "two"}])
def test_what_holds_no_texts_is_named(ask, texts):
    message = f"` must be strings. Received: {re.escape(repr(texts))}."
    with pytest.raises(TypeError, match=message):
        ask(texts)


def test_half_of_a_surrogate_pair_is_named(ask):
    with pytest.raises(ValueError, match=r"half of a surrogate pair: .*s\[1\]='a\\ud8"):
        ask(["one", "a\ud800"])


@pytest.mark.parametrize("texts", RIGHT.values(), ids=RIGHT)
def test_several_texts_come_in_any_form(ask, texts):
    assert ask(texts) == ask(["one", "two"])


@pytest.mark.parametrize(
    "text", ["ab", b"ab", np.str_("ab"), np.array("ab"), tf.constant("ab")]
)
def test_one_text_is_one_text(ask, text):
    many = getattr(ask, "translate", None) or ask.parse
    assert many(text) == many([text]) == many(["ab"])
    assert ask(text) == ask(["ab"])[0]


@pytest.mark.parametrize("text", [5, None, [["one"]], tf.constant([1])], ids=repr)
def test_a_batch_that_is_no_text_keeps_no_lock(ask, text):
    """Threads of later calls would wait for it."""
    names = ("translate_batch", "align_batch", "parse_batch")
    batches = [getattr(ask, name) for name in names if hasattr(ask, name)]
    for answer in batches:
        with pytest.raises(TypeError, match="` must be strings. Received: "):
            answer(text)
        assert [*answer("ab").values()][0].shape[0] == 1
    assert len(ask(["one", "two"])) == 2


def test_an_error_in_a_thread_reaches_its_caller(ask):
    """The next call works, whatever it was."""
    batch = "translate_batch" if hasattr(ask, "translate") else "_answers"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ask, batch, lambda text: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(["one", "two"] * 100)
    assert len(ask(["one", "two"])) == 2
