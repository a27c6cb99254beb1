"""An export that is killed leaves whole versions only, and nothing for long."""

import sys

import pytest

from keras_transformer.serving import saved_model
from robustness import kills
from tests.small_models import LINES, make_translator

pytestmark = pytest.mark.long

EXPORT = """
import sys
from robustness.kills import export_until_killed
from tests.small_models import make_translator
export_until_killed(make_translator(), sys.argv[1])
"""


def test_killed_exports_leave_whole_versions_only(tmp_path, monkeypatch, repository):
    """The program does the same 20 times with a model of one's own."""
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
    assert left["unfinished"] <= 1  # each start sweeps what the kill before it left
    saved_model.export(translator, tmp_path)
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == left["versions"] + 1
    assert all(name.isdigit() for name in names)


def test_a_version_that_is_not_whole_would_be_seen(tmp_path):
    """The check fails where a kill would leave a folder with half of a model."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"half")
    with pytest.raises(ValueError, match="saved_model.pb is damaged"):
        saved_model.translate(tmp_path / "1", LINES)
