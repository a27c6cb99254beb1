"""The file that lists the corpora of a mixture, and what is refused in it."""

import dataclasses
import re
import subprocess
import sys

import pytest

from keras_transformer.config import PairFilters
from keras_transformer.data import corpora

GOOD = """
corpora:
  - {name: news, source: a.en, target: a.de, weight: 3, tag: <news>}
  - {name: back, source: b.en, target: b.de, weight: 1.5, max_length: 99}
  - {name: dev, split: valid, source: c.en, target: c.de}
"""


def read(folder, text=GOOD, **options):
    for name in "abcd":
        for side in ("en", "de"):
            (folder / f"{name}.{side}").write_text("one\n")
    (folder / "corpora.yaml").write_text(text)
    return corpora.read(folder / "corpora.yaml", **options)


def test_a_file_lists_corpora_with_paths_beside_it(tmp_path):
    found = read(tmp_path, filters=PairFilters(drop_duplicates=True))
    news, back, dev = found.corpora
    assert (news.name, news.weight, news.tag) == ("news", 3, "<news>")
    assert (news.source, news.target) == (tmp_path / "a.en", tmp_path / "a.de")
    assert (news.source_language, news.target_language) == ("en", "de")
    assert back.filters == PairFilters(max_length=99, drop_duplicates=True)
    assert [each.split for each in (news, back, dev)] == ["train", "train", "valid"]
    assert found.shares([7, 11]) == [3 / 4.5, 1.5 / 4.5]
    assert found.symbols == ("<news>",)


def test_without_weights_shares_follow_sizes_and_temperature(tmp_path):
    plain = re.sub(r", weight: [\d.]+", "", GOOD)
    assert read(tmp_path, plain).shares([3, 5]) == [3 / 8, 5 / 8]
    found = read(tmp_path, plain + "temperature: 2\n")
    assert found.shares([100, 400]) == pytest.approx([1 / 3, 2 / 3])


def test_both_directions_are_two_corpora_with_half_the_weight(tmp_path):
    found = read(tmp_path, GOOD.replace("tag: <news>", "both_directions: true"))
    there, back, other, dev = found.corpora
    assert (there.name, back.name) == ("news en-de", "news de-en")
    assert (there.weight, back.weight) == (1.5, 1.5)
    assert (back.source, back.target) == (tmp_path / "a.de", tmp_path / "a.en")
    assert [each.symbols for each in (there, back, other, dev)] == [
        (">>de<<",),
        (">>en<<",),
        (">>de<<",),
        (">>de<<",),
    ]


def test_a_weight_is_checked_wherever_it_is_from(tmp_path):
    news = read(tmp_path).corpora[0]
    with pytest.raises(ValueError, match="`weight` must be a number from 1e-06 to 1e"):
        dataclasses.replace(news, weight=0)


def test_the_language_comes_before_the_tag_and_only_if_there_are_several(tmp_path):
    changed = GOOD.replace("tag: <news>", "tag: <news>, target_language: fr")
    assert read(tmp_path, changed).corpora[0].symbols == (">>fr<<", "<news>")
    changed = GOOD.replace("tag: <news>", "tag: <news>, source_language: fr")
    assert read(tmp_path, changed).corpora[0].symbols == ("<news>",)


def test_reading_needs_no_tensorflow(tmp_path):
    read(tmp_path)
    code = (
        "import sys; from keras_transformer.data import corpora; "
        "corpora.read(sys.argv[1]); assert 'tensorflow' not in sys.modules"
    )
    path = str(tmp_path / "corpora.yaml")
    subprocess.run([sys.executable, "-c", code, path], check=True)


