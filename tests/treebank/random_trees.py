"""Trees that hypothesis draws."""

from hypothesis import strategies as st

from keras_transformer.treebank import trees

# "XX" is both a label and a tag here, to be told from the symbol of a word.
LABELS = ("S", "NP", "VP", "X", "XX", "-LRB-")

_LEAVES = st.builds(
    trees.Leaf,
    tag=st.sampled_from(["NN", "VBD", "XX", ".", ",", "-LRB-", "PRP$"]),
    word=st.one_of(
        st.sampled_from(["fox", "XX", ")NP", "-LRB-", "``", "a\N{NO-BREAK SPACE}b"]),
        st.text('ab()[{-"\N{LATIN SMALL LETTER E WITH ACUTE}', min_size=1, max_size=3),
    ),
)


def _over(children):
    return st.builds(
        trees.Tree,
        label=st.sampled_from(LABELS),
        children=st.lists(children, min_size=1, max_size=3).map(tuple),
    )


# Over any words, in which brackets may still stand.
TREES = _over(st.recursive(_LEAVES, _over, max_leaves=13))
