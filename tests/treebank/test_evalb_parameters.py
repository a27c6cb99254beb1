"""EVALB's parameter files."""

import pytest

from keras_transformer.treebank.evalb_parameters import EvalbParameters, read_parameters


def read(tmp_path, text):
    path = tmp_path / "rules.prm"
    path.write_text(text)
    return read_parameters(path)


def test_the_defaults_are_collins_rules(shared_data):
    path = shared_data / "evalb" / "COLLINS.prm"
    if not path.is_file():
        pytest.skip(f"no parameter file of EVALB: {path} is absent")
    assert read_parameters(path) == EvalbParameters()


def test_every_keyword_is_read(tmp_path):
    found = read(
        tmp_path,
        "## a comment ##\n\nDEBUG 0\nMAX_ERROR 7  \nCUTOFF_LEN\t70\nLABELED 0\n"
        "DELETE_LABEL TOP\nDELETE_LABEL #\nDELETE_LABEL_FOR_LENGTH -NONE-\n"
        "QUOTE_LABEL POS\nEQ_LABEL ADVP PRT\nEQ_LABEL T TT\nEQ_WORD This this\n",
    )
    assert found == EvalbParameters(
        delete_labels=frozenset({"TOP", "#"}),
        delete_labels_for_length=frozenset({"-NONE-"}),
        quote_labels=frozenset({"POS"}),
        equal_labels=frozenset({frozenset({"ADVP", "PRT"}), frozenset({"T", "TT"})}),
        equal_words=frozenset({frozenset({"This", "this"})}),
        labeled=False,
        cutoff_length=70,
        max_errors=7,
    )


def test_labels_missing_from_a_file_are_not_deleted(tmp_path):
    found = read(tmp_path, "# nothing\n")
    assert not found.delete_labels | found.delete_labels_for_length
    assert not found.equal_labels | found.equal_words | found.quote_labels
    assert (found.labeled, found.cutoff_length, found.max_errors) == (True, 40, 10)


def test_equality_is_symmetric_and_not_transitive():
    rules = EvalbParameters(
        equal_labels=frozenset({frozenset({"A", "B"}), frozenset({"B", "C"})})
    )
    assert rules.same_label("A", "B") and rules.same_label("B", "A")
    assert not rules.same_label("A", "C")
    assert rules.same_word("A", "A") and not rules.same_word("A", "B")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "DELETE_LABELS TOP",
            "line 2: the keyword must be one of DELETE_LABEL, ",
        ),
        ("DELETE_LABEL", "line 2: DELETE_LABEL takes 1 value. Received: 'DELETE_LAB"),
        ("DELETE_LABEL TOP S1", "line 2: DELETE_LABEL takes 1 value. Received: "),
        ("EQ_LABEL ADVP", "line 2: EQ_LABEL takes 2 values. Received: 'EQ_LABEL ADVP'"),
        ("CUTOFF_LEN long", "line 2: CUTOFF_LEN takes an integer of at least 1. .*'lo"),
        ("MAX_ERROR 0", "line 2: MAX_ERROR takes an integer of at least 1. .*'0'"),
        ("LABELED yes", r"line 2: LABELED takes an integer\. Received: 'yes'"),
    ],
)
def test_a_bad_line_is_an_error_with_file_and_line(tmp_path, line, message):
    with pytest.raises(ValueError, match=f"rules.prm, {message}"):
        read(tmp_path, f"DELETE_LABEL TOP\n{line}\n")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No file .*absent.prm"):
        read_parameters(tmp_path / "absent.prm")


def test_numbers_must_be_at_least_1():
    with pytest.raises(ValueError, match="`cutoff_length` must be at least 1"):
        EvalbParameters(cutoff_length=0)
    with pytest.raises(ValueError, match="`max_errors` must be at least 1"):
        EvalbParameters(max_errors=0)
