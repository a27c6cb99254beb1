"""Heat maps show the weights asked for, under the right words."""

import numpy as np
import pytest

from keras_transformer.visualization.figures import save_png
from keras_transformer.visualization.heat_map import heat_map
from tests.visualization.records import SOURCE, TARGET, make_record


def test_a_panel_a_head_with_queries_down_and_keys_across():
    record = make_record()
    figure = heat_map(record, "cross", 2, [3, 1])
    panels = [axis for axis in figure.axes if axis.get_title().startswith("head")]
    assert [panel.get_title() for panel in panels] == ["head 3", "head 1"]
    for panel, head in zip(panels, (3, 1), strict=True):
        shown = np.asarray(panel.images[0].get_array())
        np.testing.assert_array_equal(shown, record.weights["cross"][1, head - 1])
    ticks = panels[0].get_xticklabels(), panels[0].get_yticklabels()
    texts = [tuple(label.get_text() for label in labels) for labels in ticks]
    assert texts == [SOURCE, TARGET]
    assert figure.get_suptitle() == "encoder-decoder attention, layer 2 of 2"


def test_a_price_is_drawn_as_text_and_the_file_is_a_png(tmp_path):
    """ "▁$5$" would be a formula; the script that the font lacks is left out here."""
    figure = heat_map(make_record(), "encoder", 1, [1, 2, 3])
    save_png(figure, tmp_path / "new" / "attention.png")
    content = (tmp_path / "new" / "attention.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    labels = figure.axes[0].get_xticklabels()
    assert not any(label.get_parse_math() for label in labels)


@pytest.mark.parametrize(
    ("kind", "layer", "heads", "message"),
    [
        ("cross", 3, [1], "`layer` must be from 1 to 2"),
        ("cross", 0, [1], "`layer` must be from 1 to 2"),
        ("cross", 1, [1, 4], "`head` must be from 1 to 3.*head=4"),
        ("cross", 1, [], "at least one head"),
        ("crss", 1, [1], "Did you mean 'cross'"),
    ],
)
def test_what_is_not_there_is_named(kind, layer, heads, message):
    with pytest.raises(ValueError, match=message):
        heat_map(make_record(), kind, layer, heads)
