"""Bulk translation on Apache Beam: shards in input order, resumable, never mixed."""

import contextlib
import gzip
import json
import logging
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import tensorflow as tf

from keras_transformer import atomic_files
from keras_transformer.documents.protection import Protection, Term
from keras_transformer.opening import open_model
from keras_transformer.serving import bulk_translation
from keras_transformer.serving import saved_model as saved_model_lib
from keras_transformer.translation import exported_model
from keras_transformer.translation.pipeline import Options, translate_in_batches
from keras_transformer.translation.sampling import Sampling
from tests.small_models import LINES, make_translator

# Beam accepts options with and without "=".
WORKERS = [
    *("--runner", "DirectRunner"),
    *("--direct_num_workers=2", "--direct_running_mode=multi_processing"),
]
ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """An export with one signature, which loads faster."""
    return saved_model_lib.export(
        make_translator(),
        tmp_path_factory.mktemp("export"),
        signatures=["serving_default"],
    )


@pytest.fixture(scope="module")
def lines():
    """Lines of mixed length, some blank, some over the limit of 23 tokens."""
    draw = random.Random(5)
    words = " ".join(LINES).split()
    drawn = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(20)]
    return [*drawn[:7], "", "  ", "Ein\u2028Hund\t läuft. " * 9, *drawn[7:]]


@pytest.fixture(scope="module")
def translations(saved_model, lines):
    """The translations of `bin/translate.py`."""
    return open_model(saved_model).translate(lines)


@pytest.fixture(scope="module")
def input_path(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("input") / "lines"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, saved_model, input_path):
    """The output folder of a run of the program with two workers, and its result."""
    folder = tmp_path_factory.mktemp("finished")
    result = run_program(
        *WORKERS,
        f"--saved_model={saved_model}",
        f"--input={input_path}",
        f"--output={folder / 'out'}",
        "--lines_per_shard=5",
        "--batch_size=3",
        "--json",
    )
    return folder, result


@pytest.fixture
def output_dir(finished, tmp_path):
    """A copy of the finished shards, which a test may change."""
    return shutil.copytree(finished[0], tmp_path / "copy")


