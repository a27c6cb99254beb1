"""How fast is a file translated, beside CTranslate2 with the same model?

    python benchmarks/translate_file.py --model_dir=runs/my --input=test.en \
        --lines=20000 --rounds=3

exports the model in --precision, converts it to CTranslate2, and translates a file of
--lines lines (the input, repeated) and one of a tenth of them, each in a process of its
own: with bin/translate.py from the export and from the model_dir, a batch a core, and
with CTranslate2 with one worker of all cores and with a worker a core, in float32 and
int8, alternating. The difference of the two files is the steady rate; the rest of the
time is the start.
Prints a line of JSON for each run and each program, and one with how many times faster
the export is than the faster setting of CTranslate2 in each precision. Needs a
vocabulary of SentencePiece. CTranslate2 stops a search when `beam_size` hypotheses have
ended, as our search does with --early_stopping.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import pathlib
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import file_rates, measure, timed_process
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags

_INPUT = flags.DEFINE_string("input", None, "Text file, one sentence a line.")
_LINES = flags.DEFINE_integer("lines", 20_000, "Lines to translate.", lower_bound=20)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Runs of each program.", lower_bound=1)
_PROGRAMS = flags.DEFINE_list("programs", None, "Programs to run; default: all.")
_MODEL = ModelFlags(has_search=True)

_PRECISIONS = ("float32", "int8")
# Sentences of a batch of CTranslate2; other sizes were not measured.
_PEER_BATCH_SIZE = 64


def main() -> dict:
    """Make the models and files, run the programs alternating, and print."""
    programs.check_given(_MODEL.model_dir, _INPUT)
    startup.import_tensorflow()
    environment = measure.environment("float32")
    runs: dict[str, dict[str, list[timed_process.TimedProcess]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        options = make_models(folder)
        make_files(folder)
        found = commands(folder, options)
        for number in range(1, _ROUNDS.value + 1):
            for program, length in itertools.product(found, ("few", "all")):
                took = timed_process.run(found[program](length))
                runs.setdefault(program, {}).setdefault(length, []).append(took)
                seconds = measure.rounded(took.seconds)
                measure.write_line(round=number, program=program, **{length: seconds})
    rates: dict[str, list[float]] = {}
    for program, taken in runs.items():
        few, every = taken["few"], taken["all"]
        rates[program] = file_rates.steady_rates(few, every, _LINES.value - num_few())
        numbers = file_rates.described(few, every, num_few(), _LINES.value)
        measure.write_line(program=program, **numbers)
    result = {
        "benchmark": "translate_file",
        "lines": _LINES.value,
        "rounds": _ROUNDS.value,
        "precision": _MODEL.precision.value or "float32",
        **file_rates.ratios(rates, _PRECISIONS),
        **environment,
    }
    measure.write_line(**result)
    return result


def make_models(folder: pathlib.Path) -> dict[str, float]:
    """Write the export and CTranslate2's models; return the options of its search."""
    from keras_transformer.serving import ctranslate2_converter, saved_model

    weights = _MODEL.weights()
    load = functools.partial(_MODEL.load_translator, checkpoint=str(weights))
    ours = load(precision=_MODEL.precision.value or "float32")
    saved_model.export(ours, folder / "export", signatures=["serving_default"])
    translator = load(precision="float32")
    for precision in _PRECISIONS:
        ctranslate2_converter.convert(translator, folder / precision, precision)
    decoding = translator.decoding
    return {
        "beam_size": decoding.beam_size,
        "length_penalty": decoding.length_penalty_alpha,
        "max_decoding_length": decoding.max_input_length + decoding.extra_decode_length,
        "max_input_length": decoding.max_input_length,
        "max_batch_size": _PEER_BATCH_SIZE,
    }


def make_files(folder: pathlib.Path) -> None:
    """Write a file with all lines, and one with a tenth of them."""
    from keras_transformer import text_files

    lines = itertools.cycle(text_files.read_lines(_INPUT.value))
    every = list(itertools.islice(lines, _LINES.value))
    text_files.write_lines(folder / "all", every)
    text_files.write_lines(folder / "few", every[: num_few()])


def num_few() -> int:
    """Return the lines of the shorter file."""
    return _LINES.value // 10


def commands(folder: pathlib.Path, options: dict[str, float]) -> dict:
    """Return by name what makes the command for a file."""
    cores = os.cpu_count() or 1

    def own(*flags):
        return lambda length: [
            *(sys.executable, "bin/translate.py", *flags),
            *(f"--input={folder / length}", f"--output={folder / 'output'}"),
            f"--num_workers={cores}",
        ]

    def peer(precision, workers):
        return lambda length: [
            *(sys.executable, "benchmarks/lib/ctranslate2_file.py", folder / precision),
            *(folder / length, folder / "output", str(workers), str(cores // workers)),
            json.dumps(options),
        ]

    given = [
        flag
        for flag in (_MODEL.checkpoint, *_MODEL.search.values())
        if flag.value is not None
    ]
    options_given = [f"--{flag.name}={flag.value}" for flag in given]
    found = {
        "saved_model": own(f"--saved_model={folder / 'export' / '1'}"),
        "model_dir": own(f"--model_dir={_MODEL.model_dir.value}", *options_given),
    }
    for precision, workers in itertools.product(_PRECISIONS, sorted({1, cores})):
        found[f"ctranslate2_{precision}_{workers}"] = peer(precision, workers)
    chosen = _PROGRAMS.value or list(found)
    if unknown := set(chosen) - set(found):
        raise ValueError(
            f"--programs must be among {', '.join(found)}. Received: "
            f"{', '.join(sorted(unknown))}."
        )
    return {name: found[name] for name in chosen}


if __name__ == "__main__":
    programs.run(main)
