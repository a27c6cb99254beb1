"""The flag that lets a search choose among likely pieces alone."""

from __future__ import annotations

from absl import flags

SHORTLIST = flags.DEFINE_bool(
    "shortlist",
    None,
    "Search among the pieces of MODEL_DIR/shortlist.npz that go with the source, which "
    "bin/make_shortlist.py makes: faster, and a few translations differ. Default: off.",
)
