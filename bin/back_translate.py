"""Translate text in the target language, to train on it: back-translation.

    python bin/back_translate.py --model_dir=runs/de_en --input=news.de --output=news.en

The model translates from the language of the text into the one that the next model will
read. Line n of the output belongs to line n of the input: `source: news.en` and
`target: news.de` in the file of bin/prepare_data.py --corpora. Lines that the model
would have cut are left blank, and blank pairs are not trained on.

--method=sampling draws from the model's probabilities, by default with a fixed seed;
--method=beam takes its best translation. A killed run goes on with --resume.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import text_files
from keras_transformer.cli import programs, resumable_output, startup
from keras_transformer.cli.flags import ModelFlags, SamplingFlags, define_resume
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE

_MODEL = ModelFlags("An exported model", has_languages=True)
_SAMPLING = SamplingFlags()
_RESUME = define_resume()
_INPUT = flags.DEFINE_string(
    "input", None, "Text file, one sentence a line; .gz too; default: standard input."
)
_OUTPUT = flags.DEFINE_string("output", None, "Text file to write.")
_METHOD = flags.DEFINE_enum(
    "method",
    "sampling",
    ["sampling", "beam"],
    "sampling: varied translations, better where there is much text; beam: the best "
    "translation, better for a model of little text.",
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    TRANSLATION_BATCH_SIZE,
    "Sentences translated at once; fewer if they are long.",
    lower_bound=1,
)
_BATCHES_OF_BLOCK = 16


def main() -> dict:
    """Translate and return the JSON summary."""
    check_flags()
    lines = text_files.StoredLines(_INPUT.value)
    startup.import_tensorflow(compiles=True)
    # Chosen once: a training that still runs writes others.
    weights = _MODEL.weights()
    with resumable_output.resumable_writer(
        _OUTPUT.value, _RESUME.value, made_from(lines, weights)
    ) as (write, answers):
        num_cut = translate(weights, lines, write, answers)
    text_files.report_cut(num_cut, len(lines))
    return {"lines": len(lines), "truncated": num_cut}


def check_flags() -> None:
    """Raise unless the flags name one model and fit it."""
    programs.check_given(_OUTPUT)
    _MODEL.check()
    programs.check_output(_OUTPUT, _INPUT)


def made_from(lines, weights) -> dict:
    """Return what the output depends on."""
    return {
        **resumable_output.fingerprints(lines, weights),
        "languages": list(_MODEL.languages()),
        "method": _METHOD.value,
        **_SAMPLING.values(),
        "batch_size": _BATCH_SIZE.value,
    }


def translate(weights, lines, write, answers) -> int:
    """Translate and write; return the number of lines that were cut."""
    from keras_transformer.inference import cpu_threads, graph_optimizer
    from keras_transformer.translation import batching, pipeline

    num_cut, num_batches = 0, math.ceil(len(lines) / _BATCH_SIZE.value)
    with (
        cpu_threads.threads_for_batches(num_batches) as at_once,
        graph_optimizer.disabled_for(len(lines)),
    ):
        model = load(weights)
        _MODEL.check_languages(lines, model)
        blocks = batching.in_blocks(
            lines,
            _BATCH_SIZE.value,
            pipeline.answering(model.run_batch, first_alone=model.first_alone),
            block_size=_BATCHES_OF_BLOCK * _BATCH_SIZE.value,
            at_once=at_once,
            kept=answers,
        )
        progress = text_files.progress(len(lines))
        with progress, contextlib.closing(blocks):
            for num_done, ready in blocks:
                answers.advance(progress, num_done)
                write(
                    "" if each.truncated else text_files.one_line(each.text)
                    for each in ready
                )
                num_cut += sum(each.truncated for each in ready)
    return num_cut


def load(weights):
    """Return the model with these weights, which searches or draws."""
    use, sampling = "translate", None
    if _METHOD.value == "sampling":
        use, sampling = "sample", _SAMPLING.sampling()
    return _MODEL.open(use, sampling, checkpoint=str(weights))


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
