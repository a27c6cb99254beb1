"""Data augmentation: trees with substituted constituents."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.treebank import trees
from keras_transformer.treebank.substitution import Substitution
from tests.treebank import random_trees

FOX = trees.from_string("(S (NP (DT The) (NN fox)) (VP (VBD saw) (NP (NNS dogs))))")
MOON = trees.from_string("(S (NP (DT A) (NN moon)) (VP (VBD hid) (NP (NNS stars))))")
LONG = trees.from_string(
    "(S (NP (DT All) (JJ red) (JJ shy) (NNS foxes) (RB too)) (VP (VBP sleep)))"
)


def draws(bank, tree, rate, count=200):
    """Return a counter of the variants drawn from a tree, as brackets."""
    random = np.random.default_rng(7)
    substitution = Substitution(bank, rate)
    return collections.Counter(
        str(substitution.draw(tree, random)) for _ in range(count)
    )


def test_a_constituent_replaces_one_with_the_same_label_and_parent():
    """There are two subjects and two predicates to choose from."""
    found = draws([FOX, MOON], FOX, rate=0.9)
    for subject in FOX.children[0], MOON.children[0]:
        for predicate in FOX.children[1], MOON.children[1]:
            assert found[f"(S {subject} {predicate})"] > 20
    # If the VP is kept, its object may still be replaced.
    assert found["(S (NP (DT The) (NN fox)) (VP (VBD saw) (NP (NNS stars))))"]
    assert sum(found.values()) == 200


def test_a_replacement_has_between_half_and_twice_the_number_of_words():
    """5 words do not replace 2, nor 2 words 5; 1 word replaces 2."""
    assert "All red" not in " ".join(draws([FOX, LONG], FOX, rate=0.9))
    subjects = {text.split(") (VP")[0] for text in draws([FOX, LONG], LONG, rate=0.9)}
    assert len(subjects) == 1
    assert "(VP (VBP sleep))" in " ".join(draws([FOX, LONG], FOX, rate=0.9))


def test_the_rate_is_the_probability_of_a_substitution():
    assert draws([FOX, MOON], FOX, rate=0.0) == {str(FOX): 200}
    changed = 200 - draws([FOX, MOON], FOX, rate=0.2)[str(FOX)]
    # Three constituents may be substituted, half of the time by an equal one:
    # 1 - 0.9 ** 3 = 0.27.
    assert 30 < changed < 80


@settings(max_examples=40, deadline=None)
@given(st.lists(random_trees.TREES, min_size=1, max_size=5), st.integers(0, 99))
def test_the_root_keeps_its_label_and_number_of_children(bank, seed):
    random = np.random.default_rng(seed)
    made = Substitution(bank, 0.5).draw(bank[0], random)
    assert made.label == bank[0].label
    assert len(made.children) == len(bank[0].children)
    known = {words for tree in bank for words in tree.words}
    assert set(made.words) <= known


def test_a_rate_outside_its_range_is_rejected():
    with pytest.raises(ValueError, match="`rate` must be in"):
        Substitution([FOX], 1.5)
