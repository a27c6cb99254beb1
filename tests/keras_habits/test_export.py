"""`model.export` and `ExportArchive`, as with a functional model of Keras."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt

SIZES = {"num_layers": 1, "d_model": 6, "d_ff": 7, "num_heads": 2}
SOURCE = np.array([[5, 6, 1, 0, 0], [7, 8, 9, 4, 1], [3, 1, 0, 0, 0]], np.int32)
INPUTS = np.array([[2, 5, 3], [2, 9, 9], [2, 4, 10]], np.int32)


def make_model(dtype="float32", **fields):
    return kt.Transformer(kt.ModelConfig(vocab_size=13, **SIZES, **fields), dtype=dtype)


def trained():
    model = make_model()
    model.compile("adam", kt.LabelSmoothedCrossEntropy(0.1))
    model.fit(SOURCE, INPUTS, verbose=0)
    return model


def loaded(folder):
    path = folder / "model.keras"
    trained().save(path)
    return keras.saving.load_model(path)


def quantized():
    model = make_model()
    with pytest.warns(UserWarning, match="quantize"):
        model.quantize("int8")
    return model


MODELS = {
    "new": (lambda folder: make_model(), []),
    "loaded": (loaded, pytest.mark.long),
    "quantized": (lambda folder: quantized(), pytest.mark.long),
    "trained": (lambda folder: trained(), pytest.mark.release),
    "mixed": (lambda folder: make_model("mixed_bfloat16"), pytest.mark.release),
    "restricted": (lambda folder: make_model(attention_window=4), pytest.mark.release),
    "functional": (lambda folder: functional(make_model()), pytest.mark.release),
}


def functional(model):
    return keras.Model(model.inputs, model(*model.inputs))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=marks)
        for name, (make, marks) in MODELS.items()
    ],
)
def test_a_model_is_exported_without_a_signature(make, tmp_path):
    """As Keras documents it, for batches and lengths of any size."""
    model = make(tmp_path)
    model.export(tmp_path / "export", verbose=False)
    read = tf.saved_model.load(tmp_path / "export")
    for rows in (1, 3):
        given = SOURCE[:rows, : rows + 2], INPUTS[:rows, :rows]
        if isinstance(model, kt.Transformer):
            found, expected = read.serve(*given), model(*given)
        else:
            found, expected = read.serve([*given]), model([*given])
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.long
def test_an_export_needs_only_tensorflow(tmp_path):
    """Its default signature names the inputs."""
    model = make_model()
    model.export(tmp_path / "export", verbose=False)
    np.savez(tmp_path / "inputs", source_tokens=SOURCE, decoder_inputs=INPUTS)
    program = (
        "import sys, numpy as np, tensorflow as tf\n"
        "inputs = {k: tf.constant(v) for k, v in np.load('inputs.npz').items()}\n"
        "read = tf.saved_model.load('export')\n"
        "served = read.signatures['serving_default']\n"
        "np.save('logits', *served(**inputs).values())\n"
        "assert 'keras_transformer' not in sys.modules\n"
    )
    command = [sys.executable, "-I", "-c", program]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    logits = np.load(tmp_path / "logits.npy")
    np.testing.assert_allclose(logits, model(SOURCE, INPUTS), atol=1e-6)


@pytest.mark.long
def test_a_signature_of_ones_own_is_kept(tmp_path):
    model = make_model()
    own = [tf.TensorSpec((None, length), tf.int32) for length in (5, 3)]
    model.export(tmp_path / "fixed", verbose=False, input_signature=own)
    read = tf.saved_model.load(tmp_path / "fixed")
    np.testing.assert_allclose(
        read.serve(SOURCE, INPUTS), model(SOURCE, INPUTS), atol=1e-6
    )
    with pytest.raises((TypeError, ValueError)):
        read.serve(SOURCE[:, :2], INPUTS)


@pytest.mark.long
def test_an_archive_has_endpoints_of_ones_own(tmp_path):
    model = make_model()
    archive = keras.export.ExportArchive()
    archive.track_and_add_endpoint("logits", model, model.inputs)
    archive.add_endpoint("encode", model.encode, model.inputs[:1])
    archive.write_out(tmp_path / "archive", verbose=False)
    read = tf.saved_model.load(tmp_path / "archive")
    for found, expected in (
        (read.logits(SOURCE, INPUTS), model(SOURCE, INPUTS)),
        (read.encode(SOURCE), model.encode(SOURCE)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.long
def test_a_model_becomes_a_file_of_lite_rt(tmp_path):
    model = make_model()
    model.export(tmp_path / "model.tflite", format="litert", verbose=False)
    assert (tmp_path / "model.tflite").stat().st_size > 0
