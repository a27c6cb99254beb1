"""Every command of the documents runs, at a small size, or is left out with a reason.

Commands run as they stand, page after page, with flags after them that make them small;
a later flag wins over an earlier one. Those of the README run in a shell; of the other
pages only what needs one does, and programs run in this process, which has TensorFlow.
"""

import contextlib
import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests import small_treebank
from tests.docs import commands

# Commands that no test runs, as regular expressions, and why.
NOT_RUN = {
    r"^make (quickstart|install)\b": "downloads packages",
    r"^make demo$": "serves until Ctrl-C; tests/server/test_page.py has its page",
    r"^make (lint|test|testlong|testrelease|docs|format)\b": "checks this checkout",
    r"^\. \.venv/bin/activate$": "the tests run in an environment already",
    r"^python3\.11 -m venv |^pip install ": "downloads packages",
    r"^python -m build$": "downloads packages; tests/test_packages.py builds both",
    r"^\.venv/bin/python -m pytest ": "runs other tests",
    r"^python -m http\.server ": "Python's own server, until Ctrl-C",
    r"\bdocker (build|run|compose)\b": "Docker",
    r"tfds:wmt14_translate|data/wmt14_ende|runs/base$|runs/base --last": "downloads "
    "WMT14, hours on GPUs",
    r"^dask |--runner=DaskRunner": "several machines; on one in "
    "tests/serving/test_bulk_translation.py",
    r"^python benchmarks/(train_step|decode|fast_models|mixed_lengths|scaling|startup|"
    r"translate_file|this_machine)\.py ": (
        "minutes; small in tests/benchmarks/test_speed_programs.py"
    ),
    r"^(XLA_FLAGS=\S+ )?python benchmarks/gpu\.py ": "needs a GPU; small in "
    "tests/benchmarks/test_gpu.py",
    r"^python benchmarks/server_load\.py ": "needs Locust; "
    "tests/benchmarks/test_latencies.py",
    r"^opusfilter |data/clean": "needs OpusFilter; "
    "tests/benchmarks/test_noisy_corpus.py",
    r"^eflomal-align ": "needs eflomal, which a compiler builds",
    r"opus-mt-en-de|opus_en_de|m2m100|nllb|my-marian-model": "downloads a published "
    "model; small in tests/pretrained/test_importing.py",
    r"^python bin/reproduce\.py ": "hours; small in tests/evaluation/test_table3.py",
    r"^python export/serve\.py --model_dir=": "another server beside that of the tests",
    r"--ours=.*--peer=": "needs another program; tests/benchmarks/test_alternation.py",
}
# A program that may run in the process of the tests: it starts no other processes.
HERE = re.compile(
    r"python (?P<program>(bin|export|examples)/(?!launch|translate_beam)"
    r"\w+\.py)(?P<flags>( [^|<>;&$]+)?)"
)
TINY = ["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"]
STEPS = ["--train_steps=20", "--warmup_steps=10", "--checkpoint_every_steps=5"]
STEPS += ["--tokens_per_batch=300", "--evaluate_every_steps=20", "--average_last=2"]
STEPS += ["--bleu_sentences=0"]
SEARCH = ["--extra_decode_length=3", "--max_input_length=40"]
SERVED = "python export/serve.py --saved_model=exports/my/1"
WRITE_TEXT = "python examples/write_phrasebook.py"
# What makes a program's work small.
SMALL = {
    "examples/write_phrasebook.py": ["--train_pairs=200", "--held_out_pairs=200"],
    "bin/train.py": [*TINY, *STEPS, *SEARCH],
    "bin/evaluate.py": ["--beam_size=1"],
    "export/export_saved_model.py": ["--check_lines=3"],
    "export/translate_beam.py": ["--lines_per_shard=5"],
    "benchmarks/input_pipeline.py": ["--batches=3"],
}
# Words that the commands name and a small corpus has fewer of.
FEWER = [
    (r"--vocab_size=\d+", "--vocab_size=400"),
    (r"--synthetic_pairs=\d+", "--synthetic_pairs=3000"),
    (r"--pairs=\d+", "--pairs=3000"),
]


def reason_not_to_run(command):
    for pattern, reason in NOT_RUN.items():
        if re.search(pattern, command.text):
            return reason
    return None


