"""Each program with each kind of input and output: the right answer, or one line.

What models answer does not matter here: stubs stand for them, in this process.
`tests/cli/test_programs.py` shows that what `main` raises ends as one line.
"""

import contextlib
import gzip
import json
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

from keras_transformer import data, tokenization
from keras_transformer.cli import programs
from keras_transformer.inference.translator import Translator
from keras_transformer.parsing import parse_files
from keras_transformer.parsing.parser import ParseText
from keras_transformer.pretrained import huggingface_writer
from keras_transformer.serving import client, ctranslate2_converter
from keras_transformer.serving import saved_model as saved_model_lib
from keras_transformer.translation import exported_model
from keras_transformer.translation.opened_model import OpenedModel

LINES = ["the fox sleeps well", "der Hund läuft weg", "one two three five"]
TEXT = "".join(f"{line}\n" for line in LINES)
SHOUTED = TEXT.upper()

GOOD_INPUTS = {
    "plain": TEXT.encode(),
    "byte_order_mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "windows": TEXT.replace("\n", "\r\n").encode(),
    "marked_windows.gz": gzip.compress(
        b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    ),
}
BAD_INPUTS = {
    "cut.gz": gzip.compress(TEXT.encode())[:-9],
    "damaged.gz": gzip.compress(TEXT.encode())[:10] + b"\xff" * 20,
    "plain.gz": TEXT.encode(),
}


def shout(text):
    """Stands for an exported translation model."""
    found = [each.decode().upper().encode() for each in text.numpy()]
    return {
        "translations": np_tensor([[each] for each in found]),
        "scores": np_tensor([[0.0]] * len(found)),
        "translation": np_tensor(found),
        "score": np_tensor([0.0] * len(found)),
        "truncated": np_tensor([False] * len(found)),
    }


def np_tensor(values):
    return types.SimpleNamespace(numpy=lambda: np.array(values))


def parse(text):
    """Stands for an exported parser."""
    answers = shout(text)
    valid = np_tensor([True] * len(text))
    return {**answers, "tree": answers["translation"], "valid": valid}


def ask(config, inputs):
    """Stands for a server."""
    return ({"translation": text.upper()} for text in inputs["text"])


@pytest.fixture
def run(program_of, repository, monkeypatch, tmp_path, capfd):
    """Return what runs a program by its name, and returns what it wrote.

    Called with the path of the input, None for standard input, and the path of the
    output, None for standard output.
    """

    def open_export(path, use="translate", sampling=None):
        return OpenedModel(run_batch=parse if use == "parse" else shout)

    monkeypatch.setattr(exported_model, "open_export", open_export)
    monkeypatch.setattr(exported_model, "check_signature", lambda *_: None)
    monkeypatch.setattr(client, "ask", ask)
    (tmp_path / "reference").write_text(TEXT)

    def translate(given):
        return program_of("bin/translate.py")(saved_model="any", **given)

    def parse_tokens(given):
        return program_of("bin/parse.py")(saved_model="any", tokenized=True, **given)

    def ask_server(given):
        return program_of("export/client.py")(
            server="host:1", model_name="any", **given
        )

    def evaluate(given):
        return program_of("bin/evaluate.py")(
            hypothesis=given["input"],
            reference=tmp_path / "reference",
            bootstrap_samples=0,
            **({"report": given["output"]} if "output" in given else {}),
        )

    def prepare(given):
        sides = ("train_source", "train_target", "valid_source", "valid_target")
        return program_of("bin/prepare_data.py")(
            **dict.fromkeys(sides, given["input"]),
            data_dir=given["output"],
            source_language="en",
            target_language="de",
            vocab_size=300,
            drop_duplicates=False,
        )

    def run_saved_model(given):
        module = types.ModuleType("run_saved_model")
        code = (repository / "export" / "run_saved_model.py").read_text()
        exec(compile(code, module.__name__, "exec"), module.__dict__)
        module.load_signature = lambda saved_model: shout
        if module.main(["--saved_model=any", f"--input={given['input']}"]):
            raise ValueError(capfd.readouterr().err.strip())

    def translate_on_beam(given):
        from keras_transformer.serving import bulk_translation

        config = bulk_translation.BeamTranslationConfig(
            str(tmp_path / "model"), str(given["input"]), str(given["output"])
        )
        bulk_translation.translate(config, bulk_translation.parse_options([]))

    named = locals()

    def run(name, source, target):
        given = {"input": source, "output": target}
        capfd.readouterr()
        named[name]({key: value for key, value in given.items() if value is not None})
        return capfd.readouterr().out

    return run


FILTERS = ["translate", "parse_tokens", "ask_server"]
READERS = [*FILTERS, "evaluate", "prepare", "run_saved_model", "translate_on_beam"]


