"""The folder of XLA's compiled programs: whose it is, and how large it gets."""

import os
import pathlib
import types

import pytest

from keras_transformer.cli import xla_cache


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(xla_cache.FLAGS)
    return tmp_path / "cache"


def folder():
    """Return the folder that TensorFlow is told."""
    xla_cache.use()
    return pathlib.Path(xla_cache.folder())


def test_each_machine_has_a_folder_in_the_cache_of_the_user(home, monkeypatch):
    own = folder()
    assert own.is_dir()
    assert own.is_relative_to(home)
    monkeypatch.delenv(xla_cache.FLAGS)
    monkeypatch.setattr(xla_cache.hardware, "cpu_features", lambda: "another")
    assert folder() != own


def test_other_gpus_drivers_and_flags_of_xla_have_another_folder(
    home, tmp_path, monkeypatch
):
    """Hosts may share the folder of the user."""
    driver = tmp_path / "nvidia"
    monkeypatch.setattr(xla_cache, "_DRIVER", driver)
    found = [folder()]

    def look():
        monkeypatch.delenv(xla_cache.FLAGS)
        found.append(folder())

    for number, model in enumerate(["H100", "H100"]):
        information = driver / "gpus" / str(number) / "information"
        information.parent.mkdir(parents=True)
        information.write_text(f"Model: \t {model}\nGPU UUID: GPU-{number}\n")
    (driver / "version").write_text("version 1")
    look()
    information.write_text("Model: \t H100\nGPU UUID: of another host\n")
    look()
    assert found.pop() == found[-1]
    information.write_text("Model: \t H200\n")
    look()
    (driver / "version").write_text("version 2")
    look()
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    look()
    assert len({*found}) == 5


def test_other_settings_of_xla_are_kept_and_a_given_folder_is_used(monkeypatch):
    monkeypatch.setenv(xla_cache.FLAGS, "--tf_xla_cpu_global_jit")
    folder()
    first, second = os.environ[xla_cache.FLAGS].split()
    assert first == "--tf_xla_cpu_global_jit"
    given = second.rpartition("=")[0] + "=/elsewhere"
    monkeypatch.setenv(xla_cache.FLAGS, given)
    xla_cache.use()
    assert os.environ[xla_cache.FLAGS] == given


def test_the_oldest_programs_are_deleted(home, monkeypatch):
    monkeypatch.setattr(xla_cache, "_MOST_BYTES", 25)
    for age, name in enumerate(["new", "old", "oldest"]):
        path = home / "keras_transformer" / "xla" / "machine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    xla_cache.use()
    assert sorted(each.name for each in path.parent.iterdir()) == ["new", "old"]


def test_a_program_that_a_crash_left_empty_is_deleted(home):
    """TensorFlow would refuse to compile it again."""
    own = folder()
    (own / "empty").touch()
    (own / "program").write_bytes(b"whole")
    (own / "another.tmp").touch()  # a program begins to write
    os.environ.pop(xla_cache.FLAGS)
    folder()
    assert sorted(each.name for each in own.iterdir()) == ["another.tmp", "program"]


def test_the_folder_may_have_white_space(home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{home} of my own")
    own = folder()
    assert own.is_dir()
    assert own.is_relative_to(f"{home} of my own")


def a_file(home, monkeypatch):
    home.write_text("a file")


def read_only(home, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)


def full(home, monkeypatch):
    usage = types.SimpleNamespace(free=10**9 - 1)
    monkeypatch.setattr(xla_cache.shutil, "disk_usage", lambda path: usage)


def no_home(home, monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(pathlib.Path, "home", fail)


@pytest.mark.parametrize("prepare", [a_file, read_only, full, no_home])
def test_without_a_place_to_write_nothing_is_kept(prepare, home, monkeypatch):
    prepare(home, monkeypatch)
    xla_cache.use()
    assert xla_cache.folder() is None
