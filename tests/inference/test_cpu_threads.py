"""TensorFlow's threads: for a few sentences others than for many."""

import os

import pytest

from keras_transformer import hardware
from keras_transformer.inference import cpu_threads
from keras_transformer.translation import exported_model

NAMES = ("TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD", "TF_NUM_INTEROP_THREADS")
SHARING = "TF_NUM_INTRAOP_THREADS"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (*NAMES, SHARING):
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards
        monkeypatch.delenv(name)


def settings():
    return [os.environ.get(name) for name in NAMES]


def test_few_sentences_have_few_threads():
    with pytest.raises(ZeroDivisionError), cpu_threads.threads_for_few_sentences(4):
        assert settings() == ["1", "1"]
        raise ZeroDivisionError
    assert settings() == [None, None]


def test_many_sentences_have_those_of_tensorflow():
    with cpu_threads.threads_for_few_sentences(5):
        assert settings() == [None, None]


def test_what_is_set_stays(monkeypatch):
    monkeypatch.setenv(NAMES[1], "5")
    with cpu_threads.threads_for_few_sentences(1):
        assert settings() == ["1", "5"]
    assert settings() == [None, "5"]


def test_on_a_gpu_nothing_changes(monkeypatch):
    monkeypatch.setattr(hardware, "has_gpu", lambda: True)
    with cpu_threads.threads_for_few_sentences(1):
        assert settings() == [None, None]


@pytest.mark.parametrize(
    ("cores", "num_batches", "at_once", "threads"),
    [
        (2, 7, 2, None),  # too few batches
        (2, 8, 2, "1"),
        (16, 8, 2, "8"),
        (16, 1000, 4, "4"),  # no more by default
        (9, 15, 3, "3"),
        (7, 1000, 4, "2"),  # rather more threads than cores
        (1, 1000, 2, None),
    ],
)
def test_many_batches_divide_the_cores(
    monkeypatch, cores, num_batches, at_once, threads
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    with cpu_threads.threads_for_batches(num_batches) as found:
        assert (found, os.environ.get(SHARING)) == (at_once, threads)
    assert SHARING not in os.environ


@pytest.mark.parametrize(
    ("asked", "threads"), [(1, None), (2, "2"), (3, "2"), (4, "1"), (5, "1")]
)
def test_batches_at_once_can_be_told(monkeypatch, asked, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)))
    with cpu_threads.threads_for_batches(1, asked) as found:
        assert (found, os.environ.get(SHARING)) == (asked, threads)


def test_batches_do_not_change_what_is_set(monkeypatch):
    monkeypatch.setenv(SHARING, "3")
    with cpu_threads.threads_for_batches(1000, 2) as found:
        assert (found, os.environ[SHARING]) == (2, "3")
    assert os.environ[SHARING] == "3"


@pytest.mark.parametrize(("asked", "at_once"), [(None, 2), (3, 3)])
def test_a_gpu_is_not_divided(monkeypatch, asked, at_once):
    monkeypatch.setattr(hardware, "has_gpu", lambda: True)
    with cpu_threads.threads_for_batches(1000, asked) as found:
        assert (found, os.environ.get(SHARING)) == (at_once, None)


def test_a_compiler_has_a_thread_of_its_own(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3})
    cpu_threads.one_more_for_a_compiler()
    assert settings() == [None, "3"]


def test_beside_a_compiler_what_is_set_stays(monkeypatch):
    monkeypatch.setenv(NAMES[1], "5")
    cpu_threads.one_more_for_a_compiler()
    assert settings() == [None, "5"]


def test_the_program_counts_its_lines(program_of, monkeypatch, tmp_path):
    def open_export(*_):
        seen.append([*settings(), os.environ.get(SHARING)])
        raise ZeroDivisionError

    monkeypatch.setattr(exported_model, "open_export", open_export)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    seen, text = [], tmp_path / "text"
    for num_lines in (4, 5, 56, 57):
        text.write_text("a\n" * num_lines)
        with pytest.raises(ZeroDivisionError):
            program_of("bin/translate.py")(
                saved_model="any", input=text, output=tmp_path / "out", batch_size=8
            )
    assert seen == [
        ["1", "1", None],
        [None, None, None],
        [None, None, None],
        [None, None, "1"],
    ]