@pytest.mark.parametrize("kind", GOOD_INPUTS)
@pytest.mark.parametrize("name", [*READERS, "standard input"])
def test_line_ends_and_byte_order_marks_change_no_answer(
    run, tmp_path, monkeypatch, name, kind
):
    source, target = tmp_path / kind, tmp_path / "out"
    source.write_bytes(GOOD_INPUTS[kind])
    if name == "standard input":
        content = gzip.decompress if kind.endswith(".gz") else bytes
        source.write_bytes(content(GOOD_INPUTS[kind]))
        with open(source, encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            assert run("translate", None, None) == SHOUTED
    elif name == "run_saved_model":
        rows = [f"{line}\n  -> {line.upper()}  (0.000)\n" for line in LINES]
        assert run(name, source, None) == "".join(rows)
    else:
        run(name, source, target)
        if name == "evaluate":
            assert json.loads(target.read_text())["exact_match"] == 100
        elif name == "prepare":
            assert (target / "valid.source").read_bytes() == TEXT.encode()
        elif name == "translate_on_beam":
            (shard,) = tmp_path.glob("out-*-of-*")
            assert shard.read_bytes() == SHOUTED.encode()
        else:
            assert target.read_bytes() == SHOUTED.encode()


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in READERS for kind in [*BAD_INPUTS, "absent", "folder"]]
    + [(name, "closed") for name in FILTERS],
)
def test_what_cannot_be_read_ends_in_one_line(run, tmp_path, monkeypatch, name, kind):
    source, target = tmp_path / kind, tmp_path / "out"
    if kind == "closed":
        source = None
        monkeypatch.setattr(sys, "stdin", None)
    elif kind == "folder":
        source.mkdir()
    elif kind != "absent":
        source.write_bytes(BAD_INPUTS[kind])
    message = "^Standard input is closed" if kind == "closed" else str(source)
    with pytest.raises(programs.INPUT_ERRORS, match=message) as found:
        run(name, source, target)
    assert "\n" not in str(found.value)
    assert sorted(os.listdir(tmp_path)) == sorted(
        {"reference", kind} - {"absent", "closed"}
    )


@contextlib.contextmanager
def reader_of(path):
    """Read a FIFO in a thread; yield the list that gets its content."""
    found = []
    thread = threading.Thread(target=lambda: found.append(path.read_text()))
    thread.start()
    yield found
    thread.join(60)


@pytest.mark.parametrize("name", [*FILTERS, "evaluate"])
@pytest.mark.parametrize("kind", ["fifo", "link", "dangling_link", "null", "full"])
def test_an_output_may_be_more_than_a_file(run, device, tmp_path, name, kind):
    source, target = tmp_path / "in", tmp_path / kind
    source.write_text(TEXT)
    if kind in ("null", "full"):
        target.symlink_to(device(kind))
        before = target.stat()
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        target.symlink_to("file")
        if kind == "link":
            (tmp_path / "file").write_text("old")
    if kind == "full":
        with pytest.raises(OSError, match="No space left on device.*full"):
            run(name, source, target)
    elif kind == "fifo":
        with reader_of(target) as found:
            run(name, source, target)
    else:
        run(name, source, target)
        found = [] if kind == "null" else [(tmp_path / "file").read_text()]
    if kind in ("null", "full"):
        after = target.stat()
        assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    elif name == "evaluate":
        assert json.loads(found[0])["exact_match"] == 100
    else:
        assert found == [SHOUTED]
    assert target.is_fifo() if kind == "fifo" else target.is_symlink()


@pytest.mark.parametrize("name", FILTERS)
def test_closed_outputs_end_in_one_line(run, tmp_path, monkeypatch, name):
    (tmp_path / "in").write_text(TEXT)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match=r"^Standard output is closed\. Give a file"):
        run(name, tmp_path / "in", None)


PROGRAMS = [
    *(f"bin/{name}.py" for name in ("prepare_data", "train", "translate", "parse")),
    *("bin/evaluate.py", "export/client.py", "export/convert_ctranslate2.py"),
    *("export/convert_huggingface.py", "export/translate_beam.py"),
]
RUN_EACH = """
import os, runpy, sys
for path in sys.argv[1:]:
    if not os.fork():
        sys.argv = [path]
        runpy.run_path(path, run_name="__main__")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    print(status, file=sys.stderr, flush=True)
"""


@pytest.mark.long
def test_every_program_refuses_a_closed_standard_output(repository):
    """Before it reads anything."""
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", RUN_EACH, *PROGRAMS],
        cwd=repository,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    closed = "standard output is closed. Redirect it, perhaps to /dev/null."
    said = [line for line in ended.stderr.splitlines() if line[0] not in "EWI"]
    assert said == [
        line
        for path in PROGRAMS
        for line in (f"{os.path.basename(path)}: {closed}", "1")
    ]


