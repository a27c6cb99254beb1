"""Trees: reading, writing and cleaning."""

import gzip

import pytest
from hypothesis import given, settings

from keras_transformer.treebank import trees
from keras_transformer.treebank.trees import Leaf, Tree
from tests.treebank import random_trees

FOX = Tree(
    "S",
    (
        Tree("NP", (Leaf("DT", "The"), Leaf("NN", "fox"))),
        Tree("VP", (Leaf("VBD", "slept"),)),
        Leaf(".", "."),
    ),
)
FOX_LINE = "(S (NP (DT The) (NN fox)) (VP (VBD slept)) (. .))"


def test_a_tree_is_written_as_brackets_on_one_line():
    assert trees.write(FOX) == str(FOX) == FOX_LINE
    assert repr(FOX) == f"<Tree {FOX_LINE}>"


def test_brackets_are_parsed_with_any_white_space():
    spaced = "  (S(NP\t(DT The)(NN  fox))\n(VP (VBD slept)) (. .) )"
    assert trees.from_string(FOX_LINE) == FOX
    assert trees.from_string(spaced) == FOX


def test_a_tree_knows_its_words_tags_and_constituents():
    assert FOX.words == ["The", "fox", "slept", "."]
    assert FOX.tags == ["DT", "NN", "VBD", "."]
    assert trees.constituents(FOX) == [
        trees.Constituent("S", 0, 4),
        trees.Constituent("NP", 0, 2),
        trees.Constituent("VP", 2, 3),
    ]
    assert trees.depth(FOX) == 2


def test_trees_are_equal_by_labels_words_and_shape():
    assert hash(FOX) == hash(trees.from_string(FOX_LINE))
    assert trees.from_string(FOX_LINE.replace("VP", "NP")) != FOX
    assert trees.from_string(FOX_LINE.replace("fox", "cat")) != FOX
    assert trees.from_string("(S (DT The) (NN fox) (VP (VBD slept)) (. .))") != FOX
    assert FOX != FOX_LINE


@settings(max_examples=100, deadline=None)
@given(random_trees.TREES)
def test_every_tree_is_read_as_it_was_written(tree):
    """Writing escapes words, so reading gives them in the treebank's form."""
    once = trees.from_string(trees.write(tree))
    assert once.words == [trees.escape(word) for word in tree.words]
    assert once.tags == tree.tags
    assert trees.constituents(once) == trees.constituents(tree)
    assert trees.from_string(trees.write(once)) == once


def test_words_with_brackets_are_escaped():
    names = ["-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"]
    assert [trees.escape(word) for word in "()[]{}"] == names
    assert [trees.escape(word) for word in [":)", "f(x)", "a[0]", "-LRB-"]] == (
        [":-RRB-", "f-LRB-x-RRB-", "a[0]", "-LRB-"]
    )
    assert str(Tree("X", (Leaf("-LRB-", "("),))) == "(X (-LRB- -LRB-))"


def test_a_tree_may_be_deeper_than_python_recurses():
    line = "(X " * 5_000 + "(NN word)" + ")" * 5_000
    tree = trees.from_string(line)
    assert trees.depth(tree) == 5_000
    assert tree == trees.clean(tree)
    assert str(tree) == line
    assert hash(tree) == hash(trees.clean(tree))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Leaf("", "fox"), "`tag` must not be empty.* Received: tag=''"),
        (lambda: Leaf("N(", "fox"), r"`tag` .* round brackets. Received: tag='N\('"),
        (lambda: Leaf("NN", "red fox"), "`word` .* white space. .* word='red fox'"),
        (lambda: Leaf("NN", ""), "`word` must not be empty .* Received: word=''"),
        (lambda: Tree("N P", FOX.children), "`label` must not .* label='N P'"),
        (lambda: Tree("NP", ()), r"`children` must be .* at least one .*=\(\) under"),
        (lambda: Tree("NP", [FOX]), "`children` must be a tuple .* under 'NP'"),
    ],
)
def test_labels_and_words_that_brackets_cannot_represent_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("PP-LOC=1", "PP"),
        ("ADVP|PRT", "ADVP|PRT"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("=", "="),
        ("", ""),
    ],
)
def test_function_labels_are_removed_and_bracket_labels_kept(label, expected):
    assert trees.strip_function(label) == expected


def test_cleaning_removes_traces_and_constituents_without_other_words():
    """`SBAR` and its `S` contain only traces: EVALB's README, section 6."""
    raw = (
        "( (S (NP-SBJ-1 (PRP He)) (VP (VBD reported) (SBAR (-NONE- 0)"
        " (S (-NONE- *T*-1)))) (-LRB- -LRB-) (. .)))"
    )
    expected = "(S (NP (PRP He)) (VP (VBD reported)) (-LRB- -LRB-) (. .))"
    assert str(trees.clean(trees.from_string(raw))) == expected


@pytest.mark.parametrize("outer", ["", "ROOT", "TOP", "S1", "TOP (S1", "( (ROOT"])
def test_cleaning_removes_the_outermost_bracket(outer):
    raw = f"({outer} {FOX_LINE})" + ")" * outer.count("(")
    assert trees.clean(trees.from_string(raw)) == FOX


def test_cleaning_keeps_a_sentence_of_several_parts_under_top():
    raw = "( (S (VB Go)) (. .))"
    assert str(trees.clean(trees.from_string(raw))) == "(TOP (S (VB Go)) (. .))"
    assert str(trees.clean(trees.from_string("(ROOT (VB Go))"))) == "(TOP (VB Go))"


