"""What the programs share: flags, errors in one line, the JSON summary."""

import json
import os
import platform
import signal
import subprocess
import sys

import pytest

from keras_transformer.cli import startup, xla_cache

PROGRAM = '''"""Does what its flag says."""

import os
import sys
import time

from absl import flags

from keras_transformer.cli import programs; from keras_transformer import text_files

DEEDS = ["sum", "value", "file", "full", "bug", "wait", "note", "lines", "level"]
DEEDS += ["memory", "disk", "kept"]
_DO = flags.DEFINE_enum("do", "sum", DEEDS, "What to do.")


class ResourceExhaustedError(Exception):
    """As of TensorFlow."""


def main():
    if _DO.value == "value":
        raise ValueError("`depth` must be at least 1.\\n  Received: depth=0.")
    if _DO.value == "file":
        open("/no/such/file")
    if _DO.value == "full":
        raise OSError(28, "No space left on device")
    if _DO.value == "bug":
        raise KeyError("a defect")
    if _DO.value == "memory":
        raise ResourceExhaustedError("OOM when allocating, " + "and so on, " * 99)
    if _DO.value == "disk":
        raise ResourceExhaustedError("/a/file; No space left on device")
    if _DO.value == "kept":
        raise ResourceExhaustedError("/kept/one.tmp; No space left on device")
    if _DO.value == "level":
        print(os.environ.get("TF_CPP_MIN_LOG_LEVEL"))
    if _DO.value == "wait":
        try:
            print("waiting", flush=True)
            time.sleep(60)
        finally:
            print("cleaned up", flush=True)
    if _DO.value == "note":
        error = SystemExit(143)
        error.add_note("a.partial keeps the first 7 lines.")
        raise error
    if _DO.value == "lines":
        with text_files.line_writer(None) as write:
            for _ in range(10_000):
                write(["a line"])
    print("working")
    return {"total": 7, "name": "Wörter"}


def run():
    programs.run(main)


if __name__ == "__main__":
    run()
'''


@pytest.fixture
def program(tmp_path, repository):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")

    def start(*arguments, script="program.py", variables=(), **options):
        return subprocess.Popen(
            [sys.executable, str(tmp_path / script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                "PYTHONPATH": f"{repository}:{tmp_path}",
                "PYTHONUTF8": "1",
                **dict(variables),
            },
            **options,
        )

    return start


def outcome(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_summary_is_the_last_line_where_asked(program):
    code, out, _ = outcome(program("--json"))
    assert code == 0
    first, last = out.splitlines()
    assert first == "working"
    assert json.loads(last) == {"total": 7, "name": "Wörter"}


def test_summary_is_not_printed_unasked(program):
    assert outcome(program()) == (0, "working\n", "")


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("value", "`depth` must be at least 1. Received: depth=0."),
        ("file", "No such file or directory: /no/such/file"),
        ("full", "[Errno 28] No space left on device"),
    ],
)
def test_bad_input_ends_in_one_line_and_exit_code_one(program, what, line):
    assert outcome(program(f"--do={what}")) == (1, "", f"program.py: {line}\n")


def test_what_does_not_fit_into_memory_ends_in_one_line(program):
    line = "program.py: out of memory: end other programs on this device (OOM when all"
    code, out, err = outcome(program("--do=memory"))
    assert (code, out) == (1, "")
    assert err.startswith(line) and len(err) < 300 and err.count("\n") == 1


def test_a_full_disk_keeps_its_traceback_unless_it_is_that_of_kept_programs(program):
    assert "Traceback" in outcome(program("--do=disk"))[2]
    kept = {xla_cache.FLAGS: "--tf_xla_persistent_cache_directory=/kept"}
    err = outcome(program("--do=kept", variables=kept))[2]
    assert err == (
        "program.py: programs of XLA cannot be kept in /kept (/kept/one.tmp; No space "
        "left on device). Make room on that disk, or delete the folder.\n"
    )


def test_where_bad_input_was_found_is_shown_where_asked(program):
    code, _, err = outcome(program("--do=value", "--verbosity=1"))
    assert code == 1
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("program.py: `depth` must be")


