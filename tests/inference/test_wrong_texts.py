"""What is no text is named, and the next call works."""

import numpy as np
import pytest
import tensorflow as tf

from tests.small_models import make_parser, make_translator

WRONG = {
    "a list of lists": [["one"]],
    "nothing": [None],
    "a text and a number": ["one", 5],
    "an array of two axes": np.array([["one", "two"]]),
    "a tensor": tf.constant(["one"]),
}


@pytest.fixture(scope="module", params=[make_translator, make_parser])
def ask(request):
    return request.param()


@pytest.mark.parametrize("texts", WRONG.values(), ids=WRONG)
def test_a_wrong_text_is_named_and_the_next_call_works(ask, texts):
    """It would wait for ever for a lock of `tf.function`."""
    with pytest.raises(TypeError, match=r"Each text must be a string. Received as nu"):
        ask(texts)
    assert len(ask(["one", "two"])) == 2


@pytest.mark.parametrize("texts", [None, 5, 0.5])
def test_what_holds_no_texts_is_named(ask, texts):
    with pytest.raises(TypeError, match=f"`texts` must be strings. Received: {texts}"):
        ask(texts)


@pytest.mark.parametrize("text", ["ab", b"ab", np.str_("ab")])
def test_one_text_is_one_text(ask, text):
    many = getattr(ask, "translate", None) or ask.parse
    assert many(text) == many([text]) == many(["ab"])
    assert ask(text) == ask(["ab"])[0]