def run_program(*arguments, code=None):
    program = ["-c", code] if code else [ROOT / "export" / "translate_beam.py"]
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # the default of users
    return subprocess.run(
        [sys.executable, *program, *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
    )


def translate(model, input_path, output, *arguments, **options):
    values = {"lines_per_shard": 5, "batch_size": 3, **options}
    config = bulk_translation.BeamTranslationConfig(
        str(model), str(input_path), str(output), **values
    )
    return bulk_translation.translate(
        config, bulk_translation.parse_options(list(arguments))
    )


def texts_of(translations):
    return [translation.text for translation in translations]


def truncated_lines(translations):
    """Return the numbers of the truncated lines."""
    return [
        str(number)
        for number, translation in enumerate(translations, start=1)
        if translation.truncated
    ]


def joined(folder, name="out"):
    """Return the lines of all shards, joined as by `cat`."""
    paths = sorted(folder.glob(f"{name}-*-of-*"))
    return "".join(path.read_text() for path in paths).split("\n")[:-1]


def test_concatenated_shards_are_the_translations_in_input_order(
    finished, translations
):
    """23 lines in shards of 5, translated by two workers in batches of 3."""
    folder, result = finished
    names = [f"out-{number:05d}-of-00005" for number in range(5)]
    others = {path.name for path in folder.iterdir()}.difference(names)
    assert {name.partition("-")[0] for name in others} == {
        "out.manifest.json",
        "out.truncated",
    }
    assert joined(folder) == texts_of(translations)
    assert joined(folder, "out.truncated") == truncated_lines(translations)
    sizes = [len((folder / name).read_text().split("\n")) - 1 for name in names]
    assert sizes == [5, 5, 5, 5, 3]
    first, last = result.stdout.splitlines()
    assert first.startswith("23 lines in 5 shards, ")
    assert first.endswith("out-*-of-*; 0 existed and were skipped")
    assert json.loads(last) == {
        "lines": 23,
        "shards": 5,
        "skipped_shards": 0,
        "truncated": len(truncated_lines(translations)),
    }
    cut = len(truncated_lines(translations))
    message = f"{cut} of 23 sources were cut to the model's limit."
    assert message in result.stderr


def test_workers_print_no_messages_of_tensorflow(finished):
    """Beam's own messages remain: workers print them before they read options."""
    _, result = finished
    others = [
        line
        for line in result.stderr.splitlines()
        if not line.startswith(("WARNING:root:apitools", "INFO:__main__:Logging"))
    ]
    assert len(others) == 1 and "sources were cut to the model's limit" in others[0]


def test_only_missing_shards_are_translated(
    saved_model, input_path, output_dir, translations
):
    (output_dir / "out-00001-of-00005").unlink()
    before = {path: path.stat().st_mtime_ns for path in output_dir.glob("out-*")}
    summary = translate(saved_model, input_path, output_dir / "out")
    cut = len(truncated_lines(translations))
    assert cut > 0
    assert summary == {"lines": 23, "shards": 5, "skipped_shards": 4, "truncated": cut}
    after = {path: path.stat().st_mtime_ns for path in output_dir.glob("out-*")}
    assert set(after) - set(before) == {output_dir / "out-00001-of-00005"}
    assert before.items() <= after.items()
    assert joined(output_dir) == texts_of(translations)


def test_without_missing_shards_the_pipeline_does_not_run(
    saved_model, input_path, output_dir, monkeypatch
):
    monkeypatch.setattr(bulk_translation, "run_pipeline", None)
    summary = translate(saved_model, input_path, output_dir / "out", batch_size=7)
    assert summary["skipped_shards"] == summary["shards"] == 5


def test_several_files_are_one_input(saved_model, tmp_path, lines, translations):
    """Shards span several files, also after a file without a final line feed."""
    (tmp_path / "part-1").write_text("\n".join(lines[:10]), encoding="utf-8")
    with gzip.open(tmp_path / "part-2.GZ", "wt", encoding="utf-8") as file:
        file.write("".join(f"{line}\r\n" for line in lines[10:21]))
    (tmp_path / "part-3").write_bytes(b"")
    (tmp_path / "part-4").write_text("\n".join(lines[21:] + [""]), encoding="utf-8")
    output = tmp_path / "new" / "out"
    summary = translate(
        saved_model, tmp_path / "part-*", output, lines_per_shard=11, batch_size=64
    )
    assert summary["shards"] == 3
    assert joined(tmp_path / "new") == texts_of(translations)


def test_the_index_has_the_byte_offsets_of_shards(tmp_path):
    """File 1 has the lines "ä" (2 bytes), "b" and "cc"; file 2 has "d"."""
    (tmp_path / "1").write_text("ä\nb\ncc", encoding="utf-8")
    (tmp_path / "2").write_text("d\n", encoding="utf-8")
    first, second = (str(tmp_path / name) for name in "12")
    index = bulk_translation.index_lines([first, second], 2)
    assert index.num_lines == 4
    assert index.ranges == (
        (bulk_translation.LineRange(first, 0, 1, 2),),
        (
            bulk_translation.LineRange(first, 5, 3, 1),
            bulk_translation.LineRange(second, 0, 1, 1),
        ),
    )
    read = [
        bulk_translation.read_shard(bulk_translation.Shard("", "", 1, ranges))[1]
        for ranges in index.ranges
    ]
    assert read == [["ä", "b"], ["cc", "d"]]
    (tmp_path / "2").write_bytes(b"")
    with pytest.raises(ValueError, match="2 became shorter during the translation"):
        bulk_translation.read_shard(bulk_translation.Shard("", "", 1, index.ranges[1]))


def test_names_of_many_shards_sort_in_input_order():
    paths = bulk_translation.shard_paths("out", 100_001)
    assert paths[0] == "out-000000-of-100001"
    assert sorted(paths) == paths


def test_a_shard_that_cannot_be_written_leaves_no_file(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bulk_translation.FileSystems, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        bulk_translation.atomic_write(str(tmp_path / "out"), "text")
    assert not list(tmp_path.iterdir())


def test_another_input_is_rejected(saved_model, tmp_path, output_dir, lines):
    path = tmp_path / "lines"
    path.write_text("\n".join(["one", *lines[1:]]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"another run: input_sha256 in .*Choose anot"):
        translate(saved_model, path, output_dir / "out")


def test_another_shard_size_is_rejected(saved_model, input_path, output_dir):
    with pytest.raises(
        ValueError, match=r"run: lines_per_shard, shards in .*json must"
    ):
        translate(saved_model, input_path, output_dir / "out", lines_per_shard=7)


def test_another_model_is_rejected(saved_model, input_path, tmp_path, output_dir):
    other = shutil.copytree(saved_model, tmp_path / "model")
    (weights,) = other.glob("variables/*.data-*")
    content = bytearray(weights.read_bytes())
    content[100] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"another run: saved_model_sha256 in"):
        translate(other, input_path, output_dir / "out")


def test_shards_without_a_manifest_are_rejected(saved_model, input_path, output_dir):
    (output_dir / "out.manifest.json").write_text("[")
    with pytest.raises(ValueError, match=r"manifest.json is damaged. Choose another"):
        translate(saved_model, input_path, output_dir / "out")
    (output_dir / "out.manifest.json").unlink()
    with pytest.raises(ValueError, match=r"out-\* exist without a manifest .*json, so"):
        translate(saved_model, input_path, output_dir / "out")
    for path in output_dir.glob("out-*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"out.truncated-\* exist without a manifest "):
        translate(saved_model, input_path, output_dir / "out")


def test_a_folder_that_cannot_be_written_is_named(saved_model, input_path, tmp_path):
    with pytest.raises(NotADirectoryError, match="lines"):
        translate(saved_model, input_path, input_path / "folder" / "out")


def test_wrong_models_are_named(saved_model, input_path, tmp_path):
    with pytest.raises(FileNotFoundError, match="No saved_model.pb in .*absent. Give"):
        translate(tmp_path / "absent", input_path, tmp_path / "out")
    tf.saved_model.save(tf.Module(), tmp_path / "other")
    with pytest.raises(ValueError, match="signature 'serving_default'. Received: none"):
        translate(tmp_path / "other", input_path, tmp_path / "out")
    atomic_files.atomic_write(tmp_path / "other" / "saved_model.pb", b"\xff" * 7)
    with pytest.raises(ValueError, match="saved_model.pb is damaged: export the model"):
        translate(tmp_path / "other", input_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent", None, r"No file .*absent. Check --input."),
        ("empty", b"", r"empty is empty: there is nothing to translate."),
        ("latin", b"a\nL\xe4ufer\n", r"latin, line 2, is not valid UTF-8"),
        ("wide", "a\nb\n".encode("utf-16"), r"wide, line 1, is in UTF-16"),
        ("no.gz", b"plain", r"no.gz is not a complete .gz file: Not a gzipped file"),
        (
            "cut.gz",
            gzip.compress(b"a\n", mtime=0)[:-9],
            r"cut.gz is not a complete .gz file: ",
        ),
    ],
)
def test_wrong_input_is_named(saved_model, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        translate(saved_model, tmp_path / name, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("name", ["lines_per_shard", "batch_size"])
def test_sizes_below_one_are_rejected(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
        bulk_translation.BeamTranslationConfig("m", "i", "o", **{name: 0})


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--linse=3", "'--linse=3' is not an option of this program or of Apache Beam"),
        ("lines", "'lines' is not an option of this program or of Apache Beam"),
        ("--direct_num_workers=two", "Beam reports: argument --direct_num_workers"),
    ],
)
def test_wrong_options_are_named(argument, message):
    with pytest.raises(ValueError, match=message):
        bulk_translation.parse_options([argument])


def test_a_runner_that_cannot_be_imported_is_named(monkeypatch):
    with pytest.raises(ValueError, match=r"--runner=absent.Runner needs absent. For D"):
        bulk_translation.parse_options(["--runner=absent.Runner"])
    monkeypatch.setitem(sys.modules, "apache_beam.runners.dask.dask_runner", None)
    with pytest.raises(ValueError, match=r"For Dask install keras_transformer\[beam\]"):
        bulk_translation.parse_options(["--runner=DaskRunner"])


@pytest.mark.parametrize(
    ("argument", "size"), [("--runner=dask", 1), ("--dask_partition_size=7", 7)]
)
def test_dask_takes_one_shard_at_a_time_by_default(argument, size):
    options = bulk_translation.parse_options(["--runner=DaskRunner", argument])
    from apache_beam.runners.dask.dask_runner import DaskOptions

    assert options.view_as(DaskOptions).partition_size == size


def test_shards_that_a_runner_lost_are_named(
    saved_model, input_path, tmp_path, monkeypatch
):
    monkeypatch.setattr(bulk_translation, "run_pipeline", lambda *arguments: None)
    with pytest.raises(
        RuntimeError, match=r"but 5 shards are missing, such as .*out-00"
    ):
        translate(saved_model, input_path, tmp_path / "out")


# Records each load of a model in a worker; Dask may run this twice in a process.
COUNT_LOADS = """
    import os
    from keras_transformer.translation import exported_model as exported

    def load(*arguments, load=getattr(exported, "uncounted", exported.open_export)):
        with open({path!r}, "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        return load(*arguments)

    exported.uncounted = load.__kwdefaults__["load"]
    exported.open_export = load
"""


@contextlib.contextmanager
def started(*arguments, **options):
    """Run a Dask command in its own process group, and kill it at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **options,
    )
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(condition, process):
    """Wait until a condition holds or a process has ended; time out after 300 s."""
    end = time.monotonic() + 300
    while not condition() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_cluster_finishes_after_a_worker_was_killed(saved_model, lines, tmp_path):
    """1,000 lines on a Dask scheduler and two workers, one killed in the middle."""
    draw = random.Random(7)
    many = [draw.choice(lines) for _ in range(1000)]
    wanted = open_model(saved_model).translate(many)
    (tmp_path / "lines").write_text("\n".join(many) + "\n", encoding="utf-8")
    loads, preload = tmp_path / "loads", tmp_path / "count_loads.py"
    preload.write_text(textwrap.dedent(COUNT_LOADS.format(path=str(loads))))
    scheduler_file, folder = tmp_path / "scheduler.json", tmp_path / "made"

    def shards():
        return list(folder.glob("out-*-of-*"))

    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            started(
                *("scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard"),
                f"--scheduler-file={scheduler_file}",
            )
        )
        wait_for(scheduler_file.exists, scheduler)
        address = json.loads(scheduler_file.read_text())["address"]
        workers = [
            stack.enter_context(
                started(
                    *("worker", address, "--nthreads=1", "--no-dashboard"),
                    *(f"--preload={preload}", f"--local-directory={tmp_path}"),
                )
            )
            for _ in range(2)
        ]
        program = stack.enter_context(
            subprocess.Popen(
                [
                    *(sys.executable, ROOT / "export" / "translate_beam.py", "--json"),
                    *(f"--saved_model={saved_model}", f"--input={tmp_path / 'lines'}"),
                    *(f"--output={folder / 'out'}", "--lines_per_shard=20"),
                    *("--runner=DaskRunner", f"--dask_client_address={address}"),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(program.kill)  # it waits for workers for ever
        wait_for(lambda: len(shards()) > 5, program)
        done = {path: path.stat().st_mtime_ns for path in shards()}
        kill_group(workers[0])
        output, _ = program.communicate(timeout=300)
    assert 5 < len(done) < 50
    assert program.returncode == 0
    assert json.loads(output.splitlines()[-1]) == {
        "lines": 1000,
        "shards": 50,
        "skipped_shards": 0,
        "truncated": len(truncated_lines(wanted)),
    }
    assert joined(folder) == texts_of(wanted)
    assert joined(folder, "out.truncated") == truncated_lines(wanted)
    # Shards that the killed worker had finished were not translated again.
    assert {path: path.stat().st_mtime_ns for path in done} == done
    processes = loads.read_text().split()
    assert len(processes) == len(set(processes))  # each process loads once


def test_a_failing_worker_fails_the_run(saved_model, input_path, tmp_path):
    """The error contains the message of the worker."""
    shard = bulk_translation.Shard(
        str(tmp_path / "out"),
        str(tmp_path / "cut"),
        1,
        (bulk_translation.LineRange(str(input_path), 0, 1, 1000),),
    )
    config = bulk_translation.BeamTranslationConfig(str(saved_model), "i", "o")
    logging.disable()
    try:
        with pytest.raises(Exception, match="became shorter during the translation"):
            bulk_translation.run_pipeline(
                [shard], config, bulk_translation.parse_options([])
            )
    finally:
        logging.disable(logging.NOTSET)


TERMS = [Term("dog", "Pudel"), Term("one", None)]
KEPT_LINES = ["A dog at www.a.de", "one two", "", "zwei eins", "2 dog http://b.de/c"]


def test_the_program_protects_in_its_workers(kept_export, tmp_path):
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in KEPT_LINES))
    (tmp_path / "terms").write_text("dog\tPudel\none\n")
    arguments = [
        f"--saved_model={kept_export}",
        f"--input={tmp_path}/lines",
        f"--output={tmp_path}/out",
        "--lines_per_shard=2",
        "--batch_size=3",
        "--protect=urls",
    ]
    result = run_program(*WORKERS, *arguments, f"--glossary={tmp_path}/terms")
    assert result.returncode == 0, result.stderr
    assert "placeholders" not in result.stderr
    placeholders = exported_model.read_description(kept_export)["placeholders"]
    protection = Protection(["urls"], TERMS, placeholders)
    expected = translate_in_batches(
        KEPT_LINES, 3, open_model(kept_export).run_batch, Options(protection)
    )
    assert joined(tmp_path) == texts_of(expected)
    assert "".join(joined(tmp_path)).count("Pudel") == 2
    # Another glossary is another run.
    result = run_program(*WORKERS, *arguments)
    assert result.returncode == 1
    assert "belong to another run: protection in" in result.stderr


def test_without_placeholders_shards_have_what_the_alignment_says(
    small_export, saved_model, tmp_path
):
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in KEPT_LINES))
    protection = Protection(["urls"], TERMS)
    options = {"protection": protection}
    translate(small_export, tmp_path / "lines", tmp_path / "out", **options)
    expected = translate_in_batches(
        KEPT_LINES,
        3,
        open_model(small_export, "align").run_batch,
        Options(protection),
    )
    assert joined(tmp_path) == texts_of(expected)
    with pytest.raises(ValueError, match="must have the signature 'align'"):
        translate(saved_model, tmp_path / "lines", tmp_path / "other", **options)


def test_samples_are_not_protected():
    with pytest.raises(ValueError, match="for the best translations: drop --sampling"):
        bulk_translation.BeamTranslationConfig(
            "m", "i", "o", sampling=Sampling(), protection=Protection(["urls"])
        )


def test_beam_that_is_not_installed_is_named(repository):
    code = (
        f"import sys; sys.path[0] = {str(repository)!r}\n"
        "sys.modules['apache_beam'] = None\n"
        "from export import translate_beam; translate_beam.run()"
    )
    result = run_program("--saved_model=m", "--input=i", "--output=o", code=code)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith(
        "Translating on Beam needs apache_beam: install keras_transformer[beam]."
    )
