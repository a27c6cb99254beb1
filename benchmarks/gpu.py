"""How fast is a GPU, beside CTranslate2 and Hugging Face Transformers on the same one?

    python benchmarks/gpu.py search files --peer_python=python3

runs the parts that are named, one after the other:

* search: beam searches of base with random weights, 30 to 40 tokens, for each of
  --batch_sizes and --precisions, beside CTranslate2 and, run by --peer_python,
  Transformers' `generate`.
* files: a file of --lines lines with the lengths of captions and of news, text to text
  through an export, beside CTranslate2 with several batch sizes. The model is of the
  same size and copies its source, so that its outputs end as those of a trained one.

Writes a line of JSON as soon as there is a figure. A part that fails writes a line with
its error, and the next one runs. Without a GPU it runs on the CPU, such as for a test
with --preset=tiny.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import fixed_lengths, measure
from keras_transformer import presets
from keras_transformer.cli import programs, startup

_PRESET = flags.DEFINE_string("preset", "base", "Name of the model's configuration.")
_BATCH_SIZES = flags.DEFINE_list("batch_sizes", ["1", "32", "128", "512"], "Sentences.")
_PRECISIONS = flags.DEFINE_list(
    "precisions", ["bfloat16", "float32"], "Of both; without TF32."
)
_LINES = flags.DEFINE_integer("lines", 20_000, "Lines of the file.", lower_bound=1)
_REPEATS = flags.DEFINE_integer("repeats", 7, "Calls of each, by turns.", lower_bound=1)
_PEER_PYTHON = flags.DEFINE_string(
    "peer_python", None, "A Python with PyTorch and Transformers; default: leave out."
)

_SOURCE_LENGTH, _STEPS = 30, 40
# Of the file: mean and deviation of the logarithms of the number of words, for captions
# and for news, half of the lines each.
_LENGTHS = ((2.5, 0.3), (3.1, 0.5))
_LONGEST = 100
_FILE_ROWS = 384
# (most of a batch, unit) of CTranslate2.
_PEER_BATCHES = ((128, "examples"), (512, "examples"), (16384, "tokens"))
_PEER_PROGRAM = pathlib.Path(__file__).with_name("lib") / "huggingface_generate.py"


def main(named: Sequence[str]) -> dict:
    """Run the parts that are named; all without a name."""
    parts = {"search": search, "files": files}
    named = named or [*parts]
    unknown = [name for name in named if name not in parts]
    if unknown:
        raise ValueError(f"Parts are {', '.join(parts)}. Received: {unknown[0]}.")
    startup.import_tensorflow()
    import tensorflow as tf

    # CTranslate2 multiplies float32 without it.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    measure.write_line(part="machine", **measure.environment("bfloat16"))
    failed = []
    for name in named:
        try:
            parts[name]()
        except Exception as error:  # the other parts are worth their time
            measure.write_line(part=name, error=f"{type(error).__name__}: {error}")
            failed.append(name)
    return {"failed": failed}


def search() -> None:
    """Time searches of fixed lengths."""
    sizes = [int(size) for size in _BATCH_SIZES.value]
    for precision in _PRECISIONS.value:
        with _random_models(precision) as (translator, peer):
            for size in sizes:
                number = translator.programs.sizes.index((size, 32, 1))
                compile_program = translator.programs.signatures()["compile"]
                seconds = _compile_all(compile_program, [number])
                _search_of(translator, peer, size, precision, seconds)
    if _PEER_PYTHON.value:
        for precision in _PRECISIONS.value:
            command = [_PEER_PYTHON.value, str(_PEER_PROGRAM), precision]
            subprocess.run([*command, *map(str, sizes)], check=True)


def _compile_all(compile_program, numbers: Sequence[int]) -> float:
    """Compile programs, at the same time; return the seconds."""
    import tensorflow as tf

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
        [
            *pool.map(
                lambda number: compile_program(program=tf.constant([number])), numbers
            )
        ]
    return round(time.perf_counter() - began, 1)


@contextlib.contextmanager
def _random_models(precision):
    """Yield our translator, with programs, and the same model in CTranslate2."""
    import keras

    from benchmarks.lib import random_models
    from keras_transformer.inference.search_programs import Size

    preset = fixed_lengths.preset_of(_PRESET.value, _SOURCE_LENGTH, _STEPS)
    keras.utils.set_random_seed(0)
    plain = random_models.random_translator(preset.model, preset.decoding, precision)
    sizes = [Size(int(size), 32, 1) for size in sorted(_BATCH_SIZES.value, key=int)]
    with _peer(plain, precision) as peer:
        yield plain.with_prepared_weights(has_stacks=True, program_sizes=sizes), peer


@contextlib.contextmanager
def _peer(translator, precision):
    """Yield a model in CTranslate2, on the same device."""
    import ctranslate2

    from keras_transformer.inference import hardware
    from keras_transformer.serving import ctranslate2_converter

    with tempfile.TemporaryDirectory() as folder:
        ctranslate2_converter.convert(translator, folder, "float32")
        device = "cuda" if hardware.has_gpu() else "cpu"
        kind = precision if device == "cuda" else "float32"
        yield ctranslate2.Translator(folder, device=device, compute_type=kind)


def _search_of(translator, peer, size, precision, compile_s) -> None:
    """Time searches of one batch size, by turns."""
    import tensorflow as tf

    from benchmarks.lib import random_models

    vocab_size = translator.model.config.vocab_size
    texts = random_models.number_texts(vocab_size, size, _SOURCE_LENGTH, 0)
    batch, tokens = tf.constant(texts), translator.source_tokens(tf.constant(texts))[0]
    pieces = [[f"▁{word}" for word in text.split()] for text in texts]

    def ours_of_text():
        return translator.translate_batch(batch)["translations"].numpy()

    def ours_of_pieces():
        return translator.search(tokens).tokens.numpy()

    def peer_of_pieces():
        return peer.translate_batch(
            pieces,
            beam_size=translator.decoding.beam_size,
            min_decoding_length=_STEPS - 1,
            max_decoding_length=_STEPS,
            max_batch_size=size,
        )

    calls = [ours_of_pieces, ours_of_text, peer_of_pieces]
    rates = [size * _STEPS / seconds for seconds in _by_turns(calls)]
    measure.write_line(
        part="search",
        precision=precision,
        sentences=size,
        compile_s=compile_s,
        ours_tokens_per_s=round(rates[0]),
        ours_text_to_text_tokens_per_s=round(rates[1]),
        ctranslate2_tokens_per_s=round(rates[2]),
        times_faster=round(rates[0] / rates[2], 2),
    )


def _by_turns(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the median seconds of each call; they take turns."""
    for call in calls:
        call()
        call()
    times = [[] for _ in calls]
    for _ in range(_REPEATS.value):
        for call, own in zip(calls, times, strict=True):
            own += measure.seconds_of_calls(call, 1)
    return [statistics.median(own) for own in times]


