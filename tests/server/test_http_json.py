"""JSON of answers, made from the arrays of the model."""

import json
import math

import numpy as np
import pytest

from keras_transformer.server.http_json import json_response


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"a": np.zeros([2, 0, 3], np.float32), "b": []}, {"a": [[], []], "b": []}),
        (np.array([[[0.5, 1], [2, -3]]], np.float32), [[[0.5, 1.0], [2.0, -3.0]]]),
        (np.array([[b"\xc3\xbc", b"\xff\0"]], object), [["\u00fc", "\ufffd\0"]]),
        ([np.float32(0.5), np.int32(2), np.bool_(True), b"x"], [0.5, 2, True, "x"]),
        (
            [{"a": np.array([b"x", ""], object)}, ("y", None)],
            [{"a": ["x", ""]}, ["y", None]],
        ),
        ({"\u00fc\n": {"": "\ud800"}}, {"\u00fc\n": {"": "?"}}),
    ],
)
def test_arrays_and_their_items_are_json(content, expected):
    response = json_response(content, 201)
    assert json.loads(response.body) == expected
    assert (response.status_code, response.media_type) == (201, "application/json")


def test_numbers_that_json_lacks_are_as_in_tf_serving():
    body = json_response(np.array([[math.nan, math.inf, -math.inf]])).body
    assert body == b"[[NaN, Infinity, -Infinity]]"