def test_every_reason_is_needed(repository):
    """Commands that are gone take their entry with them."""
    shown = [
        command.text
        for page in commands.pages(repository)
        for command in commands.commands(repository, page)
    ]
    assert len(shown) > 80
    for pattern, reason in NOT_RUN.items():
        assert any(re.search(pattern, text) for text in shown), pattern
        for path in re.findall(r"tests/\w+/\w+\.py", reason):
            assert (repository / path).exists(), path


@pytest.mark.long
def test_every_flag_of_a_command_exists(repository, reference):
    """In the documents, and in what programs say of themselves."""
    folders = "bin", "export", "benchmarks", "robustness", "examples"
    programs = reference.programs(*folders)
    shown = [
        command
        for page in commands.pages(repository)
        for command in commands.commands(repository, page)
    ]
    for program in programs:
        docstring = reference.docstring(program)
        shown += commands.commands_of_docstring(program, docstring)
    known = {}
    for command in shown:
        for program, names in command.uses:
            assert program in programs, command
            if program not in known:
                flags = reference.flags_of(program)
                known[program] = {flag.name for flag in flags} | {"json", "flagfile"}
            for name in names:
                if name.startswith(("dask_", "direct_")) or name == "runner":
                    continue  # Apache Beam's
                plain = name.removeprefix("no")
                assert {name, plain} & known[program], (command.page, program, name)


class Folder:
    """A folder in which commands run as in a checkout."""

    def __init__(self, path, repository, program_of=None):
        self.path = path
        self.program_of = program_of
        self.have_run = set()
        for name in ("bin", "export", "benchmarks", "robustness", "examples", "tests"):
            (path / name).symlink_to(repository / name)
        self.environment = {
            **os.environ,
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "PYTHONPATH": str(repository),
        }

    def run(self, text, **options):
        """Run a command of a page and return what it prints."""
        result = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {text}"],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            **options,
        )
        assert result.returncode == 0, (text, result.stdout, result.stderr[-3000:])
        return result.stdout

    def run_command(self, text):
        """Run a program here, and other commands in a shell; return what it prints."""
        line = HERE.fullmatch(text.replace('"$PWD/exports/my"', "exports/my"))
        if not (line and self.program_of):
            return self.run(text)
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.chdir(self.path), contextlib.redirect_stdout(printed):
            self.program_of(line["program"])(*shlex.split(line["flags"]))
        printed.seek(0)
        return printed.read()

    def run_page(self, repository, page, replace=()):
        """Run the commands of a page and return what they print.

        But for those that are left out, and those that a page before has as they are.
        """
        printed = []
        for command in commands.commands(repository, page):
            if reason_not_to_run(command):
                continue
            text = made_small(command)
            for pattern, replacement in replace:
                text = re.sub(pattern, replacement, text)
            if text not in self.have_run:
                printed.append(self.run_command(text))
            self.have_run.add(text)
        return printed


def made_small(command):
    """Return a command with flags after it that make it small."""
    text = command.text
    for pattern, replacement in FEWER:
        text = re.sub(pattern, replacement, text)
    if "--task=parsing" in text:
        text = text.replace("--vocab_size=400", "--vocab_size=300")
    for program, _ in command.uses:
        extra = SMALL.get(program, [])
        if program == "bin/train.py" and "--preset=parsing" in text:
            extra = [*extra, "--max_length=60"]
        if program == "bin/train.py" and "_fast" in text:
            extra = [*extra, "--num_encoder_layers=2"]
        is_export = program == "export/export_saved_model.py"
        if is_export and re.search(r"--(ensemble|shortlist|device=gpu)\b", text):
            extra = [*extra, "--signatures=serving_default"]
        text = " ".join([text, *extra])
    return text


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.fixture(scope="module")
def worked(repository, program_of, tmp_path_factory):
    """The folder after the tutorial, with what it printed, and a server."""
    folder = Folder(tmp_path_factory.mktemp("tutorial"), repository, program_of)
    local = [(re.escape(SERVED), "true"), (r"^(curl|python export/client).*", "true")]
    printed = folder.run_page(repository, "docs/tutorial.md", local)
    with started(folder, "python -m tests.export.small_server exports/my/1") as server:
        words = [server.stdout.readline().split() for _ in range(2)]
        addresses = {
            protocol.removeprefix("--protocol="): address.removeprefix("--server=")
            for protocol, address in words
        }
        yield folder, printed, addresses


