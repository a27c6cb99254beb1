"""What tests of parsing share."""

import pytest

from keras_transformer.treebank import trees


@pytest.fixture(scope="session")
def treebank(shared_data) -> dict[str, list[trees.Tree]]:
    """Cleaned trees of the Penn Treebank's sample; skips where they are absent."""
    folder = shared_data / "treebank"
    if not folder.is_dir():
        pytest.skip(f"no treebank: {folder} is absent")
    return {
        name: [trees.clean(tree) for tree in trees.read_trees(folder / file).trees]
        for name, file in (("train", "train.mrg"), ("dev", "dev.mrg"))
    }
