"""Going on with an output that is not complete."""

import pytest

from keras_transformer.cli import resumable_output


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("", ""),
        ("0\ta\n", ""),
        ("0\ta\n0\tb\n1\tc\n1\td\n", ""),
        ("0\ta\n1\tb\n2\tc\n2\td\n3\te\n4\tf", "0\ta\n1\tb\n"),
        # Inputs 2 and 3 have no output.
        ("0\ta\n1\tb\n5\tc\n", "0\ta\n1\tb\n"),
    ],
)
def test_whole_blocks_before_the_last_are_kept(tmp_path, written, kept):
    """In blocks of two inputs, some of which have several lines."""
    path = tmp_path / "out.partial"
    path.write_text(written)
    found = resumable_output._kept(path, 2, lambda position, line: int(line[:1]))
    assert (found.lines, found.size) == (kept.count("\n"), len(kept))
    assert found.inputs == {"": 0}.get(kept, 4 if "5" in written else 2)