@contextlib.contextmanager
def started(folder, command):
    """Yield the process of a server that a command starts in a folder."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder.path,
        env=folder.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            yield server
        finally:
            server.terminate()  # Ctrl-C may be ignored where the tests run


def shows(repository, page, text):
    """Return whether a page has a command."""
    return any(command.text == text for command in commands.commands(repository, page))


def asking(server):
    """Return what lets the commands of a page ask `export/serve.py` on its port."""
    address = server.stdout.readline().split()[-1].removeprefix("http://")
    return [
        (re.escape(SERVED), "true"),  # it runs already
        ("localhost:8501", address),
        ("^curl ", "curl -sS --fail "),
    ]


def served_locally(addresses):
    """Return what lets a page about TensorFlow Serving ask the small server."""
    return [
        (re.escape(SERVED), "true"),
        (r"(?<=--model_name=)\w+", "small"),
        (r"(?<=/v1/models/)\w+(?=:predict)", "small"),
        (r"--server=\S+(?= --protocol=rest)", f"--server={addresses['rest']}"),
        (r"--server=localhost:\d+", f"--server={addresses['grpc']}"),
        (r"localhost:8501", addresses["rest"]),
        (r"^curl ", "curl -sS --fail "),
    ]


@pytest.mark.release
def test_the_tutorial_leads_to_a_served_model(repository, worked):
    """Each step, with a model too small to translate well."""
    folder, printed, addresses = worked
    for name in ("data/my/metadata.json", "runs/my/model.keras", "attention.html"):
        assert (folder.path / name).exists(), name
    assert (folder.path / "exports" / "my" / "1" / "saved_model.pb").exists()
    assert any("sacreBLEU" in text for text in printed)
    assert shows(repository, "docs/tutorial.md", SERVED)
    asked = [
        command.text
        for command in commands.commands(repository, "docs/tutorial.md")
        if command.text.startswith(("curl", "python export/client"))
    ]
    assert len(asked) == 2
    with started(folder, f"{SERVED} --port=0") as server:
        replace = asking(server)
        for text in asked:
            for pattern, replacement in replace:
                text = re.sub(pattern, replacement, text)
            answer = folder.run(text)
            assert "outputs" in answer or not answer
    assert len(lines_of(folder.path / "translated.de")) == 200


@pytest.mark.long
def test_the_commands_of_the_readme_run(repository, tmp_path):
    """Those of its fifteen lines, but for Docker's server, which nothing can ask."""
    folder = Folder(tmp_path, repository)
    folder.run(" ".join([WRITE_TEXT, "--output_dir=.", *SMALL[WRITE_TEXT.split()[1]]]))
    folder.run_page(repository, "README.md", [(r"^curl .*", "true")])
    assert (folder.path / "exports" / "my" / "1" / "saved_model.pb").exists()


PAGES = [
    "docs/how_to/fine_tuning.md",
    "docs/how_to/fast_models.md",
    "docs/how_to/ensembles.md",
    "docs/how_to/several_corpora.md",
    "docs/how_to/published_models.md",
    "docs/how_to/long_runs.md",
    "docs/how_to/several_machines.md",
    "docs/how_to/gpu.md",
    "docs/how_to/serving.md",
    "docs/how_to/alignments.md",
    "docs/how_to/documents.md",
    "docs/how_to/bulk_translation.md",
    "docs/how_to/parsing.md",
    "docs/how_to/table3.md",
    "docs/how_to/converting.md",
    "benchmarks/README.md",
]


# A teacher of 20 steps may write nothing, and blank lines are no training text.
NOT_BLANK = (r"(--output=distilled\.de)", r"\1 && sed -i 's/^$/ein/' distilled.de")
LOCAL_SERVER = "docs/how_to/local_server.md"


def test_no_page_is_forgotten(repository):
    """Pages of which nothing runs have only commands that are left out."""
    for page in commands.pages(repository):
        if page not in (*PAGES, LOCAL_SERVER, "README.md", "docs/tutorial.md"):
            for command in commands.commands(repository, page):
                assert reason_not_to_run(command), command


