"""Lines are read whatever their ends, and written as they come."""

import gzip
import io
import os
import sys
import types

import pytest

from keras_transformer import text_files

MARK = "\ufeff".encode()


def standard_stream(content=b""):
    """Stands for sys.stdin or sys.stdout."""
    return types.SimpleNamespace(buffer=io.BytesIO(content), flush=lambda: None)


@pytest.fixture(params=["in memory", "stored"])
def read(request):
    """Reads all lines, in either way."""
    if request.param == "in memory":
        return text_files.read_lines
    return lambda path: list(text_files.StoredLines(path))


@pytest.mark.parametrize(
    "content",
    [
        b"a b\n\xc3\xa4\n",
        b"a b\n\xc3\xa4",
        MARK + b"a b\n\xc3\xa4\n",
        b"a b\r\n\xc3\xa4\r\n",
        MARK + b"a b\r\n\xc3\xa4\r",
    ],
)
@pytest.mark.parametrize("kind", ["plain", "packed", "standard input"])
def test_a_byte_order_mark_and_line_ends_are_no_text(
    tmp_path, monkeypatch, content, kind, read
):
    if kind == "standard input":
        monkeypatch.setattr(sys, "stdin", standard_stream(content))
        path = None
    else:
        path = tmp_path / ("text.gz" if kind == "packed" else "text")
        path.write_bytes(gzip.compress(content) if kind == "packed" else content)
    assert read(path) == ["a b", "ä"]


def test_a_byte_order_mark_in_another_line_is_text(tmp_path, read):
    """There it is a zero-width space, which is for the tokenizer to judge."""
    (tmp_path / "text").write_bytes(b"a\n" + MARK + b"b\n")
    assert read(tmp_path / "text") == ["a", "\ufeffb"]


def test_lines_end_at_line_feeds_only(tmp_path, read):
    (tmp_path / "text").write_text("a\u2028b\x0cc\n\nd\n", encoding="utf-8")
    assert read(tmp_path / "text") == ["a\u2028b\x0cc", "", "d"]


def test_a_fifo_is_read(tmp_path):
    """As `--input=<(command)` gives one."""
    os.mkfifo(tmp_path / "fifo")
    with open(tmp_path / "fifo", "wb+", buffering=0) as writer:
        writer.write(b"a\nb\n")
        reader = text_files.iterate_lines(tmp_path / "fifo")
        assert [next(reader), next(reader)] == [b"a", b"b"]


@pytest.mark.parametrize("has_ends", [False, True])
def test_stored_lines_are_read_again(tmp_path, monkeypatch, has_ends):
    """Also of standard input, and after an iterator that stopped early."""
    content = b"a\r\nb\n\nc"
    (tmp_path / "text").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", standard_stream(content))
    expected = ["a\r\n", "b\n", "\n", "c"] if has_ends else ["a", "b", "", "c"]
    for path in (tmp_path / "text", None):
        lines = text_files.StoredLines(path, has_ends=has_ends)
        assert len(lines) == 4
        assert next(iter(lines)) == expected[0]
        assert [list(lines), list(lines)] == [expected, expected]


def test_stored_lines_that_change_are_told(tmp_path):
    path = tmp_path / "text"
    path.write_text("a\nb\n")
    lines = text_files.StoredLines(path)
    path.write_text("a\nb\nc\n")
    with pytest.raises(OSError, match=r"text has changed while it was read\. Begin"):
        list(lines)
    path.write_text("a\n")
    with pytest.raises(OSError, match="changed"):
        list(lines)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"plain text", "Not a gzipped file"),
        (gzip.compress(b"a b c d\n" * 1009)[:-11], "Compressed file ended before"),
        (gzip.compress(b"")[:10] + b"\xff" * 20, "Error -3 while decompressing"),
    ],
    ids=["plain", "cut", "damaged"],
)
def test_a_damaged_gzip_file_is_named(tmp_path, content, reason, read):
    (tmp_path / "text.gz").write_bytes(content)
    message = rf"text\.gz is not a complete gzip file: {reason}.* Compress it again, or"
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "text.gz")