def files() -> None:
    """Time a file of many lengths."""
    import keras
    import numpy as np
    import sentencepiece

    from benchmarks.lib import random_models
    from keras_transformer.serving import saved_model

    preset = presets.get(_PRESET.value)
    precision = _PRECISIONS.value[0]
    keras.utils.set_random_seed(0)
    translator = random_models.copying_translator(
        preset.model, preset.decoding, precision
    )
    vocab_size = preset.model.vocab_size
    draw = np.random.default_rng(0)
    lengths = np.exp(
        np.concatenate([draw.normal(*each, _LINES.value) for each in _LENGTHS])
    )
    lengths = np.clip(lengths[:: len(_LENGTHS)], 2, _LONGEST).astype(int).tolist()
    texts = [
        random_models.number_texts(vocab_size, 1, length + 1, number)[0]
        for number, length in enumerate(lengths)
    ]
    num_tokens = sum(lengths)
    model, _ = random_models.number_vocabulary(vocab_size)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    with tempfile.TemporaryDirectory() as folder, _peer(translator, precision) as peer:
        version = saved_model.export(
            translator,
            folder,
            signatures=[saved_model.SIGNATURE],
            description={"device": "gpu"},
        )
        _file_of_ours(version, texts, precision, num_tokens)
        for most, unit in _PEER_BATCHES:

            def translate(texts, most=most, unit=unit):
                found = peer.translate_batch(
                    processor.encode(texts, out_type=str),
                    beam_size=translator.decoding.beam_size,
                    max_batch_size=most,
                    batch_type=unit,
                    max_decoding_length=_LONGEST + 50,
                )
                return processor.decode([each.hypotheses[0] for each in found])

            translate(texts[:256])
            (seconds,) = measure.seconds_of_calls(lambda: translate(texts), 1)
            measure.write_line(
                part="files",
                peer=f"CTranslate2, {most} {unit}",
                precision=precision,
                seconds=round(seconds, 2),
                lines_per_s=round(len(texts) / seconds),
            )


def _file_of_ours(version, texts, precision, num_tokens) -> None:
    """Compile what the file needs, and translate it twice."""
    import tensorflow as tf

    from keras_transformer.inference.translator import translate_in_batches
    from keras_transformer.serving import saved_model

    loaded = saved_model.load_all(version)
    sizes = saved_model.read_description(version)["programs"]
    needed = [
        number
        for number, (rows, width, prefix) in enumerate(sizes)
        if rows == _FILE_ROWS and width <= 2 * _LONGEST and prefix == 1
    ]
    compile_s = _compile_all(loaded.signatures["compile"], needed)

    def translate_batch(text):
        found = loaded.signatures["serving_default"](text=text)
        return {
            "translations": found["translation"][:, tf.newaxis],
            "scores": found["score"][:, tf.newaxis],
            "truncated": found["truncated"],
        }

    for number in range(2):
        began = time.perf_counter()
        found = translate_in_batches(texts, _FILE_ROWS, translate_batch)
        seconds = time.perf_counter() - began
        measure.write_line(
            part="files",
            ours=f"time {number + 1}",
            precision=precision,
            compile_s=compile_s,
            seconds=round(seconds, 2),
            lines_per_s=round(len(texts) / seconds),
            tokens=num_tokens,
            copied=sum(
                each.text == text for each, text in zip(found, texts, strict=True)
            ),
        )


if __name__ == "__main__":
    programs.run(main, has_other_options=True)