REMOTE = {
    "bin/average_checkpoints.py": "--output=gs://bucket/x",
    "bin/back_translate.py": "--output=s3://bucket/x.gz",
    "bin/evaluate.py": "--report=https://host/x.json",
    "bin/extend_vocabulary.py": "--text=a.en,gs://bucket/b.en",
    "bin/import_model.py": "--input=hf://Helsinki-NLP/opus-mt-en-de",
    "bin/make_shortlist.py": "--data_dir=hdfs://host:9000/data",
    "bin/parse.py": "--saved_model=gs://bucket/x",
    "bin/prepare_data.py": "--train_source=https://host/a.en",
    "bin/reproduce.py": "--output_dir=gs://bucket/x",
    "bin/train.py": "--model_dir=GS://bucket/x",
    "bin/training_cost.py": "--preset=gs://bucket/x",
    "bin/translate.py": "--ensemble=runs/a,gs://bucket/b",
    "bin/visualize_attention.py": "--output=gs://bucket/x.html",
    "export/client.py": "--input=ftp://host/x",
    "export/convert_ctranslate2.py": "--output_dir=gs://bucket/x",
    "export/convert_huggingface.py": "--report=abfs+ssl://x",
    "export/export_saved_model.py": "--export_dir=gs://bucket/x",
    "export/serve.py": "--glossary=gs://bucket/x",
    "export/translate_beam.py": "--glossary=gs://bucket/x",
}


@pytest.mark.long
def test_every_program_refuses_paths_of_other_machines(repository, tmp_path):
    """Before it loads a model or makes a folder `gs:`."""
    for path, option in REMOTE.items():
        ended = subprocess.run(
            [sys.executable, repository / path, option],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        said = f"{os.path.basename(path)}: {option.partition('=')[0]} must be a path of"
        assert ended.stderr.startswith(said), path
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), path
    assert os.listdir(tmp_path) == []


def test_texts_and_addresses_may_begin_as_a_url(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from absl import flags\nfrom keras_transformer.cli import programs\n"
        "server = flags.DEFINE_string('server', None, '')\n"
        "programs.run(lambda: print(server.value), may_be_urls=[server])\n"
    )
    command = [sys.executable, program, "--server=http://host:8501"]
    assert subprocess.check_output(command, text=True) == "http://host:8501\n"


def draw_trees(place):
    parse_files.write_parses(place, [ParseText("(S (XX a))", 0.0, False, True)], "svg")


def prepare_corpus(place):
    path = place.parent / "thesis.txt"
    source = data.TextFiles(dict.fromkeys(["train", "valid"], (path, path)), "en", "de")
    data.prepare(source, place, tokenization.train_bpe)


@pytest.mark.parametrize("kind", ["file", "link", "fifo", "null"])
@pytest.mark.parametrize(
    "write",
    [
        prepare_corpus,
        draw_trees,
        lambda place: saved_model_lib.export(None, place),
        lambda place: ctranslate2_converter.convert(None, place),
        lambda place: huggingface_writer.write(None, None, place, ""),
    ],
    ids=[
        "prepare_data",
        "parse",
        "export_saved_model",
        "convert_ctranslate2",
        "convert_huggingface",
    ],
)
def test_a_folder_does_not_take_the_place_of_something_else(
    device, tmp_path, write, kind
):
    place, thesis = tmp_path / "out", tmp_path / "thesis.txt"
    thesis.write_text(TEXT)
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "file":
        place.write_text("years of work")
    else:
        place.symlink_to(thesis if kind == "link" else device("null"))
    before = place.stat()
    with pytest.raises(OSError, match=str(place)) as found:
        write(place)
    assert "\n" not in str(found.value)
    assert place.stat() == before
    assert thesis.read_text() == TEXT


@pytest.mark.long
def test_training_evaluates_on_clean_lines(
    run, program_of, tmp_path, monkeypatch, capfd
):
    """Someone has saved the validation text of a corpus with another editor."""
    (tmp_path / "in").write_bytes(TEXT.encode() * 5)
    run("prepare", tmp_path / "in", tmp_path / "data")
    for side in ("source", "target"):
        content = GOOD_INPUTS["windows"] * 5
        (tmp_path / "data" / f"valid.{side}").write_bytes(b"\xef\xbb\xbf" + content)
    seen = []

    def translate(self, texts):
        seen.append(texts)
        return texts

    monkeypatch.setattr(Translator, "__call__", translate)
    program_of("bin/train.py")(
        preset="tiny",
        data_dir=tmp_path / "data",
        model_dir=tmp_path / "model",
        num_layers=1,
        d_model=6,
        d_ff=7,
        num_heads=2,
        tokens_per_batch=300,
        max_length=60,
        train_steps=1,
        evaluate_every_steps=1,
        bleu_sentences=3,
        precision="float32",
        distribution="one_device",
    )
    assert seen == [LINES]
    assert "bleu 100.000" in capfd.readouterr().out  # the references are clean too