def test_a_line_in_another_encoding_is_named(tmp_path, read):
    (tmp_path / "text").write_bytes("a\nGröße\n".encode("latin-1"))
    message = r"text, line 2, is not valid UTF-8: .* at byte 3\. Convert it"
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "text")


@pytest.mark.parametrize("name", ["lines", "lines.gz", "LINES.GZ"])
@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
def test_text_in_utf_16_is_named(tmp_path, read, encoding, name):
    content = "\nA dog runs.\nZwei Hunde.\n".encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if "." in name else content)
    with pytest.raises(ValueError, match=f"{name}, line ., is in UTF-16.*iconv"):
        read(path)


def test_a_nul_is_a_character_of_utf_8(tmp_path, read):
    path = tmp_path / "lines"
    path.write_bytes(b"\0\nA\0dog runs.\n")
    assert list(read(path)) == ["\0", "A\0dog runs."]


def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(FileNotFoundError, match=r"No file .*absent\."):
        read(tmp_path / "absent")


def test_a_closed_standard_input_is_named(monkeypatch, read):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match=r"^Standard input is closed\. Give a file to re"):
        read(None)


def test_a_closed_standard_output_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with (
        pytest.raises(OSError, match=r"^Standard output is closed\. Give a file to wr"),
        text_files.line_writer(None),
    ):
        raise AssertionError("It began to work.")


def test_lines_reach_standard_output_as_they_come(monkeypatch):
    stream = standard_stream()
    monkeypatch.setattr(sys, "stdout", stream)
    with text_files.line_writer(None) as write:
        write(["a", "ä"])
        assert stream.buffer.getvalue() == b"a\n\xc3\xa4\n"
        write(iter(["b"]))
    assert stream.buffer.getvalue() == b"a\n\xc3\xa4\nb\n"


def test_lines_reach_the_partial_file_as_they_come(tmp_path):
    path, partial = tmp_path / "out", tmp_path / "out.partial"
    path.write_text("old")
    with text_files.line_writer(path) as write:
        write(["a", "ä"])
        assert (path.read_text(), partial.read_bytes()) == ("old", b"a\n\xc3\xa4\n")
        write(["b"])
    assert path.read_text(encoding="utf-8") == "a\nä\nb\n"
    assert not partial.exists()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_writer_says_what_it_keeps(tmp_path, error):
    with (
        pytest.raises(error) as found,
        text_files.line_writer(tmp_path / "out") as write,
    ):
        write(["a", "b"])
        write(["c"])
        raise error
    partial = tmp_path / "out.partial"
    assert found.value.__notes__ == [f"{partial} keeps the first 3 lines."]
    assert partial.read_text() == "a\nb\nc\n"


@pytest.mark.parametrize("write_first", [True, False])
def test_what_keeps_nothing_says_nothing(tmp_path, monkeypatch, write_first):
    """A file without lines yet; standard output, whose lines are with its reader."""
    monkeypatch.setattr(sys, "stdout", standard_stream())
    path = None if write_first else tmp_path / "out"
    with pytest.raises(ValueError) as found, text_files.line_writer(path) as write:
        if write_first:
            write(["a"])
        raise ValueError
    assert not hasattr(found.value, "__notes__")


def test_a_full_disk_names_the_file(device):
    with (
        pytest.raises(OSError, match=r"No space left on device: .*full"),
        text_files.line_writer(device("full")) as write,
    ):
        write(["a"])


def test_a_fifo_without_reader_is_named(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with (
        pytest.raises(BrokenPipeError, match=r"Broken pipe: .*fifo"),
        text_files.line_writer(path) as write,
    ):
        os.close(reader)
        write(["a"])
    assert path.is_fifo()
