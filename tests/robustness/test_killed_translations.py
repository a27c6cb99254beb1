"""A translation that is killed and resumed gives what an undisturbed one gives."""

import sys

import pytest

from keras_transformer.serving import saved_model
from robustness import kills
from tests.small_models import make_translator


@pytest.mark.long
@pytest.mark.parametrize("name", ["out", "out.gz"])
@pytest.mark.parametrize("program", ["translate", "back_translate"])
def test_killed_translations_are_equal(tmp_path, repository, program, name):
    """robustness/killed_translations.py does it with any text and model."""
    version = saved_model.export(make_translator(), tmp_path / "export", check_texts=())
    lines = [f"{number} one {'two ' * (number % 7)}" for number in range(50)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    command = [
        sys.executable,
        str(repository / f"bin/{program}.py"),
        f"--saved_model={version}",
        f"--input={tmp_path / 'in'}",
        "--batch_size=4",
    ]
    kept = kills.translate_through_kills(command, tmp_path / name, kills=3, seed=1)
    assert len(kept) <= 3


KEPT = "key\t1\t[]\n"
# Translates one line a run, and is always killed first.
LOSING = """
import pathlib, sys, time
output = pathlib.Path(sys.argv[1].removeprefix("--output="))
if "undisturbed" in output.name: output.write_text("a"); sys.exit()
partial = output.with_name(output.name + ".partial")
partial.write_text("" if partial.exists() else "a line")
partial.with_name(partial.name + ".jsonl").write_text("{}\\n" + sys.argv[-2])
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("kept", "match"),
    [(KEPT, "A kill lost what was kept"), (KEPT * 2, "A batch was translated again")],
)
def test_what_is_lost_or_done_twice_is_seen(tmp_path, monkeypatch, kept, match):
    monkeypatch.setattr(kills.random.Random, "uniform", lambda *_: 1)
    (tmp_path / "losing.py").write_text(LOSING.replace("sys.argv[-2]", repr(kept)))
    command = [sys.executable, str(tmp_path / "losing.py")]
    with pytest.raises(RuntimeError, match=match):
        kills.translate_through_kills(command, tmp_path / "out", kills=2, seed=1)
