"""How does the time of a layer grow with length and width? Compares with Table 1.

    python benchmarks/layer_types.py --output_dir=benchmarks

times one layer of each type of Table 1 over lengths n and widths d, fits the exponents
of n and d, and writes layer_types.md and layer_types.png. It takes about five minutes
on 2 CPU cores.

Same as in Table 1, attention is measured without its projections, which cost n d^2 like
a convolution. Sequential operations and path lengths are counted from the connections
of a layer, not timed.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer import atomic_files
from keras_transformer.cli import programs, startup

_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for layer_types.md and .png; default: not written."
)
_REPEATS = flags.DEFINE_integer("repeats", 5, "Timed calls; the median is reported.")

# k and r of Table 1.
KERNEL = 3
NEIGHBOURHOOD = 64


@dataclasses.dataclass(frozen=True)
class LayerType:
    """A row of Table 1."""

    name: str
    complexity: str
    # Exponents of n and of d.
    exponents: tuple[float, float]
    # `lengths` at `width`, where n dominates, and `widths` at `length`, where d does.
    lengths: tuple[int, ...]
    width: int
    widths: tuple[int, ...]
    length: int
    # Given n and d, returns a function that runs the layer on inputs [1, n, d].
    make: Callable[[int, int], Callable[[], Any]]
    sequential_operations: Callable[[int], int]
    path_length: Callable[[int], int]
    published: tuple[str, str]


def attention(length: int, width: int) -> Callable[[], Any]:
    """Return a function that runs full self-attention with one head."""
    import tensorflow as tf

    from keras_transformer.layers.attention import scaled_dot_product_attention

    inputs = tf.random.normal((1, 1, length, width))
    run = tf.function(lambda x: scaled_dot_product_attention(x, x, x)[0])
    return lambda: run(inputs).numpy()


def restricted(length: int, width: int) -> Callable[[], Any]:
    """Return a function that runs self-attention over `NEIGHBOURHOOD` positions."""
    import tensorflow as tf

    from keras_transformer.layers import restricted_attention

    sides = restricted_attention.neighbourhood(NEIGHBOURHOOD, causal=False)
    inputs = tf.random.normal((1, 1, length, width))
    run = tf.function(
        lambda x: restricted_attention.restricted_attention(x, x, x, *sides)[0]
    )
    return lambda: run(inputs).numpy()


def keras_layer(make_layer: Callable[[int], Any]) -> Callable:
    """Return `LayerType.make` for a Keras layer."""

    def make(length, width):
        import tensorflow as tf

        layer = make_layer(width)
        layer.build((1, length, width))
        inputs = tf.random.normal((1, length, width))
        run = tf.function(layer)
        return lambda: run(inputs).numpy()

    return make


def recurrent(width: int) -> Any:
    import keras

    return keras.layers.LSTM(width, return_sequences=True)


def convolutional(width: int) -> Any:
    import keras

    return keras.layers.Conv1D(width, KERNEL, padding="same")


def separable(width: int) -> Any:
    import keras

    return keras.layers.SeparableConv1D(width, KERNEL, padding="same")


def layers_until_met(length: int, reach: Callable[[int], int]) -> int:
    """Return the number of layers until the first position depends on the last.

    Args:
        length: n.
        reach: Maps the receptive field to that after one more layer.
    """
    seen, layers = 1, 0
    while seen < length:
        seen = reach(seen)
        layers += 1
    return max(layers, 1)


LAYER_TYPES = (
    LayerType(
        "self-attention",
        "n² d",
        (2, 1),
        lengths=(2048, 4096, 8192),
        width=64,
        widths=(512, 1024, 2048),
        length=1024,
        make=attention,
        sequential_operations=lambda n: 1,
        path_length=lambda n: layers_until_met(n, lambda seen: n),
        published=("O(1)", "O(1)"),
    ),
    LayerType(
        "recurrent (LSTM)",
        "n d²",
        (1, 2),
        lengths=(128, 256, 512),
        width=256,
        widths=(1024, 2048, 3072),
        length=16,
        make=keras_layer(recurrent),
        sequential_operations=lambda n: n,
        path_length=lambda n: n,
        published=("O(n)", "O(n)"),
    ),
    LayerType(
        "convolutional",
        "k n d²",
        (1, 2),
        lengths=(8192, 16384, 32768),
        width=128,
        widths=(512, 1024, 2048),
        length=512,
        make=keras_layer(convolutional),
        sequential_operations=lambda n: 1,
        path_length=lambda n: layers_until_met(n, lambda seen: KERNEL * seen),
        published=("O(1)", "O(log_k n)"),
    ),
    LayerType(
        "separable convolutional",
        "k n d + n d²",
        (1, 2),
        lengths=(8192, 16384, 32768),
        width=128,
        widths=(1024, 2048, 4096),
        length=1024,
        make=keras_layer(separable),
        sequential_operations=lambda n: 1,
        path_length=lambda n: layers_until_met(n, lambda seen: KERNEL * seen),
        published=("O(1)", "O(log_k n)"),
    ),
    LayerType(
        f"self-attention, restricted (r = {NEIGHBOURHOOD})",
        "r n d",
        (1, 1),
        lengths=(8192, 16384, 32768),
        width=64,
        widths=(1024, 2048, 4096),
        length=2048,
        make=restricted,
        sequential_operations=lambda n: 1,
        path_length=lambda n: layers_until_met(
            n, lambda seen: seen + NEIGHBOURHOOD // 2
        ),
        published=("O(1)", "O(n/r)"),
    ),
)


def fit_exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Return the slope of log(seconds) over log(size) by least squares."""
    import numpy as np

    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure_type(layer: LayerType, repeats: int) -> dict[str, Any]:
    """Time a layer type over lengths and over widths."""
    over_lengths = [
        measure.median_seconds(layer.make(length, layer.width), repeats)
        for length in layer.lengths
    ]
    over_widths = [
        measure.median_seconds(layer.make(layer.length, width), repeats)
        for width in layer.widths
    ]
    return {
        "layer": layer.name,
        "lengths": layer.lengths,
        "seconds_by_length": over_lengths,
        "widths": layer.widths,
        "seconds_by_width": over_widths,
        "exponent_n": fit_exponent(layer.lengths, over_lengths),
        "exponent_d": fit_exponent(layer.widths, over_widths),
    }


