"""What a lower precision costs, counted on outputs that are made up."""

from keras_transformer.evaluation import rounding, score_translations
from keras_transformer.treebank import trees

REFERENCES = ["Ein Hund läuft schnell.", "Es regnet heute in Bonn.", "Ja."]
EXACT = ["Ein Hund läuft schnell.", "Es regnet heute in Köln.", "Ja."]
ROUNDED = ["Ein Hund rennt schnell.", "Es regnet heute in Köln.", "Nein."]


def test_outputs_that_differ_are_counted():
    cost = rounding.measure(ROUNDED, EXACT)
    assert cost == rounding.RoundingCost(lines=3, differing=2)
    assert str(cost) == "2 of 3 outputs differ from those in float32"
    many = rounding.measure(["a"] * 1000, ["a"] * 928 + ["b"] * 72)
    assert str(many) == "72 of 1,000 outputs differ from those in float32"


def test_bleu_is_that_of_each_precision():
    cost = rounding.measure(ROUNDED, EXACT, REFERENCES, ["de"] * 3)
    rounded, exact = (
        score_translations(outputs, REFERENCES, bootstrap_samples=0).sacrebleu
        for outputs in (ROUNDED, EXACT)
    )
    assert (cost.sacrebleu, cost.sacrebleu_float32) == (rounded, exact)
    assert rounded < exact
    assert str(cost).endswith(f"float32; BLEU {rounded:.2f}, in float32 {exact:.2f}")


def test_words_are_those_of_the_language():
    """Chinese is split into characters, of which three in four are right."""
    lines = ["我有狗。"], ["我有猫。"], ["我有猫。"]
    of_words = rounding.measure(*lines, ["de"]).sacrebleu
    assert rounding.measure(*lines, ["zh"]).sacrebleu > of_words


def test_trees_differ_by_brackets_and_labels():
    """A sentence without words has no tree in either precision."""
    first, other = map(trees.from_string, ("(S (XX a))", "(NP (XX a))"))
    again = trees.from_string("(S (XX a))")
    cost = rounding.measure([first, first, None], [other, again, None])
    assert cost == rounding.RoundingCost(lines=3, differing=1)
