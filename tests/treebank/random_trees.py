"""Random trees for property-based tests with hypothesis."""

from hypothesis import strategies as st

from keras_transformer.treebank import trees

# "XX" is a label and a tag here: neither may be confused with the word symbol "XX".
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


# Words may contain brackets, that is, need not be escaped.
TREES = _over(st.recursive(_LEAVES, _over, max_leaves=13))