@pytest.mark.release
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(repository, worked, page):
    folder, _, addresses = worked
    prepare(folder, repository, page)
    folder.run_page(repository, page, [*served_locally(addresses), NOT_BLANK])


@pytest.mark.release
def test_the_commands_of_the_local_server_run(repository, worked):
    """With the server that the page starts, on another port."""
    folder, _, _ = worked
    assert shows(repository, LOCAL_SERVER, SERVED)
    with started(folder, f"{SERVED} --port=0") as server:
        printed = "".join(folder.run_page(repository, LOCAL_SERVER, asking(server)))
    assert server.returncode == 0
    for part in ("translatedText", "outputs", "AVAILABLE", "batch_size_bucket"):
        assert part in printed
    assert len(lines_of(folder.path / "translated.de")) == 200


@pytest.mark.long
def test_a_run_gives_a_translator_as_the_guide_says(repository, worked):
    """The block of the guide that needs a run of one's own."""
    folder, _, _ = worked
    guide = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```{.python .notest}\n(.*?)```", guide, re.DOTALL)
    after = "print(len(translator(['We', 'You'])))"
    code = f"import keras_transformer as kt\n{block}\n{after}"
    (folder.path / "guide.py").write_text(code, encoding="utf-8")
    _, facts, count = folder.run("python guide.py").splitlines()
    assert facts.startswith("en ") and count == "2"


# The files of corpora that a page shows, in its order.
CORPORA = {
    "fast_models.md": ["distilled"],
    "fine_tuning.md": ["both"],
    "several_corpora.md": ["corpora", "languages"],
}


def prepare(folder, repository, page):
    """Write what the commands of a page read."""
    path, name = folder.path, page.rpartition("/")[2]
    shown = (repository / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", shown, re.DOTALL)
    for file, block in zip(CORPORA.get(name, []), blocks, strict=True):
        (path / f"{file}.yaml").write_text(block, encoding="utf-8")
    if name == "fine_tuning.md":
        for language in ("en", "de"):
            for new, old in (("new", "train"), ("dev", "valid")):
                text = "".join(lines_of(path / f"{old}.{language}")[:50])
                text += "snowboards and snowboarders\n" * 3  # for more pieces
                (path / f"{new}.{language}").write_text(text, encoding="utf-8")
    elif name == "several_corpora.md":
        for language in ("en", "de"):
            with gzip.open(path / f"back.{language}.gz", "wt") as file:
                file.writelines(lines_of(path / f"test.{language}"))
        shutil.copy(path / "test.de", path / "news.de")
        (path / "runs" / "de_en").symlink_to(path / "runs" / "my")
    elif name == "alignments.md":
        links = "".join("0-0\n" for _ in lines_of(path / "train.en"))
        for direction in ("forward", "reverse"):
            (path / f"{direction}.links").write_text(links, encoding="utf-8")
    elif name == "documents.md":
        lines = lines_of(path / "test.en")[:5]
        text = f"{' '.join(line.strip() for line in lines)}\n\n- {lines[0]}"
        (path / "letter.en").write_text(text, encoding="utf-8")
        page = f"<title>{lines[1]}</title><p>{lines[2]}<b>{lines[3]}</b></p>"
        (path / "page.html").write_text(page, encoding="utf-8")
    elif name == "bulk_translation.md":
        (path / "texts").mkdir()
        for number in range(2):
            with gzip.open(path / "texts" / f"{number}.en.gz", "wt") as file:
                file.writelines(lines_of(path / "test.en")[:7])
    elif name == "parsing.md":
        for file, seed, count in (("train.mrg", 2, 61), ("dev.mrg", 3, 7)):
            trees = small_treebank.tree_lines(seed, count)
            small_treebank.write_trees(path / file, trees)
        (path / "words.txt").write_text("the fox sees the dog .\n", encoding="utf-8")
    if name in ("documents.md", "bulk_translation.md"):
        (path / "terms.tsv").write_text("dog\tHund\nAnna\n", encoding="utf-8")
    if name in ("table3.md", "README.md"):
        link = path / "data" / "multi30k"
        if not link.exists():
            link.symlink_to(path / "data" / "my")