def table(results: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """Return a Markdown page with Table 1, published and measured."""
    lines = [
        "# Table 1, measured",
        "",
        "`python benchmarks/layer_types.py --output_dir=benchmarks`, "
        f"{machine['date']}, "
        f"{machine['cpu']}, {machine['cores']} cores, TensorFlow "
        f"{machine['tensorflow']}, float32, forward pass of one sequence.",
        "",
        "| layer | paper: operations | time grows as | sequential operations at "
        "n = 1,024 (paper) | layers until first and last position meet at n = 1,024 "
        "(paper) |",
        "|---|---|---|---|---|",
    ]
    for layer, result in zip(LAYER_TYPES, results, strict=True):
        operations, path = layer.published
        lines.append(
            f"| {layer.name} | {layer.complexity} | "
            f"n^{result['exponent_n']:.2f} (n = {layer.lengths[0]:,} to "
            f"{layer.lengths[-1]:,}, d = {layer.width}), "
            f"d^{result['exponent_d']:.2f} (d = {layer.widths[0]} to "
            f"{layer.widths[-1]:,}, n = {layer.length:,}) | "
            f"{layer.sequential_operations(1024):,} ({operations}) | "
            f"{layer.path_length(1024):,} ({path}) |"
        )
    lines += [
        "",
        f"k = {KERNEL}; convolutions are dilated by k from layer to layer, which gives "
        "the paper's log_k n. Attention is counted without its projections, as in the "
        "paper.",
        "",
        "![time over n and over d](layer_types.png)",
        "",
    ]
    return "\n".join(lines)


def plot(results: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Plot times over n and over d with logarithmic axes."""
    from matplotlib.figure import Figure

    from keras_transformer.visualization import figures

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, sizes, seconds, label in (
        (axes[0], "lengths", "seconds_by_length", "n (positions)"),
        (axes[1], "widths", "seconds_by_width", "d (width)"),
    ):
        for result in results:
            axis.loglog(result[sizes], result[seconds], "o-", label=result["layer"])
        axis.set_xlabel(label)
        axis.set_ylabel("seconds")
        axis.grid(True, which="both", alpha=0.3)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3
    )
    figures.save_png(figure, path)


def main() -> dict:
    """Measure, print one line of JSON per layer type, write table and plot."""
    startup.import_tensorflow()
    from keras_transformer.hardware import describe

    machine = describe()
    results = []
    for layer in LAYER_TYPES:
        result = measure_type(layer, _REPEATS.value)
        results.append(result)
        measure.write_line(**result, **machine)
    if _OUTPUT_DIR.value is not None:
        folder = pathlib.Path(_OUTPUT_DIR.value)
        atomic_files.atomic_write(folder / "layer_types.md", table(results, machine))
        plot(results, folder / "layer_types.png")
    return {"results": results, "machine": machine}


if __name__ == "__main__":
    programs.run(main)
