"""bin/prepare_data.py, run as users run it."""

import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from keras_transformer import data, tokenization
from tests.data.test_sources import TinyTranslations
from tests.small_treebank import tree_lines

TEXT = "ein Hund läuft über die grüne Wiese und bellt laut den Mond an"
FILES = ("train_source", "train_target", "valid_source", "valid_target")


def sentences(count, side):
    """Different sentences, enough text for a small vocabulary; "en" is upper case."""
    drawn = itertools.islice(
        itertools.permutations(TEXT.split(), 5), 0, 997 * count, 997
    )
    texts = [" ".join(words) for words in drawn]
    return [text.upper() for text in texts] if side == "en" else texts


def write(path, texts):
    path.write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path):
    """Flags for text files: 67 training pairs, 7 validation pairs."""
    sizes = zip(FILES, ("en", "de") * 2, (67, 67, 7, 7), strict=True)
    return {
        name: write(tmp_path / name, sentences(count, side))
        for name, side, count in sizes
    }


@pytest.fixture
def prepare_data(repository, tmp_path):
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # as users have it

    def run(**flags):
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        return subprocess.run(
            [sys.executable, str(repository / "bin" / "prepare_data.py"), *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env=environment,
        )

    return run


def test_text_files_become_a_folder_to_train_on(prepare_data, corpus, tmp_path):
    done = prepare_data(**corpus, data_dir="data", vocab_size=300, json=True)
    assert done.returncode == 0, done.stderr
    assert "train: 67 pairs read, 67 encoded" in done.stdout
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary == json.loads((tmp_path / "data" / "metadata.json").read_text())
    tokenizer = tokenization.load(tmp_path / "data" / "tokenizer")
    assert tokenizer.fingerprint == summary["tokenizer_hash"]
    encoded = data.EncodedCorpus.open(tmp_path / "data", "train")
    for number, side in enumerate(("en", "de")):
        texts = tokenizer.decode([pair[number] for pair in encoded])
        assert texts == sentences(67, side)


@pytest.mark.long
def test_flagfile_and_own_sentencepiece_file_are_taken(prepare_data, corpus, tmp_path):
    tokenization.train_bpe(sentences(67, "de"), 290).save(tmp_path / "own")
    model = tmp_path / "own" / "sentencepiece.model"
    flags = {**corpus, "data_dir": "data", "tokenizer_model": model}
    write(tmp_path / "flags", [f"--{name}={value}" for name, value in flags.items()])
    done = prepare_data(flagfile="flags")
    assert done.returncode == 0, done.stderr
    saved = tmp_path / "data" / "tokenizer" / "sentencepiece.model"
    assert saved.read_bytes() == model.read_bytes()
    assert data.read_metadata(tmp_path / "data").tokenizer_kind == "sentencepiece"


@pytest.mark.long
def test_a_set_of_tensorflow_datasets_is_read_in_either_direction(
    prepare_data, tmp_path
):
    TinyTranslations(data_dir=tmp_path).download_and_prepare()
    done = prepare_data(
        dataset="tfds:tiny_translations",
        tfds_data_dir=tmp_path,
        data_dir="data",
        source_language="de",
        target_language="en",
        tokenizer="wordpiece",
        vocab_size=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("de to en, vocabulary of")  # no line of TFDS
    metadata = data.read_metadata(tmp_path / "data")
    assert metadata.tokenizer_kind == "wordpiece"
    assert (metadata.source_language, metadata.target_language) == ("de", "en")
    pairs_read = {name: split.pairs_read for name, split in metadata.splits.items()}
    assert pairs_read == {"train": 7, "valid": 3, "test": 2}
    german = (tmp_path / "data" / "valid.source").read_text(encoding="utf-8")
    assert len(german.splitlines()) == 3


CORPORA = [
    "corpora:",
    "- {name: back, tag: <bt>, source: train_source, target: train_target}",
    "- {name: dev, split: valid, source: valid_source, target: valid_target}",
]


def test_corpora_become_a_folder_whose_vocabulary_has_their_tags(
    program_of, corpus, tmp_path
):
    file = write(tmp_path / "corpora.yaml", CORPORA)
    prepare = program_of("bin/prepare_data.py")
    for name, vocabulary in (
        ("data", {"vocab_size": 300}),
        ("again", {"tokenizer_from": tmp_path / "data"}),
    ):
        summary = prepare(corpora=file, data_dir=tmp_path / name, **vocabulary)
        assert [each["name"] for each in summary["corpora"]] == ["back", "dev"]
        encoded = data.EncodedCorpus.open(tmp_path / name, "train")
        tokenizer = tokenization.load(tmp_path / name / "tokenizer")
        texts = tokenizer.decode([pair[0] for pair in encoded])
        assert texts == [f"<bt> {text}" for text in sentences(67, "en")]
        first = {int(encoded[row][0][0]) for row in range(len(encoded))}
        assert [tokenizer.pieces([*first])[0].numpy().decode()] == ["▁<bt>"]


# Bad input: flags that differ from those of the good corpus, and the line that says so.
REFUSED = {
    "no folder": ({"data_dir": ""}, "--data_dir is needed"),
    "missing side": ({"valid_target": ""}, "--valid_target is needed beside the other"),
    "missing test": ({"test_source": "good"}, "--test_target is needed beside"),
    "two sources": ({"dataset": "tfds:a"}, "--dataset and --train_source exclude"),
    "absent file": ({"train_source": "no"}, "No file no. Check train_source."),
    "absent model": ({"tokenizer_model": "x"}, "No file x. Check --tokenizer_model."),
    "size of a given vocabulary": (
        {"tokenizer_from": "run"},
        "--vocab_size is for a vocabulary to train, and --tokenizer_from takes one as "
        "it is: leave out one of the two.",
    ),
    "bad model": (
        {"tokenizer_model": "good", "vocab_size": ""},
        "good: not a SentencePiece model",
    ),
    "no number": ({"vocab_size": "many"}, "flag --vocab_size=many: invalid literal"),
    "out of range": ({"max_length_ratio": ".5"}, "`max_length_ratio` must be at least"),
    "read-only": ({"data_dir": "/proc/data"}, "No such file or directory: /proc/"),
    "other files": ({"data_dir": "."}, "`data_dir` . holds files that are not a"),
    "empty file": ({"train_target": "empty"}, "empty is empty; it needs one sentence"),
    "different length": (
        {"valid_target": "good"},
        "valid_source has 7 lines and good has 67; line n of one must translate",
    ),
    "all blank": (
        {"train_source": "blank"},
        "No pair of the train split is left. Of 67 pairs read, dropped: 67 blank. Give "
        "more text",
    ),
    "all too long": (
        {"valid_source": "long", "valid_target": "long"},
        "No pair of the valid split is left. Of 7 pairs read, dropped: 7 too long. "
        "Give more text",
    ),
    "invalid UTF-8": (
        {"valid_target": "latin1"},
        "latin1 line 4 is not valid UTF-8: invalid start byte at byte 2. Convert",
    ),
    "encodings of word pieces": (
        {"tokenizer": "wordpiece", "vocab_size": "272", "subword_encodings": "2"},
        "--subword_encodings needs a vocabulary of BPE: drop --tokenizer.",
    ),
    "dropout of one encoding": (
        {"subword_dropout": "0.2"},
        "--subword_dropout needs several encodings of a pair: give --subword_encod",
    ),
    "placeholders of word pieces": (
        {"tokenizer": "wordpiece", "vocab_size": "272", "placeholders": "2"},
        "--placeholders needs a vocabulary of BPE: drop --tokenizer.",
    ),
    "terms without placeholders": (
        {"glossary": "terms.tsv"},
        "--glossary needs placeholders: give --placeholders, such as 32.",
    ),
    "rate of no placeholders": (
        {"placeholder_rate": "0.2"},
        "--placeholder_rate needs placeholders: give --placeholders, such as 32.",
    ),
    "absent alignments": (
        {"train_alignments": "no"},
        "No file no. Check train_alignments.",
    ),
    "text as alignments": (
        {"train_alignments": "good"},
        "good line 1 must have pairs of numbers such as",
    ),
    "alignments of a set": (
        {
            "dataset": "tfds:a",
            "train_alignments": "good",
            **dict.fromkeys(FILES, ""),
        },
        "--train_alignments is for text files, not for --dataset. Give --train_source",
    ),
    "large vocabulary": ({"vocab_size": "30000"}, "`vocab_size` must be at most "),
    "unknown set": (
        {"dataset": "wmt14", **dict.fromkeys(FILES, "")},
        "`dataset` must be 'tfds:NAME/CONFIG'",
    ),
    "unknown TFDS set": (
        {"dataset": "tfds:wmt41_translate", **dict.fromkeys(FILES, "")},
        "`dataset`: TensorFlow Datasets has no set 'wmt41_translate'",
    ),
    "absent language": (
        {
            "dataset": "tfds:wmt14_translate/de-en",
            "target_language": "fr",
            **dict.fromkeys(FILES, ""),
        },
        "`target_language` must be a language of tfds:wmt14_translate/de-en, which has "
        "de, en. Received: target_language='fr'.",
    ),
}

# The same for several corpora.
REFUSED |= {
    "corpora and files": (
        {"corpora": "corpora"},
        "--corpora and --train_source exclude each other; give one source.",
    ),
    "corpora and set": (
        {"corpora": "corpora", "dataset": "tfds:a", **dict.fromkeys(FILES, "")},
        "--corpora and --dataset exclude each other; give one source.",
    ),
    "absent corpora": (
        {"corpora": "no", **dict.fromkeys(FILES, "")},
        "No file no. Check --corpora.",
    ),
    "bad corpora": (
        {"corpora": "good", **dict.fromkeys(FILES, "")},
        "good has no list `corpora`.",
    ),
    "tags in word pieces": (
        {"corpora": "corpora", "tokenizer": "wordpiece", **dict.fromkeys(FILES, "")},
        "--tokenizer=wordpiece has no tags and target languages, which the corpora "
        "need: <bt>. Use --tokenizer=bpe.",
    ),
    "tag that a vocabulary lacks": (
        {
            **{"corpora": "corpora", "tokenizer_from": "run", "vocab_size": ""},
            **dict.fromkeys(FILES, ""),
        },
        "corpora: corpus 'back': the vocabulary has no piece <bt>. Let bin/prepare_da",
    ),
}

# The same for trees: these flags instead of the files.
NO_FILES = dict.fromkeys(FILES, "")
TREES = {**NO_FILES, "task": "parsing", "train_trees": "trees", "valid_trees": "trees"}
REFUSED |= {
    "trees to translate": (
        {"train_trees": "trees"},
        "--train_trees is for --task=parsing; here --task=translation.",
    ),
    "bad lines to translate": ({"skip_bad": "true"}, "--skip_bad is for --task=pars"),
    "text to parse": (
        {**TREES, "train_source": "good"},
        "--train_source is for --task=translation; here --task=parsing.",
    ),
    "encodings of trees": (
        {**TREES, "subword_encodings": "2"},
        "--subword_encodings is for --task=translation; here --task=parsing.",
    ),
    "ratio of trees": ({**TREES, "max_length_ratio": "2"}, "--max_length_ratio is for"),
    "no held-out trees": ({**TREES, "valid_trees": ""}, "--valid_trees is needed."),
    "absent trees": ({**TREES, "train_trees": "no:2"}, "No file no."),
    "weighted gold": ({**TREES, "valid_trees": "trees:2"}, "Only training trees have"),
    "bad weight": ({**TREES, "train_trees": "trees:0"}, "trees:0: `weight` must be"),
    "unbalanced tree": (
        {**TREES, "train_trees": "unbalanced"},
        "unbalanced, line 2: a bracket is not closed; the tree that starts in line 2 "
        "needs 2 more closing brackets.",
    ),
    "too long a tree": (
        {**TREES, "max_length": "9"},
        "trees, line 1: a side has more tokens than `max_length`, 9. 7 of 7 pairs",
    ),
}

# Starts the program once for each list of arguments, each in a process of its own that
# need not import TensorFlow again or look for GPUs: both take seconds.
MANY_RUNS = """
import json, os, runpy, sys, tempfile, traceback
import tensorflow, tensorflow_datasets
from keras_transformer import data, tokenization
from tests.data.test_sources import TinyTranslations
from keras_transformer.parsing import preparation

data.TextFiles, tokenization.load, tensorflow.config.list_physical_devices()

for arguments in json.load(sys.stdin):
    with tempfile.TemporaryFile() as errors:
        if not (child := os.fork()):
            os.dup2(errors.fileno(), 2)
            sys.argv = [sys.argv[1], *arguments]
            try:
                runpy.run_path(sys.argv[0], run_name="__main__")
            except SystemExit as exit:
                os._exit(exit.code or 0)  # TensorFlow takes its time to say goodbye
            except BaseException:
                traceback.print_exc()
            os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        print(json.dumps([code, errors.read().decode()]), flush=True)
"""


@pytest.fixture(scope="module")
def refusals(repository, tmp_path_factory):
    """Exit code, standard error and folder of each run in REFUSED."""
    folder = tmp_path_factory.mktemp("refused")
    good = {name: name for name in FILES}
    for name, side, count in zip(FILES, ("en", "de") * 2, (67, 67, 7, 7), strict=True):
        write(folder / name, sentences(count, side))
    write(folder / "good", sentences(67, "de"))
    write(folder / "blank", [""] * 67)
    write(folder / "corpora", CORPORA)
    tokenization.train_bpe(sentences(67, "de"), 290).save(folder / "run" / "tokenizer")
    write(folder / "trees", tree_lines(3, 7))
    write(folder / "unbalanced", ["(S (NP (NN fox)))", "(S (NP (NN fox)"])
    write(folder / "long", ["x " * 50_000] * 7)
    (folder / "empty").write_bytes(b"")
    (folder / "latin1").write_bytes(b"a\n" * 3 + b"gr\xfcn\n"[1:] + b"a\n" * 3)
    runs = []
    for name, (changes, _) in REFUSED.items():
        flags = {"data_dir": f"made {name}", "vocab_size": 300, **good, **changes}
        runs.append([f"--{name}={value}" for name, value in flags.items() if value])
    done = subprocess.run(
        [sys.executable, "-c", MANY_RUNS, str(repository / "bin" / "prepare_data.py")],
        input=json.dumps(runs),
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(REFUSED, outcomes, strict=True)), folder


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_ends_in_one_line_and_leaves_nothing(refusals, name):
    outcomes, folder = refusals
    code, errors = outcomes[name]
    assert code == 1, errors
    assert "Traceback" not in errors, errors
    assert errors.splitlines()[-1].startswith(f"prepare_data.py: {REFUSED[name][1]}")
    assert errors.count("prepare_data.py: ") == 1, errors
    assert not list(folder.glob("*made*"))


def test_trees_become_a_folder_to_train_on(prepare_data, tmp_path):
    """Weights and several files; what is bad is named, left out and counted."""
    gold, silver = tree_lines(3, 7), tree_lines(5, 11)
    write(tmp_path / "gold", [*gold, "(S (NP (NN fox))"])
    write(tmp_path / "silver", silver)
    trees = ["--train_trees=gold:2", "--train_trees=silver", "--valid_trees=silver"]
    write(tmp_path / "flags", [*trees, "--task=parsing", "--skip_bad"])
    done = prepare_data(flagfile="flags", data_dir="data", vocab_size=290, json=True)
    assert done.returncode == 0, done.stderr
    assert "left out: gold, line 8: a bracket is not closed" in done.stdout
    assert "train: 19 pairs read, 25 encoded, dropped: 1 unreadable" in done.stdout
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["task"] == "parsing"
    assert summary["dataset"] == "gold:2 silver"
    assert (tmp_path / "data" / "labels.json").exists()


@pytest.mark.long
def test_full_disk_ends_in_one_line_and_leaves_nothing(repository, corpus, tmp_path):
    """A limit on the size of files stands in for the end of the disk."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    program = repository / "bin" / "prepare_data.py"
    code = f"{limit}; import runpy; runpy.run_path({str(program)!r}, None, '__main__')"
    arguments = [f"--{name}={path}" for name, path in corpus.items()]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--data_dir=data", "--vocab_size=300"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search("File too large: .*data", done.stderr.splitlines()[-1])
    assert not list(tmp_path.glob("*data*"))