# What replaces what in the good file, and the error.
REFUSED = {
    "no weight left": (
        "weight: 3",
        "weight: 0",
        "corpus 'news': `weight` must be a number from 1e-06 to 1e+06, not 0. "
        "Correct it, or remove `weight`.",
    ),
    "negative": ("weight: 3", "weight: -1", "to 1e+06, not -1. Correct it"),
    "NaN": ("weight: 3", "weight: .nan", "to 1e+06, not nan. Correct it"),
    "infinite": ("weight: 3", "weight: .inf", "to 1e+06, not inf. Correct it"),
    "beyond float": ("weight: 3", f"weight: 1{'0' * 400}", "to 1e+06, not 1000"),
    "weight twice": (
        "weight: 3",
        "weight: 3, weight: 5",
        "corpora.yaml is not valid YAML: `weight` occurs twice",
    ),
    "list twice": (
        "corpora:",
        "corpora:\n  - {name: x}\ncorpora:",
        "corpora.yaml is not valid YAML: `corpora` occurs twice",
    ),
    "no date": ("name: news", "name: 2024-13-45", "not valid YAML: month must be"),
    "too deep": ("corpora:", "corpora: " + "[" * 3000, "is not valid YAML: maximum re"),
    "held-out language": (
        "split: valid",
        "split: valid, target_language: fr",
        "corpus 'dev': no training corpus has its `target_language`, 'fr'. Correct",
    ),
    "held-out tag": (
        "split: valid",
        "split: valid, tag: <nws>",
        "corpus 'dev': no training corpus has its `tag`, '<nws>'. Correct one.",
    ),
    "language as tag": ("<news>", "'>>news<<'", "`tag` must be one word in brackets"),
    "text": ("weight: 3", "weight: '3'", "`weight` must be a number, not '3'."),
    "yes": ("weight: 3", "weight: yes", "`weight` must be a number, not True."),
    "one weight": (
        "weight: 3, ",
        "",
        "corpus 'news': it has no weight, but others do. Give one to all or to none.",
    ),
    "held-out weight": (
        "split: valid",
        "split: valid, weight: 2",
        "corpus 'dev': `weight` is for split: train. Leave it out.",
    ),
    "both": (
        "corpora:",
        "temperature: 5\ncorpora:",
        "corpus 'news': `weight` and `temperature` exclude each other. Drop one.",
    ),
    "temperature 0": (
        "corpora:",
        "temperature: 0\ncorpora:",
        "`temperature` must be a number from 1 to 1e+06, not 0.",
    ),
    "name twice": (
        "name: back",
        "name: news",
        "corpus 'news': this name occurs twice. Rename one.",
    ),
    "files twice": (
        "source: b.en, target: b.de",
        "source: a.en, target: a.de",
        "corpus 'back': it has the same pairs as 'news'. Keep one, with a weight.",
    ),
    "files twice by other paths": (
        "source: b.en, target: b.de",
        "source: ./a.en, target: ./a.de",
        "corpus 'back': it has the same pairs as 'news'. Keep one, with a weight.",
    ),
    "name of two lines": (
        "name: news, ",
        'name: "ne\\nws", ',
        "entry 1 of `corpora`: `name` must be one line of text, not 'ne\\nws'. Rename",
    ),
    "dataset twice": (
        "source: b.en, target: b.de, weight: 1.5",
        "dataset: 'tfds:a', weight: 1}\n  - {name: again, dataset: 'tfds:a', weight: 1",
        "corpus 'again': it has the same pairs as 'back'.",
    ),
    "no name": ("name: news, ", "", "entry 1 of `corpora` has no name. Add `name: NA"),
    "no fields": (
        "{name: news, ",
        "5\n  - {name: news, ",
        "entry 1 of `corpora` has no",
    ),
    "name that is a number": (
        "name: news",
        "name: 2024",
        "must be one line of text, not 2024. Rename it, or put it into quotes.",
    ),
    "unknown field": (
        "tag:",
        "tags:",
        "corpus 'news': unknown field `tags`; known: name, split, source, target,",
    ),
    "unknown top field": ("corpora:", "seed: 3\ncorpora:", "unknown field `seed`; kno"),
    "unknown split": (
        "split: valid",
        "split: dev",
        "corpus 'dev': `split` must be one of train, valid, test, not 'dev'.",
    ),
    "no validation": (
        "split: valid",
        "weight: 1",
        "no corpus has `split: valid`. Add one; the default is train.",
    ),
    "Norwegian": (
        "weight: 3",
        "weight: 3, target_language: no",
        "`target_language` must be text, not False. Put it into quotes.",
    ),
    "malformed language": (
        "weight: 3",
        "weight: 3, target_language: German!",
        "`target_language` must be a language code such as de or pt-BR, not 'German!'.",
    ),
    "malformed tag": (
        "<news>",
        "news",
        "`tag` must be one word in brackets, such as <news>, and no piece",
    ),
    "tag with a space": ("<news>", "<my news>", "`tag` must be one word in brackets"),
    "tag of all vocabularies": ("<news>", "<pad>", "and no piece of every vocabulary"),
    "tag like a placeholder": ("<news>", "<ph1>", "such as <s>, not '<ph1>'."),
    "missing file": (
        "target: b.de",
        "target: x.de",
        "corpus 'back': no file ",
    ),
    "one side": (
        ", target: a.de",
        "",
        "corpus 'news': give `source` and `target`, two files, or `dataset`.",
    ),
    "files and dataset": (
        "weight: 3",
        "weight: 3, dataset: 'tfds:a'",
        "corpus 'news': `dataset` and `source` exclude each other. Drop one.",
    ),
    "filter": ("max_length: 99", "max_length: 1", "`max_length` must be at least 2."),
    "filter's type": ("max_length: 99", "max_length: long", "must be an integer, not"),
    "filter's truth": (
        "max_length: 99",
        "drop_duplicates: 1",
        "`drop_duplicates` must be true or false, not 1.",
    ),
    "one language": (
        "tag: <news>",
        "both_directions: true, source_language: de",
        "corpus 'news': `both_directions` needs two languages.",
    ),
    "no YAML": ("corpora:", "corpora: [", "corpora.yaml is not valid YAML: while"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_content_is_refused_in_one_line_that_says_what_to_do(tmp_path, case):
    old, new, message = REFUSED[case]
    assert old in GOOD
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "corpora.yaml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpora: []", "the list `corpora` is empty. Add a corpus."),
        ("", "has no list `corpora`. Begin it with `corpora:`."),
        ("- {name: news}", "has no list `corpora`. Begin it with `corpora:`."),
    ],
)
def test_a_file_without_corpora_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(tmp_path, text)


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file .*none\. Check --corpora\."):
        corpora.read(tmp_path / "none")
