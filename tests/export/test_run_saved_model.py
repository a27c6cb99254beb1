"""The program that needs only TensorFlow runs any exported model."""

import errno
import importlib.util
import io
import os
import shutil
import subprocess
import sys

import pytest

from tests.export import shouting_model


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """An export of the fake model with the signature `serving_default`."""
    path = tmp_path_factory.mktemp("export") / "1"
    shouting_model.save(path)
    return path


@pytest.fixture(scope="module")
def program_path(repository):
    return repository / "export" / "run_saved_model.py"


@pytest.fixture(scope="module")
def program(program_path):
    """The program as a module, which tests call without importing TensorFlow again."""
    spec = importlib.util.spec_from_file_location("run_saved_model", program_path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_a_new_process_translates_with_tensorflow_only(
    program_path, saved_model, tmp_path
):
    """It runs isolated from the checkout, and its imports are checked at the end."""
    (tmp_path / "copy.py").write_bytes(program_path.read_bytes())
    (tmp_path / "lines.txt").write_text("eins\nzwei, drei\n", encoding="utf-8")
    code = (
        "import runpy, sys\n"
        "sys.argv = ['copy.py', '--saved_model', sys.argv[1], '--input', 'lines.txt']\n"
        "try:\n"
        "    runpy.run_path('copy.py', run_name='__main__')\n"
        "finally:\n"
        "    print([m for m in sys.modules if m.startswith('keras_transformer')])\n"
    )
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # the default of users
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(saved_model)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "eins",
        "  -> EINS  (-4.000)",
        "zwei, drei",
        "  -> ZWEI, DREI  (-10.000)",
        "[]",
    ]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
def test_batches_change_neither_translations_nor_their_order(
    program, saved_model, tmp_path, capsys, batch_size
):
    lines = ["a", "bb", "ccc", "dddd", "eeeee"]
    (tmp_path / "in").write_text("\n".join(lines), encoding="utf-8")
    status = run(program, saved_model, tmp_path / "in", f"--batch_size={batch_size}")
    assert status == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[::2] == lines
    assert [line.split()[1] for line in printed[1::2]] == [s.upper() for s in lines]


def run(program, saved_model, path, *flags):
    return program.main([f"--saved_model={saved_model}", f"--input={path}", *flags])


def test_a_sample_is_spread_over_the_file(program, tmp_path):
    """5 of 13 lines are at 0, 13/5, 26/5, 39/5 and 52/5, rounded down."""
    path = tmp_path / "in"
    path.write_text("\n".join(str(number) for number in range(13)), encoding="utf-8")
    assert program.read_lines(str(path), sample=5) == ["0", "2", "5", "7", "10"]
    assert len(program.read_lines(str(path), sample=None)) == 13
    assert len(program.read_lines(str(path), sample=17)) == 13


def test_lines_end_at_line_feeds_only(program, tmp_path):
    """A Unicode line separator does not split a line, and blank lines are kept."""
    path = tmp_path / "in"
    path.write_text("a\u2028b\n\nc\n", encoding="utf-8")
    assert program.read_lines(str(path), sample=None) == ["a\u2028b", "", "c"]


@pytest.mark.parametrize("content", [b"a\r\n\xc3\xa4\r\n", b"\xef\xbb\xbfa\n\xc3\xa4"])
def test_a_byte_order_mark_and_carriage_returns_are_dropped(program, tmp_path, content):
    (tmp_path / "in").write_bytes(content)
    assert program.read_lines(str(tmp_path / "in"), sample=None) == ["a", "ä"]


def test_cut_lines_are_counted(program, saved_model, tmp_path, capsys):
    (tmp_path / "in").write_text("a\n" + "b" * 29 + "\n")
    assert run(program, saved_model, tmp_path / "in") == 0
    assert capsys.readouterr().err == "1 of 2 lines were cut to the model's limit.\n"


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_a_model_with_a_missing_file_is_named(
    program, saved_model, tmp_path, capsys, name
):
    copy = shutil.copytree(saved_model, tmp_path / "1")
    (copy / "variables" / name).unlink()
    (tmp_path / "in").write_text("a")
    message = f"The model in {copy} cannot be loaded, perhaps because a file is missing"
    fails_with(program, capsys, message, copy, tmp_path / "in")


@pytest.mark.parametrize(
    ("broken", "status", "line"),
    [
        (None, 1, "standard output is closed."),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 128 + 13, ""),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            1,
            "No space left on device",
        ),
    ],
)
def test_output_that_cannot_be_written_gives_one_line_on_standard_error(
    program, saved_model, tmp_path, monkeypatch, capsys, broken, status, line
):
    class BrokenStream(io.StringIO):
        def write(self, text):
            raise broken

    (tmp_path / "in").write_text("a")
    monkeypatch.setattr(sys, "stdout", broken and BrokenStream())
    assert run(program, saved_model, tmp_path / "in") == status
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == bool(line)


def fails_with(program, capsys, message, *arguments):
    """Check that the program exits with status 1 and one line with `message`."""
    assert run(program, *arguments) == 1
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_a_missing_input_is_named(program, saved_model, tmp_path, capsys):
    path = tmp_path / "absent.txt"
    fails_with(program, capsys, f"No file {path}. Check --input.", saved_model, path)


def test_an_empty_line_is_translated(program, saved_model, tmp_path, capsys):
    path = tmp_path / "line.txt"
    path.write_text("\n")
    assert program.main(["--saved_model", str(saved_model), "--input", str(path)]) == 0
    assert capsys.readouterr().out.startswith("\n  -> ")


def test_an_empty_input_is_named(program, saved_model, tmp_path, capsys):
    path = tmp_path / "empty.txt"
    path.write_text("")
    message = f"{path} is empty: there is nothing to translate."
    fails_with(program, capsys, message, saved_model, path)


def test_input_that_is_not_utf_8_is_named_with_the_byte(
    program, saved_model, tmp_path, capsys
):
    path = tmp_path / "latin1.txt"
    path.write_bytes("Größe".encode("latin-1"))
    message = f"{path} must be UTF-8 text. Received: invalid start byte at byte 3."
    fails_with(program, capsys, message, saved_model, path)


def test_a_folder_without_a_model_is_named_with_the_remedy(program, tmp_path, capsys):
    (tmp_path / "in").write_text("a")
    message = (
        f"No saved_model.pb in {tmp_path}. Give the folder with the version number"
    )
    fails_with(program, capsys, message, tmp_path, tmp_path / "in")


def test_a_model_without_serving_default_is_rejected(program, tmp_path, capsys):
    shouting_model.save(tmp_path / "1", signature="parse")
    (tmp_path / "in").write_text("a")
    message = "must have the signature 'serving_default'. Received: parse."
    fails_with(program, capsys, message, tmp_path / "1", tmp_path / "in")


def test_a_sample_of_zero_lines_is_rejected(program, saved_model, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(program, saved_model, tmp_path / "in", "--sample=0")
    assert "must be at least 1, received 0" in capsys.readouterr().err
