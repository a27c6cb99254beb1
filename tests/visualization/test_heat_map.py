"""Heat maps show the requested weights, labeled with the right words."""

import numpy as np
import pytest

from keras_transformer.visualization.figures import save_png
from keras_transformer.visualization.heat_map import heat_map
from tests.visualization.records import SOURCE, TARGET, make_record


def test_each_head_has_a_subplot_with_queries_as_rows_and_keys_as_columns():
    record = make_record()
    figure = heat_map(record, "cross", 2, [3, 1])
    subplots = [axis for axis in figure.axes if axis.get_title().startswith("head")]
    assert [subplot.get_title() for subplot in subplots] == ["head 3", "head 1"]
    for subplot, head in zip(subplots, (3, 1), strict=True):
        shown = np.asarray(subplot.images[0].get_array())
        np.testing.assert_array_equal(shown, record.weights["cross"][1, head - 1])
    ticks = subplots[0].get_xticklabels(), subplots[0].get_yticklabels()
    texts = [tuple(label.get_text() for label in labels) for labels in ticks]
    assert texts == [SOURCE, TARGET]
    assert figure.get_suptitle() == "encoder-decoder attention, layer 2 of 2"


def test_dollar_signs_are_drawn_as_text_and_the_file_is_a_png(tmp_path):
    """Matplotlib would parse "▁$5$" as a formula.

    Only source pieces are drawn: the font lacks the Chinese character of the target.
    """
    figure = heat_map(make_record(), "encoder", 1, [1, 2, 3])
    save_png(figure, tmp_path / "new" / "attention.png")
    content = (tmp_path / "new" / "attention.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    labels = figure.axes[0].get_xticklabels()
    assert not any(label.get_parse_math() for label in labels)


@pytest.mark.parametrize(
    ("kind", "layer", "heads", "message"),
    [
        ("cross", 3, [1], "`layer` must be from 1 to 2, the number that the model has"),
        ("cross", 0, [1], "`layer` must be from 1 to 2"),
        ("cross", 1, [1, 4], "`head` must be from 1 to 3.*head=4"),
        ("cross", 1, [], "at least one head"),
        ("crss", 1, [1], "Did you mean 'cross'"),
    ],
)
def test_an_unknown_kind_layer_or_head_is_named(kind, layer, heads, message):
    with pytest.raises(ValueError, match=message):
        heat_map(make_record(), kind, layer, heads)