def test_defect_keeps_its_traceback(program):
    code, _, err = outcome(program("--do=bug"))
    assert code != 0
    assert "Traceback" in err and "KeyError: 'a defect'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--do=dance"], "flag --do=dance: value should be one of <sum|value|"),
        (["--jsno"], "Unknown command line flag 'jsno'. Did you mean: json ? (see"),
        (["sum"], "unexpected argument 'sum'; flags begin with --."),
    ],
)
def test_wrong_flag_ends_in_one_line(program, arguments, message):
    code, out, err = outcome(program(*arguments))
    assert (code, out) == (1, "")
    assert err.startswith(f"program.py: {message}")
    assert err.count("\n") == 1


def test_flagfile_is_read(program, tmp_path):
    (tmp_path / "flags").write_text("--do=value\n")
    code, _, err = outcome(program(f"--flagfile={tmp_path / 'flags'}"))
    assert code == 1 and "`depth`" in err


def test_help_shows_the_program_and_its_flags(program):
    code, out, _ = outcome(program("--help"))
    assert code == 0
    assert "Does what its flag says." in out
    assert "--do:" in out and "json: Print a summary" in out


def test_help_is_the_same_from_a_console_script(program, tmp_path):
    (tmp_path / "kt-program").write_text("import program\nprogram.run()\n")
    code, out, _ = outcome(program("--help", script="kt-program"))
    assert code == 0
    assert "Does what its flag says." in out
    assert "--do:" in out and "json: Print a summary" in out


def test_an_error_is_followed_by_its_notes(program):
    line = "program.py: a.partial keeps the first 7 lines.\n"
    assert outcome(program("--do=note")) == (143, "", line)


@pytest.mark.parametrize("do", ["sum", "lines"])
def test_a_reader_that_went_away_ends_the_program_quietly(program, do):
    """Whether the pipe breaks during the work, or when output is flushed at the end."""
    process = program(f"--do={do}")
    process.stdout.close()
    process.stdout = None
    assert outcome(process) == (128 + 13, None, "")


def test_a_full_disk_behind_standard_output_ends_in_one_line(tmp_path, repository):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert from_shell(tmp_path, repository, ">/dev/full") == (
        1,
        "program.py: [Errno 28] No space left on device\n",
    )


def from_shell(folder, repository, redirection):
    """Run the program with redirected streams; return its status and errors."""
    ended = subprocess.run(
        f"{sys.executable} program.py {redirection}",
        shell=True,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(repository)},
    )
    return ended.returncode, ended.stderr


