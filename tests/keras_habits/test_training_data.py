"""Habits of what `fit`, `evaluate` and `predict` are given."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.model.batch import unpack
from tests.keras_habits.models import arrays, compiled, make_config, make_model

SOURCE, TARGET = arrays()
INPUTS = np.concatenate([np.full((6, 1), 2, "int32"), TARGET[:, :-1]], axis=1)
FORMS = {
    "pair": (SOURCE, TARGET),
    "keras-hub": ((SOURCE, INPUTS), TARGET),
    "list": ([SOURCE, INPUTS], TARGET),
    "dict of inputs": ({"source_tokens": SOURCE, "decoder_inputs": INPUTS}, TARGET),
    "dict of one input": ({"source_tokens": SOURCE}, TARGET),
    "dict of a pair": {"source_tokens": SOURCE, "target_tokens": TARGET},
    "dict of all": {
        "source_tokens": SOURCE,
        "decoder_inputs": INPUTS,
        "labels": TARGET,
    },
}


def assert_same_history(found, expected):
    """Equal names and, but for rounding, values."""
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "convert", [np.int64, tf.constant, tf.RaggedTensor.from_tensor]
)
def test_every_form_is_the_same_batch(form, convert):
    data = keras.tree.map_structure(convert, FORMS[form])
    batch = unpack(data, make_config())
    np.testing.assert_array_equal(batch.source, SOURCE)
    np.testing.assert_array_equal(batch.target, TARGET)
    if batch.decoder_inputs is not None:
        np.testing.assert_array_equal(batch.decoder_inputs, INPUTS)


@pytest.mark.long
def test_every_form_trains_and_evaluates_the_same():
    """As arrays and as a dataset, with validation data of the same form."""
    results = []
    for form in ("pair", "keras-hub", "dict of a pair"):
        data = FORMS[form]
        x, y = data if isinstance(data, tuple) else (data, None)
        options = {"validation_data": data, "verbose": 0, "shuffle": False}
        results.append(compiled().fit(x, y, **options).history)
    data = tf.data.Dataset.from_tensors(FORMS["keras-hub"])
    options["validation_data"] = data
    results.append(compiled().fit(data, **options).history)
    for history in results:
        assert_same_history(history, results[0])


@pytest.mark.long
def test_predict_takes_what_fit_takes():
    model = make_model()
    expected = model(SOURCE, INPUTS)
    for form in ("pair", "keras-hub", "dict of a pair"):
        x = tf.data.Dataset.from_tensors(FORMS[form])
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)
    for x in ((SOURCE, INPUTS), FORMS["dict of inputs"][0]):
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)
        np.testing.assert_allclose(model.predict_on_batch(x), expected, atol=1e-5)


WRONG_FORMS = {
    "three inputs": (((SOURCE, INPUTS, SOURCE), TARGET), r"x=\(array, array, array\)"),
    "one input": (((SOURCE,), TARGET), r"x=\(array\), y=array"),
    "no target": (SOURCE, r"x=array, y=None"),
    "a pair as inputs": (((SOURCE, TARGET),), r"x=\(array, array\), y=None"),
    "other names": (
        ({"encoder_inputs": SOURCE}, TARGET),
        r"x={'encoder_inputs': array}",
    ),
    "no source": (({"decoder_inputs": SOURCE}, TARGET), r"x={'decoder_inputs': array}"),
    "two targets": ((FORMS["dict of all"], TARGET), r"'labels': array}, y=array"),
    "nested": (((SOURCE, (INPUTS, INPUTS)), TARGET), r"x=\(array, \(array, array\)\)"),
    "nested target": ((SOURCE, (TARGET,)), r"y=\(array\)"),
    "four parts": ((SOURCE, TARGET, None, None), "4 parts"),
    "texts": ((np.array(["one"]), np.array(["eins"])), "dtype=string.*tokenizer"),
    "shifted": (((SOURCE, INPUTS), TARGET[:, 1:]), r"shapes \(6, 5\) and \(6, 4\)"),
}


@pytest.mark.parametrize("name", WRONG_FORMS)
def test_other_structures_are_named_with_the_pair_that_is_expected(name):
    data, received = WRONG_FORMS[name]
    with pytest.raises(
        (ValueError, TypeError), match=f"Received: .*{received}"
    ) as raised:
        unpack(data, make_config())
    assert "\n" not in str(raised.value)
    if "x=" in received:
        assert "(source_tokens, target_tokens), ((source_tokens" in str(raised.value)


def test_fit_and_predict_name_the_structure_too():
    model = compiled()
    with pytest.raises(ValueError, match=r"Received: x=\(array, array, array\)"):
        model.fit((SOURCE, INPUTS, SOURCE), TARGET, verbose=0)
    with pytest.raises(ValueError, match=r"x=\(source_tokens, decoder_inputs\), "):
        model.predict(SOURCE, verbose=0)


def test_class_weight_is_refused():
    model = compiled()
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match="`class_weight` must .* `sample_weight`"):
            train(SOURCE, TARGET, class_weight={5: 2.0})


@pytest.mark.release
def test_arrays_that_change_their_length_train_together():
    """A generator, a PyDataset and ragged tensors, of batches of other lengths."""
    batches = [arrays(length=length) for length in (5, 7, 3)]

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return len(batches)

        def __getitem__(self, index):
            return batches[index]

    results = [
        compiled().fit(data, shuffle=False, verbose=0, steps_per_epoch=3).history
        for data in ((batch for batch in batches), Batches())
    ]
    assert_same_history(*results)
    ragged = [
        tf.RaggedTensor.from_tensor(side, padding=0, row_splits_dtype="int64")
        for side in batches[0]
    ]
    rows = compiled().fit(*batches[0], batch_size=4, shuffle=False, verbose=0).history
    again = compiled().fit(*ragged, batch_size=4, shuffle=False, verbose=0).history
    assert_same_history(again, rows)


@pytest.mark.long
def test_validation_split_cuts_rows_off():
    history = (
        compiled()
        .fit((SOURCE, INPUTS), TARGET, validation_split=1 / 3, verbose=0, shuffle=False)
        .history
    )
    found = (
        compiled()
        .fit(
            SOURCE[:4], TARGET[:4], validation_data=(SOURCE[4:], TARGET[4:]), verbose=0
        )
        .history
    )
    assert_same_history(history, found)
