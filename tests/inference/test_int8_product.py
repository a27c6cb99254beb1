"""Products of 8-bit integers, and the rounding before them."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import hardware
from keras_transformer.inference import int8_product, loaded_tensors
from keras_transformer.inference.int8_product import Int8Matrix

needs_int8 = pytest.mark.skipif(
    not hardware.has_fast_int8(), reason="without VNNI sums overflow: never used there"
)


def random_floats(*shape):
    return np.random.default_rng(3).normal(size=shape).astype("float32")


@pytest.mark.parametrize("axis", [-2, -1])
def test_rounding_is_off_by_half_a_step_at_most(axis):
    matrix = random_floats(3, 5, 7)
    matrix[1] = 0
    rounded = int8_product.quantized(tf.constant(matrix), axis)
    assert rounded.values.dtype == tf.int8
    ranges = np.abs(matrix).max(axis)
    np.testing.assert_array_equal(rounded.ranges, ranges)
    np.testing.assert_array_equal(
        np.abs(rounded.values).max(axis), np.where(ranges > 0, 127, 0)
    )
    error = np.abs(int8_product.dequantized(rounded, axis) - matrix)
    assert (error <= np.expand_dims(ranges, axis) * (0.5 / 127 + 1e-6)).all()


def test_rows_of_a_table_are_those_of_its_floats():
    table = int8_product.quantized(tf.constant(random_floats(9, 4)), -1)
    ids = [[0, 8], [3, 3]]
    np.testing.assert_array_equal(
        int8_product.rows(table, tf.constant(ids)),
        np.asarray(int8_product.dequantized(table, -1))[ids],
    )


def product(inputs, matrix, **options):
    """Multiply in a graph whose numbers of rows and columns are unknown."""

    def multiply(inputs, values, ranges):
        matrix = Int8Matrix(values, ranges)
        return int8_product.multiply(inputs, matrix, **options)

    return tf.function(multiply, autograph=False, reduce_retracing=True)(
        tf.constant(inputs), *matrix
    )


@needs_int8
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 6, 7), (3, 512, 130), (70, 64, 65)])
def test_a_product_is_that_of_the_rounded_matrices(sizes, transpose_b, is_constant):
    num_rows, width_in, width_out = sizes
    inputs, weights = random_floats(num_rows, width_in), random_floats(*sizes[1:])
    matrix = int8_product.quantized(tf.constant(weights), -2)
    rounded = int8_product.quantized(tf.constant(inputs), -1)
    expected = np.matmul(
        *(part.values.numpy().astype("int64") for part in (rounded, matrix))
    ) * np.outer(rounded.ranges, matrix.ranges / 127**2)
    if transpose_b:
        matrix = matrix._replace(values=tf.transpose(matrix.values))
    found = product(
        inputs, matrix, transpose_b=transpose_b, is_constant=is_constant
    ).numpy()
    assert found.shape == (num_rows, width_out)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    exact = inputs @ weights
    assert np.abs(found - exact).max() <= 0.03 * np.abs(exact).max()


@needs_int8
def test_the_largest_numbers_do_not_overflow():
    inputs, weights = np.ones((2, 512), "float32"), np.ones((512, 64), "float32")
    matrix = int8_product.quantized(tf.constant(weights), -2)
    np.testing.assert_allclose(product(inputs, matrix), 512.0, rtol=1e-6)


@needs_int8
def test_a_row_does_not_depend_on_the_others():
    """One is a thousand times as large, one is zero, and one is damaged."""
    inputs = random_floats(5, 32)
    inputs[1:4] = 1000 * inputs[1], np.zeros(32), np.full(32, np.nan)
    matrix = int8_product.quantized(tf.constant(random_floats(32, 8)), -2)
    together = product(inputs, matrix).numpy()
    alone = [product(row[np.newaxis], matrix).numpy()[0] for row in inputs]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[2], 0)
    assert np.isnan(together[3]).all()
    assert product(np.zeros((0, 32), "float32"), matrix).shape == (0, 8)


@pytest.mark.parametrize(
    ("told", "is_fast"),
    [
        ("flags\t: fpu avx2 avx512f avx512_vnni xsave\nbugs\t:", True),
        ("flags\t: fpu avx2 avx512f avx512_vnni2\n", False),
        ("processor\t: 0\n", False),
        (None, False),
    ],
)
def test_a_graph_looks_for_the_instructions(told, is_fast, tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    if told is not None:
        file.write_text(told)
    monkeypatch.setattr(hardware, "CPU_INFO", str(file))
    graph = tf.function(loaded_tensors.has_fast_int8, autograph=False)
    assert graph().numpy() == is_fast == hardware.has_fast_int8()