def test_a_closed_standard_output_is_refused(tmp_path, repository):
    """Before hours of work, and before another file gets its number."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    line = "program.py: standard output is closed. Redirect it, perhaps to /dev/null.\n"
    assert from_shell(tmp_path, repository, ">&-") == (1, line)
    assert from_shell(tmp_path, repository, ">&- 2>&-") == (1, "")


def test_without_standard_error_errors_are_not_among_the_results(tmp_path, repository):
    """Python prints to standard output what is for a closed standard error."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert from_shell(tmp_path, repository, "--do=value 2>&- >out") == (1, "")
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_request_to_end_lets_the_program_clean_up(program, number):
    # `nohup`, which a test run may be under, passes an ignored SIGHUP on.
    process = program(
        "--do=wait", preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    assert outcome(process) == (128 + number, "cleaned up\n", "")


def test_what_nohup_has_ignored_stays_ignored(program):
    process = program(
        "--do=wait", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGHUP)
    process.terminate()
    assert outcome(process) == (128 + signal.SIGTERM, "cleaned up\n", "")


def test_interrupt_lets_the_program_clean_up(program):
    # A shell's background job, as a test run may be, passes an ignored SIGINT on.
    process = program(
        "--do=wait", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    assert outcome(process) == (128 + 2, "cleaned up\n", "")


IMPORT = (
    "import sys\n"
    "from keras_transformer.cli import startup\n"
    "startup.import_tensorflow()\n"
    "assert 'matplotlib' not in sys.modules\n"
    "import matplotlib.pyplot, tensorflow as tf\n"
    "tf.ones(2) + 1\n"
    "tf.get_logger().warning('5 out of the last 5 calls')\n"
    "print('ours', file=sys.stderr)\n"
)


@pytest.mark.parametrize(("given", "expected"), [(None, "true"), ("false", "false")])
def test_memory_of_a_gpu_grows_unless_it_is_told_otherwise(
    given, expected, monkeypatch
):
    monkeypatch.delenv("TF_FORCE_GPU_ALLOW_GROWTH", raising=False)
    if given:
        monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", given)
    startup.import_tensorflow()
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == expected


@pytest.mark.parametrize("compiles", [True, False])
def test_programs_that_compile_keep_what_they_compile(compiles, monkeypatch):
    monkeypatch.delenv(xla_cache.FLAGS)
    startup.import_tensorflow(compiles=compiles)
    assert (xla_cache.folder() is not None) is compiles


@pytest.mark.parametrize("level", [None, pytest.param("0", marks=pytest.mark.long)])
def test_tensorflow_is_imported_fast_and_says_nothing_unless_it_is_asked(level):
    """Keras does not find Matplotlib, a second of each start; our own pictures do."""
    environment = {**os.environ, startup.LOG_LEVEL: level}
    if level is None:
        del environment[startup.LOG_LEVEL]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    if level is None:
        assert done.stderr == "ours\n"
    else:
        assert "cpu_feature_guard" in done.stderr
        assert "5 out of the last 5 calls" in done.stderr


@pytest.mark.parametrize(
    ("level", "kept"),
    [("0", "NIWEF"), ("1", "WEF"), ("2", "EF"), ("3", "F"), ("x", "NIWEF")],
)
def test_lines_of_loading_are_kept_by_level_and_others_always(
    level, kept, monkeypatch, capfd
):
    monkeypatch.setenv(startup.LOG_LEVEL, level)
    notice = "WARNING: All log messages before absl::InitializeLog() is called are"
    lines = {
        "N": notice,
        **{kind: f"{kind}0000 00:00:1 port.cc:1] a" for kind in "IWEF"},
    }
    with startup._log_level_kept():
        os.write(2, "".join(f"{line}\n" for line in lines.values()).encode())
        os.write(2, b"Ill: a warning of ours\n")
    os.write(2, b"after\n")
    wanted = [*(lines[kind] for kind in kept), "Ill: a warning of ours", "after"]
    assert capfd.readouterr().err.splitlines() == wanted


def test_the_line_that_says_why_loading_ended_the_process_is_printed():
    code = (
        "import os\n"
        "from keras_transformer.cli import startup\n"
        "os.environ[startup.LOG_LEVEL] = '3'\n"
        "with startup._log_level_kept():\n"
        "    os.write(2, b'I0000 00:00:1 1 a.cc:1] loading\\nF0000 no AVX here\\n')\n"
        "    os.abort()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr == "F0000 no AVX here\n"


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ([], None),
        (["--verbosity=1"], "0"),
        (["--verbosity=-1"], "1"),
        (["--verbosity=-3"], "3"),
    ],
)
def test_verbosity_decides_what_tensorflow_says(program, arguments, level):
    code, out, _ = outcome(program("--do=level", *arguments))
    assert (code, out.splitlines()[0]) == (0, str(level))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN is measured on x86")
@pytest.mark.parametrize(
    "given, used", [({}, "1"), ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "0")]
)
def test_onednn_is_used_unless_it_is_turned_off(given, used):
    """And that is said before TensorFlow is imported, which reads it then."""
    code = (
        "import os, sys, keras_transformer\n"
        "assert 'tensorflow' not in sys.modules\n"
        f"assert os.environ['TF_ENABLE_ONEDNN_OPTS'] == '{used}'\n"
    )
    inherited = {**os.environ}
    inherited.pop("TF_ENABLE_ONEDNN_OPTS", None)
    subprocess.run([sys.executable, "-c", code], env=inherited | given, check=True)
