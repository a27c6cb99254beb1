"""Translate lines or documents with a trained or an exported model.

    echo "A man rides." | python bin/translate.py --model_dir=runs/multi30k/model

    python bin/translate.py --saved_model=runs/multi30k/export/1 < test.en > test.de

    python bin/translate.py --model_dir=runs/multi30k/model_1 --format=text \\
        --input=letter.en --output=letter.de

With --format=lines each line is one sentence. With --format=text lines are paragraphs:
their sentences are translated one by one, those that are too long for the model in
parts, and what is around them stays. With --format=html the input is a web page, of
which the text is translated; it needs the extra `documents`.

Translations are written in order as soon as they are done, to OUTPUT.partial. It is
renamed to OUTPUT at the end, and stays if the program ends early: --resume then goes on
after the batches that are done. Standard error shows the progress every ten seconds,
and at the end how many lines were cut to the length that the model reads, how many
translations repeat a phrase again and again, and how many searches were compiled.

Blank lines stay blank. With --nbest=N each line becomes N lines: the line's number,
from 0, the score and the translation, separated by tabs. With --alignments and
--token_scores, tabs and columns follow each translation:

    Ein Mann .    0-0 1-1 2-2    ▁Ein:-0.0312 ▁Mann:-0.0087 ▁.:-0.0020 </s>:-0.0001

The first is in Moses format, numbers of words of the source and of the translation. It
is empty for text that the vocabulary does not keep as it is.

    python bin/translate.py --model_dir=runs/my --protect=urls,tags --glossary=terms.tsv

leaves addresses and inline tags as they are, and translates terms as the glossary says.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import text_files
from keras_transformer.cli import programs, resumable_output, startup
from keras_transformer.cli.flags import (
    ModelFlags,
    ProtectionFlags,
    define_resume,
    overrides,
    report_guess,
)
from keras_transformer.documents import FORMATS
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE

_MODEL = ModelFlags(
    "An exported model", has_languages=True, has_search=True, has_ensemble=True
)
_PROTECTION = ProtectionFlags()
_RESUME = define_resume()
_FORMAT = flags.DEFINE_enum(
    "format",
    "lines",
    ["lines", *FORMATS],
    "lines: one sentence a line. text: paragraphs; line breaks, spaces and bullets "
    "stay. html: the text of a page; its tags stay.",
)
_INPUT = flags.DEFINE_string(
    "input", None, "Text file; .gz too; default: standard input."
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Text file to write; default: standard output."
)
_NBEST = flags.DEFINE_integer(
    "nbest", None, "Translations of each line, best first.", lower_bound=1
)
_ALIGNMENTS = flags.DEFINE_bool(
    "alignments",
    False,
    "After each translation, which word of the source each word comes from, by the "
    "attention of the model.",
)
_TOKEN_SCORES = flags.DEFINE_bool(
    "token_scores",
    False,
    "After each translation, its tokens and their log probabilities.",
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    TRANSLATION_BATCH_SIZE,
    "Sentences translated at once; fewer if they are long.",
    lower_bound=1,
)
_NUM_WORKERS = flags.DEFINE_integer(
    "num_workers",
    None,
    "Batches translated at the same time, each on an equal share of the cores; each "
    "takes memory. Default: two that share all cores, and for thousands of lines on a "
    "CPU up to four.",
    lower_bound=1,
)
# Batches of successive lines that are sorted by length together. Compared with sorting
# the whole file, padding grows by 2.2 % for captions and 2.5 % for news.
_BATCHES_OF_BLOCK = 32
# The same for documents, whose lines have several sentences, by batches at once.
_BATCHES_OF_DOCUMENT_BLOCK = 2
# To tell few sentences from many before the model is loaded.
_CHARACTERS_OF_SENTENCE = 80


def main() -> dict:
    """Translate and return the JSON summary."""
    check_flags()
    protection = _PROTECTION.read()
    is_document = _FORMAT.value != "lines"
    lines = text_files.StoredLines(_INPUT.value, has_ends=is_document)
    num_lines = len(lines)
    if _FORMAT.value == "html":
        lines = ["".join(lines)]
    startup.import_tensorflow(compiles=True)
    # Chosen once: a training that still runs writes others.
    weights, ensemble = _MODEL.weights(), _MODEL.choose_ensemble()
    with resumable_output.resumable_writer(
        _OUTPUT.value,
        _RESUME.value,
        _made_from(lines, weights, ensemble, protection),
        line_end="" if is_document else "\n",
    ) as (write, answers):
        load = _MODEL.loader(
            _use(),
            checkpoint=str(weights),
            num_best=_NBEST.value or 1,
            ensemble=ensemble,
        )
        counts = _translate(load, protection, lines, write, answers)
    return {"lines": num_lines, **counts}


def _made_from(lines, weights, ensemble, protection):
    """Return what the output depends on."""
    paths = [path for _, path in ensemble]
    return {
        **resumable_output.fingerprints(lines, weights, paths),
        **overrides(_MODEL.search),
        "precision": _MODEL.precision.value,
        "shortlist": bool(_MODEL.shortlist.value),
        "languages": list(_MODEL.languages()),
        "nbest": _NBEST.value,
        "columns": [_ALIGNMENTS.value, _TOKEN_SCORES.value],
        "protection": [protection.kinds, protection.terms],
        "format": _FORMAT.value,
        "batch_size": _BATCH_SIZE.value,
    }


def check_flags() -> None:
    """Raise unless the flags name one model and fit it."""
    _MODEL.check(_NBEST)
    programs.check_output(_OUTPUT, _INPUT, _PROTECTION.glossary)
    if (_NUM_WORKERS.value or 1) > (most := os.cpu_count() or 1):
        raise ValueError(
            f"--num_workers must be at most {most}, the cores of this machine. "
            f"Received: {_NUM_WORKERS.value}."
        )
    for flag in (_ALIGNMENTS, _TOKEN_SCORES):
        if flag.value and (_NBEST.value is not None or _FORMAT.value != "lines"):
            raise ValueError(f"--{flag.name} is for --format=lines without --nbest.")
        if flag.value and _PROTECTION.is_given():
            raise ValueError(
                f"--{flag.name} is for translations as the model gives them: drop "
                "--protect and --glossary."
            )
    if _FORMAT.value != "lines":
        _check_document_flags()
    _MODEL.check_num_best(_NBEST)


def _check_document_flags():
    """Raise unless the flags fit documents and what reads them is installed."""
    if _NBEST.value is not None:
        raise ValueError(f"--nbest is for --format=lines, not {_FORMAT.value}.")
    if _FORMAT.value == "html":
        with programs.needing("documents", "--format=html"):
            import justhtml  # noqa: F401


def _translate(load, protection, lines, write, answers):
    """Translate and write; return counts for the summary."""
    from keras_transformer.inference import cpu_threads, graph_optimizer

    is_document = _FORMAT.value != "lines"
    about = sum(map(len, lines)) // _CHARACTERS_OF_SENTENCE if is_document else 0
    num_texts = max(len(lines), about)
    num_batches = math.ceil(num_texts / _BATCH_SIZE.value)
    with (
        cpu_threads.threads_for_few_sentences(num_texts),
        cpu_threads.threads_for_batches(num_batches, _NUM_WORKERS.value) as at_once,
        graph_optimizer.disabled_for(num_texts),
    ):
        model = load()
        options = _options(model, protection)
        translate = _translate_documents if is_document else _translate_lines
        counts = translate(model, options, lines, write, answers, at_once)
        _report_compiled(model)
        return counts


def _options(model, protection):
    """Return how the model translates texts; say if what is protected is a guess."""
    from keras_transformer.translation import pipeline

    if not protection.is_empty:
        protection = protection.with_placeholders(model.placeholders, model.markers)
        if protection.needs_alignment and _NBEST.value is not None:
            raise ValueError(
                "--nbest with --protect or --glossary needs a model with placeholders, "
                "see bin/prepare_data.py --placeholders."
            )
        report_guess(protection)
    return pipeline.Options(
        protection,
        model.language_tokens,
        divides=_FORMAT.value != "lines",
        format=_FORMAT.value,
        language=model.source_language,
        limit=model.max_input_length,
    )


def _translate_lines(model, options, lines, write, answers, at_once):
    """Translate each line."""
    from keras_transformer.translation import batching, pipeline

    _MODEL.check_languages(lines, model)
    num_written, num_cut, num_looped = 0, 0, 0
    blocks = batching.in_blocks(
        lines,
        _BATCH_SIZE.value,
        pipeline.answering(model.run_batch, options, model.first_alone),
        _BATCHES_OF_BLOCK * _BATCH_SIZE.value,
        at_once,
        answers,
    )
    progress = text_files.progress(len(lines))
    with progress, contextlib.closing(blocks):
        for num_done, ready in blocks:
            answers.advance(progress, num_done)
            write(_format(ready, first=num_written))
            num_written += len(ready)
            num_cut += sum(translation.truncated for translation in ready)
            num_looped += sum(translation.looped for translation in ready)
    text_files.report_cut(num_cut, len(lines), model.max_input_length)
    text_files.report_looped(num_looped, len(lines))
    return {"truncated": num_cut, "looped": num_looped}


def _translate_documents(model, options, lines, write, answers, at_once):
    """Translate each sentence of each line, or of a page."""
    from keras_transformer.translation import batching, pipeline

    num_texts, num_cut, num_looped = 0, 0, 0
    blocks = pipeline.translate_documents(
        lines,
        _BATCHES_OF_DOCUMENT_BLOCK * at_once * _BATCH_SIZE.value,
        functools.partial(
            batching.in_batches,
            batch_size=_BATCH_SIZE.value,
            answer=pipeline.answering(model.run_batch, options, model.first_alone),
            at_once=at_once,
            kept=answers,
        ),
        options,
        _MODEL.language_check(model),
    )
    with text_files.progress(len(lines)) as progress:
        for documents, translations in blocks:
            num_texts += len(translations)
            num_cut += sum(translation.truncated for translation in translations)
            num_looped += sum(translation.looped for translation in translations)
            write(documents)
            answers.advance(progress, len(documents))
    text_files.report_cut(num_cut, num_texts, model.max_input_length)
    text_files.report_looped(num_looped, num_texts)
    return {"sentences": num_texts, "truncated": num_cut, "looped": num_looped}


def _report_compiled(model):
    """Say on standard error how many searches were compiled, if any were."""
    if model.compiler and (count := model.compiler.num_compiled()):
        print(f"Compiled searches, one a size of batches: {count}.", file=sys.stderr)


def _use():
    """Return what the model is opened for."""
    if _ALIGNMENTS.value or _TOKEN_SCORES.value:
        return "align"
    return "protect" if _PROTECTION.is_given() else "translate"


def _format(translations, first):
    """Yield the output lines of translations; `first` is the number of the first."""
    for number, translation in enumerate(translations, start=first):
        if _NBEST.value is None:
            columns = [translation.text, *_columns(translation)]
            yield "\t".join(map(text_files.one_line, columns))
            continue
        for text, score in translation.nbest:
            yield f"{number}\t{score:.6f}\t{text_files.one_line(text)}"


def _columns(translation):
    """Yield what follows a translation."""
    if _ALIGNMENTS.value:
        yield " ".join(f"{source}-{target}" for source, target in translation.alignment)
    if _TOKEN_SCORES.value:
        yield " ".join(
            f"{piece}:{score:.4f}" for piece, score in translation.token_scores
        )


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
