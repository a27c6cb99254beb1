"""An export that is killed leaves only complete versions, and few other files."""

import sys

import pytest

from keras_transformer.opening import open_model
from keras_transformer.serving import saved_model
from robustness import kills
from tests.small_models import LINES, make_translator

EXPORT = """
import sys
from robustness.kills import export_until_killed
from tests.small_models import make_translator
export_until_killed(make_translator(), sys.argv[1])
"""


@pytest.mark.release
def test_killed_exports_leave_only_complete_versions(tmp_path, monkeypatch, repository):
    """robustness/killed_exports.py does it 20 times with any model."""
    monkeypatch.chdir(repository)
    translator = make_translator()
    left = kills.killed_at_random(
        [sys.executable, "-c", EXPORT, str(tmp_path)],
        tmp_path,
        lambda version: saved_model.check_same(translator, version, LINES),
        kills=2,
        seconds=6,
        seed=2,
    )
    assert left["unfinished"] <= 1  # each export deletes the leftovers of the last kill
    saved_model.export(translator, tmp_path, signatures=["score"])
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == left["versions"] + 1
    assert all(name.isdigit() for name in names)


@pytest.mark.long
def test_an_incomplete_version_is_detected(tmp_path):
    """The check fails for a folder with half of a model."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"half")
    with pytest.raises(ValueError, match="saved_model.pb is damaged"):
        open_model(tmp_path / "1").translate(LINES)
