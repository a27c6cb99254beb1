"""How much does one long text slow down the short texts in its batch?

    python benchmarks/mixed_lengths.py --preset=tiny --short_texts=31 --long_texts=1

makes a model with random weights and a vocabulary of numbers, exports it the same as
export/export_saved_model.py, and loads the export. Translates alternating --short_texts
texts of --short_length tokens, --long_texts of --long_length, and all of them in one
batch. Every output has --steps tokens, regardless of its source. Prints one line of
JSON; its keys are explained in benchmarks/README.md.
"""

from __future__ import annotations

import functools
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from unittest import mock

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs

_PRESET = flags.DEFINE_string("preset", "tiny", "Name of the model's configuration.")
_SHORT_TEXTS = flags.DEFINE_integer(
    "short_texts", 31, "Number of short texts.", lower_bound=1
)
_SHORT_LENGTH = flags.DEFINE_integer(
    "short_length", 20, "Tokens of a short text, including EOS.", lower_bound=2
)
_LONG_TEXTS = flags.DEFINE_integer(
    "long_texts", 1, "Number of long texts.", lower_bound=1
)
_LONG_LENGTH = flags.DEFINE_integer(
    "long_length", 400, "Tokens of a long text, including EOS.", lower_bound=2
)
_STEPS = flags.DEFINE_integer("steps", 24, "Tokens of an output.", lower_bound=1)
_BEAM_SIZE = flags.DEFINE_integer("beam_size", 4, "Beam size.", lower_bound=1)
_REPEATS = flags.DEFINE_integer("repeats", 7, "Number of rounds.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of weights and texts.", lower_bound=0)


_SIZES = ("short_texts", "short_length", "long_texts", "long_length")


def main() -> dict:
    """Export, load, time and print."""
    import keras
    import tensorflow as tf

    from benchmarks.lib import random_models
    from keras_transformer import presets, tasks
    from keras_transformer.config import DecodingConfig
    from keras_transformer.inference.translator import Translator
    from keras_transformer.serving import saved_model

    # Before making tokenizers: setting a seed deletes their TensorFlow resources.
    keras.utils.set_random_seed(_SEED.value)
    config = presets.get(_PRESET.value).model
    decoding = DecodingConfig(
        beam_size=_BEAM_SIZE.value,
        max_input_length=max(_SHORT_LENGTH.value, _LONG_LENGTH.value),
    )
    translator = random_models.random_translator(config, decoding, "float32")
    short, long = (
        random_models.number_texts(config.vocab_size, count, length, _SEED.value)
        for count, length in (
            (_SHORT_TEXTS.value, _SHORT_LENGTH.value),
            (_LONG_TEXTS.value, _LONG_LENGTH.value),
        )
    )

    def limits(self, tokens):
        """Limit all outputs to `--steps` tokens, whatever the source length."""
        del self
        return tf.fill([tf.shape(tokens)[0]], _STEPS.value)

    environment = measure.environment("float32")
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(Translator, "output_limits", limits),
    ):
        version = saved_model.export(
            translator, folder, signatures=[tasks.TRANSLATION.signature]
        )
        loaded = tf.saved_model.load(str(version))
        translate = loaded.signatures[tasks.TRANSLATION.signature]
        seconds = time_alternating(translate, [short, long, [*short, *long]])
    result = {
        "benchmark": "mixed_lengths",
        "preset": _PRESET.value,
        **{name: flags.FLAGS[name].value for name in _SIZES},
        "steps": _STEPS.value,
        "beam_size": _BEAM_SIZE.value,
        "repeats": _REPEATS.value,
        **figures(*seconds),
        "peak_megabytes": measure.memory_kib() // 1024,
        **environment,
    }
    measure.write_line(**result)
    return result


def time_alternating(
    translate: Callable, batches: list[list[str]]
) -> list[tuple[float, ...]]:
    """Return, for each batch, the seconds of `--repeats` calls."""
    import tensorflow as tf

    calls = [
        functools.partial(lambda text: translate(text=text)["score"].numpy(), text)
        for text in map(tf.constant, batches)
    ]
    for call in calls * 2:  # the second calls run the optimized graph
        call()
    rounds = [
        [measure.seconds_of_calls(call, 1)[0] for call in calls]
        for _ in range(_REPEATS.value)
    ]
    return list(zip(*rounds, strict=True))


def figures(
    short: Sequence[float], long: Sequence[float], mixed: Sequence[float]
) -> dict[str, float]:
    """Return medians, and the time of the mixed batch relative to the sum of both."""
    medians = {
        "short_s": statistics.median(short),
        "long_s": statistics.median(long),
        "mixed_s": statistics.median(mixed),
    }
    separate = medians["short_s"] + medians["long_s"]
    ratios = [
        together / (first + second)
        for first, second, together in zip(short, long, mixed, strict=True)
    ]
    return {
        **{name: measure.rounded(seconds) for name, seconds in medians.items()},
        "mixed_over_sum": measure.rounded(medians["mixed_s"] / separate),
        "min_mixed_over_sum": measure.rounded(min(ratios)),
        "max_mixed_over_sum": measure.rounded(max(ratios)),
    }


if __name__ == "__main__":
    programs.run(main)
