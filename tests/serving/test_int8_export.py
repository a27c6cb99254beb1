"""Exports of 8-bit integers: small files that run on every CPU."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.config import ModelConfig
from keras_transformer.inference.quantized_weights import QuantizedWeights
from keras_transformer.inference.translator import Translator
from keras_transformer.model.transformer import Transformer
from keras_transformer.serving import saved_model
from keras_transformer.translation import exported_model
from tests.inference.test_int8_product import needs_int8
from tests.small_models import (
    LINES,
    inputs_of,
    make_parser,
    make_translator,
    stored_numbers,
)

TEXTS = [*LINES, "", "a", "one two"]


class Cpu:
    """What exports read about the CPU, which a test may change between two loads."""

    def __init__(self, path):
        self._path = path

    def has(self, flag):
        self._path.write_text(f"processor\t: 0\nflags\t\t: fpu avx2 {flag}\n")


@pytest.fixture
def cpu(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(hardware, "CPU_INFO", str(path))
    cpu = Cpu(path)
    cpu.has("sse")
    return cpu


def answers(version, name="serving_default"):
    """Load an export anew; return its answers to `TEXTS`."""
    loaded = tf.saved_model.load(str(version))
    found = loaded.signatures[name](**inputs_of(name, TEXTS))
    return {key: value.numpy() for key, value in found.items()}


def check_same(found, wanted):
    """The same texts, and scores as after other roundings."""
    for key, value in wanted.items():
        if value.dtype == np.float32:
            np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(found[key], value)


@needs_int8
@pytest.mark.long
def test_each_load_looks_at_the_cpu(cpu, tmp_path):
    """An export made on one kind of CPU searches on the other kind as made there."""
    wanted, translator = {}, make_translator()
    for flag in ("sse", hardware.VNNI):
        cpu.has(flag)
        wanted[flag] = translator.quantized().translate_batch(TEXTS)["scores"][:, 0]
        saved_model.export(
            translator.quantized(),
            tmp_path / flag,
            signatures=["serving_default"],
            check_texts=TEXTS,
        )
    assert not np.allclose(*wanted.values(), rtol=1e-4)
    for made_on in wanted:
        for flag, scores in wanted.items():
            cpu.has(flag)
            found = answers(tmp_path / made_on / "1")
            np.testing.assert_allclose(found["score"], scores, rtol=1e-3)


def test_an_unknown_machine_searches_with_floats(cpu, tmp_path, monkeypatch):
    """Where no file describes the processors."""
    monkeypatch.setattr(hardware, "CPU_INFO", str(tmp_path / "none"))
    searcher = make_translator().quantized()
    version = saved_model.export(
        searcher, tmp_path / "export", signatures=["serving_default"]
    )
    scores = searcher.translate_batch(TEXTS)["scores"][:, 0]
    np.testing.assert_allclose(answers(version)["score"], scores, rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("flag", ["sse", pytest.param(hardware.VNNI, marks=needs_int8)])
@pytest.mark.parametrize("make", [make_translator, make_parser])
def test_every_signature_of_an_export_is_that_of_the_searcher(
    make, flag, cpu, tmp_path
):
    cpu.has(flag)
    searcher = make().quantized()
    version = saved_model.export(searcher, tmp_path / "export")
    module = saved_model._MODULES[searcher.task](searcher)
    for name, function in module.signatures().items():
        wanted = function(**inputs_of(name, TEXTS))
        check_same(
            answers(version, name),
            {key: value.numpy() for key, value in wanted.items()},
        )


def wide_translator():
    """As `make_translator`, with matrices that outweigh all else."""
    tokenizer = make_translator().tokenizer
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        num_layers=2,
        d_model=128,
        d_ff=512,
        num_heads=4,
    )
    return Translator(Transformer(config), tokenizer, extra_decode_length=5)


def test_the_weights_are_in_the_file_once_as_integers(cpu, tmp_path):
    """With a signature that runs layers on whole sentences."""
    translator = wide_translator()
    version = saved_model.export(
        translator.quantized(),
        tmp_path / "int8",
        signatures=["serving_default", "score"],
    )
    stored = stored_numbers(version)
    sizes = [np.prod(weight.shape) for weight in translator.model.weights]
    matrices = sum(
        np.prod(weight.shape) for weight in translator.model.weights if weight.ndim == 2
    )
    assert stored[tf.int8] == matrices
    assert stored[tf.float32] < 0.05 * sum(sizes)
    size = exported_model.read_description(version)["weights_bytes"]
    assert size <= 0.3 * 4 * sum(sizes)


@pytest.mark.long
def test_an_export_of_integers_has_no_programs(cpu, tmp_path):
    version = saved_model.export(
        make_translator().quantized(),
        tmp_path,
        signatures=["serving_default"],
        description={"device": "cpu"},
    )
    assert "programs" not in exported_model.read_description(version)
    assert "compile" not in tf.saved_model.load(str(version)).signatures


@pytest.mark.long
def test_a_difference_between_model_and_export_is_found(cpu, tmp_path, monkeypatch):
    """The check compares with the searcher of integers."""
    searcher = make_translator().quantized()
    searcher.translate_batch(TEXTS)
    kept = QuantizedWeights._store
    monkeypatch.setattr(
        QuantizedWeights,
        "_store",
        lambda self, value, axis: kept(self, tf.reverse(value, [-1]), axis),
    )
    with pytest.raises(ValueError, match="differently from the model"):
        saved_model.export(
            searcher,
            tmp_path / "export",
            signatures=["serving_default"],
            check_texts=TEXTS,
        )
    assert not [*(tmp_path / "export").iterdir()]


def test_a_system_without_the_product_is_told_what_to_do(tmp_path, monkeypatch):
    """Such as macOS, where TensorFlow is built without oneDNN."""

    def load(path):
        raise FileNotFoundError("Op type not registered '_QuantizedMatMul' in binary.")

    version = saved_model.export(
        make_translator(), tmp_path, signatures=["serving_default"]
    )
    monkeypatch.setattr(tf.saved_model, "load", load)
    with pytest.raises(ValueError, match=r"8 bits.*--precision=float32"):
        exported_model.open_export(version)
