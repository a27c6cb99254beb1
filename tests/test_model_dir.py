"""Which weights of a run are used."""

import pytest

from keras_transformer.model_dir import ModelDir


@pytest.fixture
def place(tmp_path):
    """A run with checkpoints of steps 2 and 4, the best of step 2."""
    place = ModelDir(tmp_path)
    for step in (2, 4):
        place.checkpoints().save(step, {})
    place.checkpoints("best").save(2, {})
    return place


def test_the_average_comes_first_then_the_best_then_the_newest(place):
    place.checkpoints("averaged").save(4, {})
    assert place.choose().path.parent.name == "averaged"
    assert place.choose("best").step == 2
    assert place.choose("latest").step == 4


def test_an_average_from_before_training_went_on_is_used_only_where_asked_for(place):
    place.checkpoints("averaged").save(2, {})
    assert place.choose().path.parent.name == "best"
    assert place.choose("averaged").path.parent.name == "averaged"


def test_an_average_alone_is_used(tmp_path):
    ModelDir(tmp_path).checkpoints("averaged").save(2, {})
    assert ModelDir(tmp_path).choose().step == 2


def test_no_weights_at_all_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="No checkpoint in"):
        ModelDir(tmp_path).choose()