def test_cleaning_needs_a_word():
    only_trace = Tree("S", (Leaf("-NONE-", "*"),))
    message = "no words, only traces. Received: .S .-NONE-"
    with pytest.raises(ValueError, match=message):
        trees.clean(only_trace)


def test_trees_of_one_or_several_lines_are_read_with_their_locations(tmp_path):
    path = tmp_path / "wsj_0001.mrg"
    path.write_text(
        f"\n{FOX_LINE}\n\n( (S\n    (NP-SBJ (PRP He) )\n\n    (VP (VBZ is) )))\n"
        "(X (Y z))"
    )
    bank = trees.read_trees(path)
    assert [" ".join(tree.words) for tree in bank.trees] == [
        "The fox slept .",
        "He is",
        "z",
    ]
    assert bank.locations == [f"{path}, line {number}" for number in (2, 4, 8)]
    assert bank.problems == []


def test_a_folder_is_read_in_sorted_order_with_gzip_files(tmp_path):
    for name in ("wsj/01/wsj_0101.mrg", "wsj/00/wsj_0002.mrg", "wsj/00/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"(S (NN {name[-8:-4]}))\n")
    with gzip.open(tmp_path / "wsj/00/wsj_0001.mrg.gz", "wt") as file:
        file.write("(S (NN 0001))\n")
    bank = trees.read_trees(tmp_path)
    assert [tree.words for tree in bank.trees] == [["0001"], ["0002"], ["0101"]]


def test_a_folder_without_trees_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No file \*.mrg or \*.mrg.gz in /"):
        trees.read_trees(tmp_path)
    with pytest.raises(FileNotFoundError, match="No file .*absent.mrg"):
        trees.read_trees(tmp_path / "absent.mrg")


_ALONE = "must be alone in a bracket with its tag"
BAD = {
    "(S (NN fox)": "line 2: a bracket is not closed; the tree that starts in line 2 "
    "needs 1 more closing bracket\\.",
    "(S\n  (NP (NN fox)": "line 3: a bracket is not closed; the tree that starts in "
    "line 2 needs 2 more closing brackets\\.",
    "(S (NN fox)))": "line 2: a closing bracket has no opening bracket",
    "(S (NN fox)) fox": "line 2: 'fox' is outside all brackets",
    "(S )": r"line 2: the bracket \(S\) has no words",
    "(S (NN fox) ())": r"line 2: the bracket \(\) has no words",
    "(S (-NONE- *))": "line 2: the tree has no words, only traces",
    "(S the (NN fox))": f"line 2: the word 'the' {_ALONE}",
    "(S (NN red fox))": f"line 2: the word 'fox' {_ALONE}",
    "(S (NN fox) red)": f"line 2: the word 'red' {_ALONE}",
    "(S ( (NN fox)))": "line 2: only the outermost bracket may have no label",
    "(S (NN fox)) (S (NN cat))": "line 2: a second tree starts on the same line",
    "(S (NN fox))\n  (S (NN cat))": "line 3: a second tree .* on an indented line",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_tree_is_an_error_with_file_and_line(tmp_path, text):
    path = tmp_path / "bad.mrg"
    path.write_text(f"(S (NN good))\n{text}\n(S (NN better))\n")
    with pytest.raises(ValueError, match=f"bad.mrg, {BAD[text]}"):
        trees.read_trees(path)


@pytest.mark.parametrize("text", BAD)
def test_skip_bad_leaves_out_bad_trees_and_reports_them(tmp_path, text):
    path = tmp_path / "bad.mrg"
    path.write_text(f"(S (NN good))\n{text}\n(S (NN better))\n")
    bank = trees.read_trees(path, skip_bad=True)
    assert [tree.words for tree in bank.trees] == [["good"], ["better"]]
    [problem] = bank.problems
    assert f"{path}, line " in problem


def test_text_before_the_first_tree_is_an_error_with_file_and_line(tmp_path):
    path = tmp_path / "headed.mrg"
    path.write_text("\nCopyright\n(S (NN fox))\n")
    with pytest.raises(ValueError, match="headed.mrg, line 2: 'Copyright' is outside"):
        trees.read_trees(path)


def test_an_empty_line_is_bad_with_one_tree_per_line(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("(S (NN fox))\n \n(S (NN cat))\n")
    with pytest.raises(ValueError, match="lines.txt, line 2: a tree is needed"):
        trees.read_trees(path, one_per_line=True)
    bank = trees.read_trees(path, one_per_line=True, skip_bad=True)
    assert len(bank.trees) == 2
    assert len(bank.problems) == 1
    assert bank.locations[1] == f"{path}, line 3"


def test_an_empty_line_may_stand_for_a_missing_parse(tmp_path):
    path = tmp_path / "parses.txt"
    path.write_text("(S (NN fox))\n\n(S (NN\n(A (B c)) (D e)\n")
    bank = trees.read_trees(path, one_per_line=True, allow_empty=True, skip_bad=True)
    fox, empty, bad, parts = bank.trees
    assert (fox.words, empty, bad) == (["fox"], None, None)
    assert parts == Tree("", (Tree("A", (Leaf("B", "c"),)), Leaf("D", "e")))
    assert len(bank.problems) == 1
    with pytest.raises(ValueError, match="`allow_empty` needs `one_per_line`"):
        trees.read_trees(path, allow_empty=True)


def test_written_files_are_read_back(tmp_path):
    path = tmp_path / "trees.txt"
    trees.write_trees(path, [FOX, None, FOX])
    assert path.read_text() == f"{FOX_LINE}\n\n{FOX_LINE}\n"
    bank = trees.read_trees(path, one_per_line=True, allow_empty=True)
    assert bank.trees == [FOX, None, FOX]
