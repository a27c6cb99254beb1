"""Habits of Keras's callbacks."""

import keras
import numpy as np
import pytest

from tests.keras_habits.models import arrays, compiled

DIRECTIONS = {
    "loss": keras.ops.less,
    "nll": keras.ops.less,
    "perplexity": keras.ops.less,
    "token_accuracy": keras.ops.greater,
}


@pytest.mark.long
def test_callbacks_know_whether_a_metric_should_fall_or_rise(tmp_path):
    model = compiled()
    callbacks = {}
    for name in [*DIRECTIONS, *(f"val_{name}" for name in DIRECTIONS)]:
        best = keras.callbacks.ModelCheckpoint(
            tmp_path / f"{name}.weights.h5",
            name,
            save_best_only=True,
            save_weights_only=True,
        )
        stop = keras.callbacks.EarlyStopping(name)
        callbacks[name] = [best, stop, keras.callbacks.ReduceLROnPlateau(name)]
    model.fit(
        *arrays(),
        validation_data=arrays(seed=1),
        verbose=0,
        callbacks=sum(callbacks.values(), []),
    )
    for name, group in callbacks.items():
        for callback in group:
            assert callback.monitor_op is DIRECTIONS[name.removeprefix("val_")], name
        assert (tmp_path / f"{name}.weights.h5").exists()


@pytest.mark.long
def test_early_stopping_stops_where_perplexity_rises():
    """The first epoch is the best; the weights of it come back."""
    model = compiled(keras.optimizers.SGD(-1.0))
    stop = keras.callbacks.EarlyStopping(
        monitor="val_perplexity", patience=1, restore_best_weights=True
    )
    options = {"validation_data": arrays(), "verbose": 0, "callbacks": [stop]}
    history = model.fit(*arrays(), epochs=9, **options).history
    assert len(history["val_perplexity"]) == 2
    result = model.evaluate(*arrays(), verbose=0, return_dict=True)
    assert result["perplexity"] == pytest.approx(history["val_perplexity"][0], rel=1e-5)


@pytest.mark.long
def test_logs_name_the_metrics_of_both_data(tmp_path):
    """In the history, in a CSV file, and in what own callbacks get."""
    seen = {}
    own = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.update(logs)
    )
    table = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    board = keras.callbacks.TensorBoard(tmp_path / "board")
    history = compiled().fit(
        *arrays(),
        validation_data=arrays(seed=1),
        epochs=2,
        initial_epoch=1,
        verbose=0,
        callbacks=[own, table, board],
    )
    names = {"loss", "nll", "perplexity", "token_accuracy"}
    expected = names | {f"val_{name}" for name in names} | {"skipped"}
    assert set(history.history) == set(seen) == expected
    columns = (tmp_path / "log.csv").read_text().splitlines()[0].split(",")
    assert set(columns) == expected | {"epoch"}
    assert [*(tmp_path / "board").rglob("*tfevents*")]


@pytest.mark.long
def test_an_interrupted_fit_goes_on_where_it_was_backed_up(tmp_path):
    """The loss equals that of an uninterrupted one to every digit."""

    def fit(model, epochs):
        backup = keras.callbacks.BackupAndRestore(
            tmp_path / "backup", delete_checkpoint=False
        )
        options = {"epochs": epochs, "shuffle": False, "verbose": 0}
        return model.fit(*arrays(), **options, callbacks=[backup]).history["loss"]

    whole = compiled("adam").fit(*arrays(), epochs=3, shuffle=False, verbose=0)
    fit(compiled("adam"), epochs=2)
    np.testing.assert_array_equal(
        fit(compiled("adam"), epochs=3), whole.history["loss"][2:]
    )
