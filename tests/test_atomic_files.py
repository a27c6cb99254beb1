"""Files appear whole or not at all, and old ones stay until then."""

import contextlib
import errno
import hashlib
import os
import re
import signal
import stat
import subprocess
import sys

import pytest

from keras_transformer import atomic_files
from keras_transformer.runs.model_dir import ModelDir


class InterruptedRunError(Exception):
    """Stands for whatever ends a run in the middle."""


def disk_full(*_):
    """What the operating system says when the last block is taken."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder):
    """Everything in a folder, hidden files too."""
    return sorted(os.listdir(folder))


def test_text_is_written_as_utf_8(tmp_path):
    atomic_files.atomic_write(tmp_path / "a.txt", "Größe\n")
    assert (tmp_path / "a.txt").read_bytes() == b"Gr\xc3\xb6\xc3\x9fe\n"


def test_bytes_are_written_as_they_are(tmp_path):
    atomic_files.atomic_write(str(tmp_path / "a.bin"), b"\x00\xff\r\n")
    assert (tmp_path / "a.bin").read_bytes() == b"\x00\xff\r\n"


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("gs://bucket/x", "Mount gs:// and give the path there"),
        ("s3a://bucket/x", "Mount s3a://"),
        ("HTTPS://host/x", "Mount HTTPS://"),
        ("file:///tmp/x", "Give the path without file://."),
    ],
)
def test_a_url_is_no_path(path, remedy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for write in (
        lambda: atomic_files.atomic_write(path, "x"),
        lambda: atomic_files.atomic_folder(path).__enter__(),
        lambda: ModelDir(path),
    ):
        with pytest.raises(ValueError, match=re.escape(remedy)) as found:
            write()
        assert str(found.value).endswith(f"Received: {path}")
    assert names(tmp_path) == []


@pytest.mark.parametrize("path", ["gs:/x", "a:b", "c://x", "x/gs://y", "Wörter://x"])
def test_other_paths_may_have_colons(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    atomic_files.atomic_write(path, "x")
    assert names(tmp_path) == [path.split("/")[0]]


def test_missing_folders_are_made(tmp_path):
    atomic_files.atomic_write(tmp_path / "new" / "deep" / "a.txt", "x")
    assert (tmp_path / "new" / "deep" / "a.txt").read_text() == "x"


def test_writing_replaces_the_old_file_and_leaves_nothing_else(tmp_path):
    atomic_files.atomic_write(tmp_path / "a.txt", "old and longer")
    atomic_files.atomic_write(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path, monkeypatch):
    """When the content is flushed to disk, `path` still holds the old text."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.read_text()))
    atomic_files.atomic_write(path, "new")
    assert seen == ["old"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_else(
    tmp_path, monkeypatch, call
):
    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, call, disk_full)
    with pytest.raises(OSError, match="No space left on device"):
        atomic_files.atomic_write(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_full_disk_leaves_no_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left on device"):
        atomic_files.atomic_write(tmp_path / "a.txt", "new")
    assert names(tmp_path) == []


def test_written_files_have_the_usual_permissions(tmp_path):
    """As `open` would make them: others may read if the umask lets them."""
    previous = os.umask(0o027)
    try:
        atomic_files.atomic_write(tmp_path / "a.txt", "x")
        with atomic_files.atomic_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_the_umask_of_other_threads_is_not_touched(tmp_path, monkeypatch):
    """It belongs to the process: set for a moment, it opens their new files to all."""
    monkeypatch.setattr(os, "umask", disk_full)
    atomic_files.atomic_write(tmp_path / "a.txt", "x")
    with atomic_files.atomic_folder(tmp_path / "folder"):
        pass
    with atomic_files.folder_aside(tmp_path / "model"):
        pass


def test_a_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o600)
    atomic_files.atomic_write(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    os.chown(path, 1009, 1013)
    atomic_files.atomic_write(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1009, 1013)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_the_file_it_names_is_written(tmp_path, there):
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "a.txt", tmp_path / "link"
    if there:
        target.write_text("old")
    link.symlink_to("data/a.txt")
    atomic_files.atomic_write(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_fifo_stays_and_its_reader_gets_the_content(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    atomic_files.atomic_write(path, "new")
    assert os.read(reader, 100) == b"new"
    os.close(reader)
    assert path.is_fifo()
    assert names(tmp_path) == ["fifo"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_others_write_to_a_stream_stays(repository, tmp_path, stream):
    """Also if it is a file."""
    code = (
        "from keras_transformer import text_files\n"
        f"with text_files.line_writer('/dev/{stream}') as write:\n"
        "    write(['two'])\n"
        "    write(['three'])\n"
    )
    commands = f'(echo one; {sys.executable} -c "{code}"; echo four) > log 2>&1'
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    subprocess.run(commands, shell=True, check=True, cwd=tmp_path, env=environment)
    assert (tmp_path / "log").read_text() == "one\ntwo\nthree\nfour\n"
    assert names(tmp_path) == ["log"]


def test_a_device_stays(device):
    """Root could put a file there, and the machine would be without the device."""
    for name in ("null", "full"):
        path = device(name)
        before = path.stat()
        expected = pytest.raises(OSError, match="No space left on device: .*full")
        with expected if name == "full" else contextlib.nullcontext():
            atomic_files.atomic_write(path, "new")
        after = path.stat()
        assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


def test_a_file_in_place_of_a_folder_is_refused_and_stays(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    message = r"thesis\.txt is a file, but a folder is needed: give another path\."
    with (
        pytest.raises(NotADirectoryError, match=message),
        atomic_files.atomic_folder(path),
    ):
        raise AssertionError("It began to work.")
    with pytest.raises(NotADirectoryError, match=message):
        atomic_files.check_folder(path)
    assert path.read_text() == "years of work"


def test_a_folder_behind_a_link_is_replaced_and_keeps_its_permissions(tmp_path):
    path, link = fill_old_folder(tmp_path), tmp_path / "link"
    path.chmod(0o700)
    link.symlink_to(path)
    with atomic_files.atomic_folder(link) as aside:
        (aside / "new").write_text("n")
    assert link.is_symlink()
    assert names(path) == ["new"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_partial_file_stays_when_the_block_raises(tmp_path):
    """And the old file too; the next attempt writes over it."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    for content, left in ((b"first", b"first"), (b"2nd", b"2ndst"), (b"", b"2ndst")):
        with (
            pytest.raises(InterruptedRunError),
            atomic_files.open_whole(path, keep_partial=True) as file,
        ):
            file.write(content)
            file.flush()
            raise InterruptedRunError
        assert path.read_text() == "old"
        assert (tmp_path / "a.txt.partial").read_bytes() == left
    with atomic_files.open_whole(path, keep_partial=True) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_an_empty_partial_file_does_not_stay(tmp_path):
    with (
        pytest.raises(InterruptedRunError),
        atomic_files.open_whole(tmp_path / "a.txt", keep_partial=True),
    ):
        raise InterruptedRunError
    assert names(tmp_path) == []


def test_two_programs_do_not_write_the_same_partial_file(tmp_path):
    """The one that came first goes on as if nothing had been."""
    path = tmp_path / "a.txt"
    with atomic_files.open_whole(path, keep_partial=True) as file:
        file.write(b"first")
        file.flush()
        with (
            pytest.raises(OSError, match=r"Another program is writing .*a\.txt\.part"),
            atomic_files.open_whole(path, keep_partial=True),
        ):
            raise AssertionError("It began to work.")
    assert path.read_text() == "first"


def test_a_folder_appears_only_when_it_is_full(tmp_path):
    path = tmp_path / "deep" / "model"
    with atomic_files.atomic_folder(path) as aside:
        (aside / "weights").write_text("w")
        assert not path.exists()
        assert aside.parent.parent == path.parent
    assert (path / "weights").read_text() == "w"
    assert names(path.parent) == ["model"]


def test_a_new_folder_replaces_the_old_one_whole(tmp_path):
    """Files that only the old folder had are gone."""
    path = fill_old_folder(tmp_path)
    with atomic_files.atomic_folder(path) as aside:
        (aside / "new").write_text("n")
        assert names(path) == ["old"]
    assert names(path) == ["new"]
    assert names(tmp_path) == ["model"]


def fill_old_folder(parent):
    """A folder with one file, as an earlier run left it."""
    path = parent / "model"
    path.mkdir()
    (path / "old").write_text("o")
    return path


@pytest.mark.parametrize("error", [InterruptedRunError, KeyboardInterrupt, SystemExit])
def test_a_run_that_ends_early_keeps_the_old_folder(tmp_path, error):
    path = fill_old_folder(tmp_path)
    with pytest.raises(error), atomic_files.atomic_folder(path) as aside:
        (aside / "half").write_text("h")
        raise error
    assert (path / "old").read_text() == "o"
    assert names(tmp_path) == ["model"]


def test_a_run_that_ends_early_leaves_no_new_folder(tmp_path):
    with (
        pytest.raises(InterruptedRunError),
        atomic_files.atomic_folder(tmp_path / "model") as aside,
    ):
        (aside / "half").write_text("h")
        raise InterruptedRunError
    assert names(tmp_path) == []


@pytest.mark.parametrize("failing_rename", [1, 2])
def test_the_old_folder_stays_when_the_exchange_fails(
    tmp_path, monkeypatch, failing_rename
):
    """Whether it fails stepping the old one aside, or putting the new one there."""
    path = fill_old_folder(tmp_path)
    rename, calls = os.rename, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == failing_rename:
            disk_full()
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with (
        pytest.raises(OSError, match="No space left on device"),
        atomic_files.atomic_folder(path) as aside,
    ):
        (aside / "new").write_text("n")
    assert (path / "old").read_text() == "o"
    assert names(path) == ["old"]
    assert names(tmp_path) == ["model"]


def test_the_old_files_are_not_deleted_when_even_the_way_back_fails(
    tmp_path, monkeypatch
):
    """Then they stay where they were put aside, for a person to find."""
    path = fill_old_folder(tmp_path)
    rename, calls = os.rename, []

    def failing(source, target):
        calls.append(target)
        if len(calls) > 1:
            disk_full()
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with (
        pytest.raises(OSError, match="No space left on device"),
        atomic_files.atomic_folder(path),
    ):
        pass
    assert [found.read_text() for found in tmp_path.rglob("old")] == ["o"]


def test_sha256_is_that_of_the_contents_in_order(tmp_path):
    """The second file is longer than the block that is read at once."""
    first, second = b"subword\n", bytes(range(256)) * 4099
    (tmp_path / "first").write_bytes(first)
    (tmp_path / "second").write_bytes(second)
    paths = tmp_path / "first", tmp_path / "second"
    assert atomic_files.sha256_of(*paths) == hashlib.sha256(first + second).hexdigest()
    assert atomic_files.sha256_of(*paths[::-1]) != atomic_files.sha256_of(*paths)


def test_sha256_of_a_missing_file_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.model"):
        atomic_files.sha256_of(tmp_path / "absent.model")


def test_a_numbered_folder_takes_the_next_free_number(tmp_path):
    """Another process took number 1 while this one was being filled."""

    def next_number(parent):
        return 1 + sum(path.name.isdecimal() for path in parent.iterdir())

    with atomic_files.folder_aside(tmp_path / "new") as aside:
        (aside / "mine").touch()
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "theirs").touch()
        path = atomic_files.rename_to_number(aside, tmp_path, next_number)
    assert path == tmp_path / "2"
    assert names(path) == ["mine"]
    assert names(tmp_path) == ["1", "2"]


def test_a_number_taken_at_the_last_moment_is_not_overwritten(tmp_path):
    answers = iter([1, 2])
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "theirs").touch()
    with atomic_files.folder_aside(tmp_path / "new") as aside:
        (aside / "mine").touch()
        path = atomic_files.rename_to_number(aside, tmp_path, lambda _: next(answers))
    assert path == tmp_path / "2"
    assert (tmp_path / "1" / "theirs").exists()


def test_a_folder_that_cannot_be_filled_leaves_nothing(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        atomic_files.folder_aside(tmp_path / "new"),
    ):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


FILLING = """
import sys, time
from keras_transformer import atomic_files as files
with files.folder_aside(sys.argv[1]) as aside:
    (aside / "half").write_text("h")
    print(aside.parent, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def start_filling(repository):
    """Return what starts a process that fills a folder until it is killed."""
    started = []

    def start(path):
        command = [sys.executable, "-c", FILLING, str(path)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=repository
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_what_a_killed_process_left_goes_and_what_a_living_one_fills_stays(
    tmp_path, start_filling
):
    killed, left = start_filling(tmp_path / "new")
    _, filled = start_filling(tmp_path / "new")
    kill(killed)
    assert {f"{tmp_path}/{name}" for name in names(tmp_path)} == {left, filled}
    (tmp_path / ".new.mine").mkdir()  # a person's own folder
    with atomic_files.folder_aside(tmp_path / "new") as aside:
        atomic_files.rename_to_number(aside, tmp_path, lambda parent: 1)
    assert names(tmp_path) == sorted([os.path.basename(filled), ".new.mine", "1"])


def test_the_next_folder_in_a_place_sweeps_what_was_left_for_that_place_alone(
    tmp_path, start_filling
):
    for name in ("model", "model.2"):
        kill(start_filling(tmp_path / name)[0])
    with atomic_files.atomic_folder(tmp_path / "model.2"):
        pass
    assert [name.rpartition(".")[0] for name in names(tmp_path)] == [".model", "model"]
    atomic_files.sweep(tmp_path, ".model*")
    assert names(tmp_path) == ["model.2"]


def test_a_kill_between_the_renames_of_an_exchange_loses_nothing(
    tmp_path, start_filling
):
    """The old folder was stepped aside and the new one is not in its place yet."""
    process, left = start_filling(tmp_path / "model")
    kill(process)
    os.rename(fill_old_folder(tmp_path), f"{left}/replaced")
    atomic_files.sweep(tmp_path, ".model.*")
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["old"]


def test_without_locks_nothing_is_swept(tmp_path, monkeypatch, start_filling):
    """A file system that has none, such as some that are mounted over a network."""
    process, left = start_filling(tmp_path / "model")
    kill(process)

    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(atomic_files.fcntl, "flock", no_locks)
    with atomic_files.atomic_folder(tmp_path / "model") as aside:
        (aside / "new").write_text("n")
    assert names(tmp_path) == [os.path.basename(left), "model"]
    assert names(tmp_path / "model") == ["new"]


def test_a_folder_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    flock = atomic_files.fcntl.flock
    swept = []

    def late(file, operation):
        if not swept:
            swept.append(os.path.dirname(file.name))
            atomic_files.shutil.rmtree(swept[0])
        flock(file, operation)

    monkeypatch.setattr(atomic_files.fcntl, "flock", late)
    with atomic_files.folder_aside(tmp_path / "model") as aside:
        assert names(tmp_path) == [aside.parent.name]
        assert str(aside.parent) != swept[0]
    assert names(tmp_path) == []
