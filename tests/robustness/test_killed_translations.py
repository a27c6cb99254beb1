"""A translation that is killed and resumed gives what an undisturbed one gives."""

import sys

import pytest

from keras_transformer.serving import saved_model
from robustness import kills
from tests.small_models import make_translator


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    return saved_model.export(
        make_translator(),
        tmp_path_factory.mktemp("export"),
        signatures=["serving_default", "sample"],
    )


@pytest.mark.release
@pytest.mark.parametrize(
    ("program", "name", "kills_meanwhile"),
    [("translate", "out", 2), ("back_translate", "out.gz", 1)],
)
def test_killed_translations_are_equal(
    tmp_path, repository, version, program, name, kills_meanwhile
):
    """robustness/killed_translations.py does it with any text and model."""
    lines = [f"{number} one {'two ' * (number % 7)}" for number in range(300)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    command = [
        sys.executable,
        str(repository / f"bin/{program}.py"),
        f"--saved_model={version}",
        f"--input={tmp_path / 'in'}",
        "--batch_size=4",
    ]
    kept = kills.translate_through_kills(
        command, tmp_path / name, kills=kills_meanwhile, seed=1
    )
    # The second is too late if a translation takes hardly any time.
    assert kept == sorted(set(kept))
    assert kept


# Translates a line a run and waits for its end, or translates all.
LOSING = """
import pathlib, sys, time
output = pathlib.Path(sys.argv[1].removeprefix("--output="))
partial = output.with_name(output.name + ".partial")
journal = partial.with_name(partial.name + ".jsonl")
if "undisturbed" in output.name:
    journal.write_text("{}\\n" + "".join(f"{key}\\t1\\t[]\\n" for key in "abcdef"))
    time.sleep(0.1)
    output.write_text("a\\nb\\n")
    journal.unlink()
    sys.exit()
LEAVE
time.sleep(1)
"""
ADD = """
kept = journal.read_text() if journal.exists() else "{}\\n"
journal.write_text(f"{kept}{len(kept)}\\t1\\t[]\\n")
"""


@pytest.mark.parametrize(
    ("leave", "match"),
    [
        ("journal.write_text(f'{{}}\\n{time.time()}\\t1\\t[]\\n')", "lost finished"),
        (ADD + "partial.write_text('' if partial.exists() else 'a')", "lost lines"),
        (ADD + "partial.write_text('b')", "differs from"),
        ("journal.write_text('{}\\n' + 'a\\t1\\t[]\\n' * 2)", "translated again"),
        ("sys.exit(3)", "ended with status 3"),
    ],
)
def test_what_is_lost_or_done_twice_is_seen(tmp_path, leave, match):
    (tmp_path / "losing.py").write_text(LOSING.replace("LEAVE", leave))
    command = [sys.executable, str(tmp_path / "losing.py")]
    with pytest.raises(RuntimeError, match=match):
        kills.translate_through_kills(command, tmp_path / "out", kills=3, seed=1)
