"""Scores as people read them."""

import dataclasses

from keras_transformer import evaluation

SCORES = evaluation.TranslationScores(
    sacrebleu=27.345,
    sacrebleu_low=26.5,
    sacrebleu_high=28.1,
    bleu_tokenized=28.0,
    bleu_tokenized_lowercase=28.5,
    bleu_compound_split=28.75,
    chrf=55.5,
    exact_match=2.5,
    num_sentences=3003,
    signature="nrefs:1|tok:13a",
    tokenized_signature="nrefs:1|tok:moses-de",
    perplexity=4.9213,
)


def row(scores, name):
    """The value on the line that starts with `name`."""
    lines = evaluation.format_scores(scores).splitlines()
    (found,) = [line for line in lines if line.startswith(name + "  ")]
    return found.removeprefix(name).strip()


def test_every_score_has_a_line_with_its_name():
    assert row(SCORES, "sacreBLEU") == "27.34  (95 % interval 26.50 to 28.10)"
    assert row(SCORES, "BLEU, tokenized") == "28.00"
    assert row(SCORES, "BLEU, tokenized, lower case") == "28.50"
    assert row(SCORES, "BLEU, compounds split") == "28.75"
    assert row(SCORES, "chrF2") == "55.50"
    assert row(SCORES, "exact match") == "2.50 %"
    assert row(SCORES, "perplexity per token") == "4.921"
    assert row(SCORES, "sentences") == "3,003"
    assert row(SCORES, "sacreBLEU signature") == "nrefs:1|tok:13a"
    assert row(SCORES, "tokenized signature") == "nrefs:1|tok:moses-de"


def test_what_was_not_measured_has_no_line():
    bare = dataclasses.replace(
        SCORES, sacrebleu_low=None, sacrebleu_high=None, perplexity=None
    )
    assert row(bare, "sacreBLEU") == "27.34"
    assert "perplexity" not in evaluation.format_scores(bare)


def test_values_stand_in_one_column():
    lines = evaluation.format_scores(SCORES).splitlines()
    width = len("BLEU, tokenized, lower case") + 2
    assert all(line[width - 1] == " " and line[width] != " " for line in lines)


def test_parts_of_a_test_set_are_rows_of_a_table():
    other = dataclasses.replace(SCORES, sacrebleu=5.0, num_sentences=7)
    table = evaluation.format_parts("directions", {"en-de": SCORES, "de-en": other})
    assert table.splitlines() == [
        "directions  sentences  sacreBLEU  chrF2  exact match",
        "en-de           3,003      27.34  55.50       2.50 %",
        "de-en               7       5.00  55.50       2.50 %",
    ]
