"""TensorFlow's threads: for a few sentences others than for many."""

import os

import pytest

from keras_transformer import hardware
from keras_transformer.inference import cpu_threads
from keras_transformer.translation import exported_model

NAMES = ("TF_ONEDNN_THREADPOOL_USE_CALLER_THREAD", "TF_NUM_INTEROP_THREADS")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards
        monkeypatch.delenv(name)


def settings():
    return [os.environ.get(name) for name in NAMES]


def test_few_sentences_have_few_threads():
    with pytest.raises(ZeroDivisionError), cpu_threads.threads_for_few_sentences(8):
        assert settings() == ["1", "1"]
        raise ZeroDivisionError
    assert settings() == [None, None]


def test_many_sentences_have_those_of_tensorflow():
    with cpu_threads.threads_for_few_sentences(9):
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
        seen.append(settings())
        raise ZeroDivisionError

    monkeypatch.setattr(exported_model, "open_export", open_export)
    seen, text = [], tmp_path / "text"
    for num_lines in (8, 9):
        text.write_text("a\n" * num_lines)
        with pytest.raises(ZeroDivisionError):
            program_of("bin/translate.py")(
                saved_model="any", input=text, output=tmp_path / "out"
            )
    assert seen == [["1", "1"], [None, None]]
