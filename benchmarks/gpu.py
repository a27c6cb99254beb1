"""How fast is a GPU, beside CTranslate2 and Hugging Face Transformers on the same one?

    python benchmarks/gpu.py search files start train --peer_python=python3

runs the parts that are named, one after the other:

* search: beam searches of base with random weights, 30 to 40 tokens, for each of
  --batch_sizes and --precisions, beside CTranslate2 and, run by --peer_python,
  Transformers' `generate`.
* files: a file of --lines lines with the lengths of captions and of news, text to text
  through an export, beside CTranslate2 with several batch sizes. The model is of the
  same size and copies its source, so that its outputs end as those of a trained one.
* server: seconds from the start of export/serve.py with such an export to its first
  answer, with no program on disk and with all; then --requests requests.
* devices: 500 lines through exports for CPUs and for GPUs, each on the GPU and on the
  CPU: are the outputs the same? With --model_dir and --input of that model.
* start: seconds from the start of bin/train.py to its first and to its hundredth step,
  with the corpus and the settings of `make quickstart`; then again, with the programs
  that the first start compiled.
* train: training steps of --train_presets with --train_shapes, beside Transformers with
  torch.compile, and with lengths as of captions and news. Programs compile side by
  side, and each is timed alone. Float32 is in TF32 on both sides.

Writes a line of JSON as soon as there is a figure. A part that fails writes a line with
its error, and the next one runs. Each takes up to four minutes, `train` for each
preset. Variables such as XLA_FLAGS reach all programs. Without a GPU it runs on the
CPU, such as for a test with --preset=tiny.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
from keras_transformer.cli.flags import ModelFlags

_PRESET = flags.DEFINE_string("preset", "base", "Name of the model's configuration.")
_BATCH_SIZES = flags.DEFINE_list("batch_sizes", ["1", "32", "128", "512"], "Sentences.")
_PRECISIONS = flags.DEFINE_list(
    "precisions", ["bfloat16", "float32"], "Of both; without TF32."
)
_LINES = flags.DEFINE_integer("lines", 20_000, "Lines of the file.", lower_bound=1)
_LONGEST = flags.DEFINE_integer("longest", 100, "Most words of a line.", lower_bound=2)
_INPUT = flags.DEFINE_string("input", None, "Text file with the lines of `devices`.")
_REQUESTS = flags.DEFINE_integer(
    "requests", 5_000, "Requests to the server.", lower_bound=1
)
_REPEATS = flags.DEFINE_integer("repeats", 7, "Calls of each, by turns.", lower_bound=1)
_PEER_PYTHON = flags.DEFINE_string(
    "peer_python", None, "A Python with PyTorch and Transformers; default: leave out."
)
_START_STEPS = flags.DEFINE_integer(
    "start_steps", 100, "Last step of a start.", lower_bound=2
)
_TRAIN_PRESETS = flags.DEFINE_list(
    "train_presets", ["base"], "Configurations to train: base, big."
)
_TRAIN_SHAPES = flags.DEFINE_list(
    "train_shapes", ["200x64", "800x64"], "Rows x tokens of each side of a batch."
)
_TRAIN_STEPS = flags.DEFINE_integer(
    "train_steps", 20, "Steps timed at once, three times.", lower_bound=1
)
_MODEL = ModelFlags()

_SOURCE_LENGTH, _STEPS = 30, 40
# Of the file: mean and deviation of the logarithms of the number of words, for captions
# and for news, half of the lines each.
_LENGTHS = ((2.5, 0.3), (3.1, 0.5))
_FILE_ROWS = 384
_LINES_OF_DEVICES = 500
# (most of a batch, unit) of CTranslate2.
_PEER_BATCHES = ((128, "examples"), (512, "examples"), (16384, "tokens"))
_PEER_PROGRAM = pathlib.Path(__file__).with_name("lib") / "huggingface_generate.py"


def main(named: Sequence[str]) -> dict:
    """Run the parts that are named; all without a name."""
    parts = {
        **{"search": search, "files": files, "server": server, "devices": devices},
        **{"start": start, "train": train},
    }
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
    from benchmarks.lib import compiled_export

    sizes = [int(size) for size in _BATCH_SIZES.value]
    for precision in _PRECISIONS.value:
        with _random_models(precision) as (translator, peer):
            for size in sizes:
                number = translator.programs.sizes.index(_program_size(size))
                compile_program = translator.programs.signatures()["compile"]
                seconds = compiled_export.compile_all(compile_program, [number])
                _search_of(translator, peer, size, precision, seconds)
    if _PEER_PYTHON.value:
        for precision in _PRECISIONS.value:
            command = [_PEER_PYTHON.value, str(_PEER_PROGRAM), precision]
            subprocess.run([*command, *map(str, sizes)], check=True)


def _program_size(sentences: int):
    """Return the size of the program that batches are searched with.

    Batches larger than all get one of their own.
    """
    from keras_transformer import hardware
    from keras_transformer.translation import program_sizes

    needed = program_sizes.Size(sentences, _SOURCE_LENGTH, 1)
    for size in program_sizes.sizes_for(hardware.device(), 0, _SOURCE_LENGTH):
        if size.most_rows >= needed.rows and size.width >= needed.width:
            return size
    return needed


@contextlib.contextmanager
def _random_models(precision):
    """Yield our translator, with programs, and the same model in CTranslate2."""
    import keras

    from benchmarks.lib import random_models

    preset = fixed_lengths.preset_of(_PRESET.value, _SOURCE_LENGTH, _STEPS)
    keras.utils.set_random_seed(0)
    plain = random_models.random_translator(preset.model, preset.decoding, precision)
    sizes = sorted({_program_size(int(size)) for size in _BATCH_SIZES.value})
    with _peer(plain, precision) as peer:
        yield plain.with_prepared_weights(has_stacks=True, program_sizes=sizes), peer


@contextlib.contextmanager
def _peer(translator, precision):
    """Yield a model in CTranslate2, on the same device."""
    import ctranslate2

    from keras_transformer import hardware
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
    import sentencepiece

    from benchmarks.lib import random_models

    precision = _PRECISIONS.value[0]
    translator, texts = _copying_translator(precision), _texts(_LINES.value)
    model, _ = random_models.number_vocabulary(translator.model.config.vocab_size)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    with tempfile.TemporaryDirectory() as folder, _peer(translator, precision) as peer:
        _file_of_ours(_export(translator, folder, "gpu"), texts, precision)
        for most, unit in _PEER_BATCHES:

            def translate(texts, most=most, unit=unit):
                found = peer.translate_batch(
                    processor.encode(texts, out_type=str),
                    beam_size=translator.decoding.beam_size,
                    max_batch_size=most,
                    batch_type=unit,
                    max_decoding_length=_LONGEST.value + 50,
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


def _copying_translator(precision: str):
    """Return a translator that copies, with room for sources of the longest lines."""
    import keras

    from benchmarks.lib import random_models

    preset = presets.get(_PRESET.value)
    keras.utils.set_random_seed(0)
    decoding = dataclasses.replace(preset.decoding, max_input_length=_LONGEST.value + 1)
    return random_models.copying_translator(preset.model, decoding, precision)


def _texts(count: int) -> list[str]:
    """Return lines with the lengths of captions and of news."""
    import numpy as np

    from benchmarks.lib import random_models

    draw = np.random.default_rng(0)
    lengths = np.exp(np.concatenate([draw.normal(*each, count) for each in _LENGTHS]))
    lengths = np.clip(lengths[:: len(_LENGTHS)], 2, _LONGEST.value).astype(int)
    vocab_size = presets.get(_PRESET.value).model.vocab_size
    return [
        random_models.number_texts(vocab_size, 1, length + 1, number)[0]
        for number, length in enumerate(lengths.tolist())
    ]


def _export(translator, folder: str, device: str) -> pathlib.Path:
    """Export a translator for a kind of device; return the folder of the version."""
    from keras_transformer import tasks
    from keras_transformer.serving import saved_model

    return saved_model.export(
        translator,
        folder,
        signatures=[tasks.TRANSLATION.signature],
        description={"device": device},
    )


def _file_of_ours(version, texts, precision) -> None:
    """Compile what the file needs, and translate it twice."""
    from benchmarks.lib import compiled_export
    from keras_transformer.translation.pipeline import translate_in_batches

    translate_batch, compile_s = compiled_export.load(
        version, _FILE_ROWS, _LONGEST.value + 1
    )
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
            tokens=sum(len(text.split()) for text in texts),
            copied=sum(
                each.text == text for each, text in zip(found, texts, strict=True)
            ),
        )


def server() -> None:
    """Time two starts of a server, and requests to it."""
    from benchmarks.lib import gpu_server
    from keras_transformer import hardware
    from keras_transformer.server.server_config import ServerConfig
    from keras_transformer.translation.program_sizes import usual_numbers

    precision = _PRECISIONS.value[0]
    translator = _copying_translator(precision)
    usual = usual_numbers(
        translator.program_sizes("gpu"),
        hardware.device(),
        translator.ensemble.num_step_weights,
        ServerConfig.max_batch_size,
    )
    with tempfile.TemporaryDirectory() as folder:
        gpu_server.measure_server(
            _export(translator, folder, "gpu"),
            _texts(_LINES.value),
            _REQUESTS.value,
            len(usual),
            functools.partial(measure.write_line, part="server", precision=precision),
        )


def devices() -> None:
    """Compare the outputs of exports for both kinds of device on both."""
    from benchmarks.lib import gpu_devices
    from keras_transformer import text_files

    precision = _PRECISIONS.value[0]
    if _MODEL.model_dir.value is None:
        translator = _copying_translator(precision)
        texts = _texts(min(_LINES.value, _LINES_OF_DEVICES))
    else:
        programs.check_given(_INPUT)
        translator = _MODEL.load_translator(precision=precision)
        texts = text_files.read_lines(_INPUT.value)[:_LINES_OF_DEVICES]
    for device in ("cpu", "gpu"):
        with tempfile.TemporaryDirectory() as folder:
            version = _export(translator, folder, device)
            found = gpu_devices.compare(version, texts, _LONGEST.value + 1)
        measure.write_line(part="devices", precision=precision, export=device, **found)


def start() -> None:
    """Time starts of a training."""
    from benchmarks.lib import gpu_training

    gpu_training.measure_starts(_START_STEPS.value)


def train() -> None:
    """Time training steps of fixed shapes beside a peer, and of mixed lengths."""
    from benchmarks.lib import gpu_training

    gpu_training.measure_steps(
        _TRAIN_PRESETS.value,
        _PRECISIONS.value,
        _TRAIN_SHAPES.value,
        _TRAIN_STEPS.value,
        _PEER_PYTHON.value,
    )


if __name__ == "__main__":
    programs.run(main, has_other_options=True)
