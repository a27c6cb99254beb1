"""Parse sentences, one a line, into trees with a trained or an exported parser, §6.3.

    echo "The fox didn't sleep." | python bin/parse.py --model_dir=runs/parser

    python bin/parse.py --saved_model=exports/parser/1 --tokenized < words.txt > trees

Line n of the output is the tree of line n, in the Penn Treebank's brackets. The input
is plain English or, with --tokenized, words and punctuation separated by spaces.
--draw=text draws trees for a terminal, each followed by an empty line. --draw=svg
writes one SVG document of all trees (to standard output or --output=FILE.svg), or, with
another --output, a folder with "n.svg" for line n.

Trees are written as soon as they are done, to OUTPUT.partial. It is renamed to OUTPUT
at the end, and stays if the program ends early. Standard error shows the progress every
ten seconds.

A line that is not valid UTF-8, has no words or is longer than the model's limit ends
the program with a message that names it. With --skip_bad it is counted instead, and its
line in the output is empty. A smaller --beam_size than the paper's 21 is faster.
"""

from __future__ import annotations

import os
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags
from keras_transformer.translation.batch_sizes import PARSING_BATCH_SIZE

_MODEL = ModelFlags("An exported parser", has_search=True)
_INPUT = flags.DEFINE_string(
    "input", None, "Text file, one sentence a line; .gz too; default: standard input."
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "File or folder to write; default: standard output."
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    PARSING_BATCH_SIZE,
    "Sentences parsed at once.",
    lower_bound=1,
)
_TOKENIZED = flags.DEFINE_bool(
    "tokenized", False, "The input has words and punctuation separated by spaces."
)
_DRAW = flags.DEFINE_enum(
    "draw", "none", ["none", "text", "svg"], "Draw the trees instead of brackets."
)
_SKIP_BAD = flags.DEFINE_bool(
    "skip_bad", False, "Skip and count bad lines instead of stopping."
)
_UNCONSTRAINED = flags.DEFINE_bool(
    "unconstrained",
    False,
    "For comparison: search over all outputs, and repair those that are not trees.",
)


def main() -> dict:
    """Parse and return the JSON summary."""
    check_flags()
    startup.import_tensorflow()
    from keras_transformer.inference import graph_optimizer
    from keras_transformer.parsing import parse_files

    sentences = parse_files.read_sentences(
        _INPUT.value, tokenized=_TOKENIZED.value, skip_bad=_SKIP_BAD.value
    )
    with graph_optimizer.disabled_for(len(sentences.texts)):
        model = _MODEL.open("parse", constrained=not _UNCONSTRAINED.value)
        if model.searcher:
            parse_files.leave_out_too_long(sentences, model.searcher)
            parse = parse_files.with_parser(model.searcher, _BATCH_SIZE.value)
        else:
            parse = parse_files.with_export(model.run_batch, _BATCH_SIZE.value)
        parses = parse_files.parse_and_write(
            sentences, parse, _OUTPUT.value, _DRAW.value
        )
    for problem in sentences.problems:
        print(f"left out: {problem}", file=sys.stderr)
    if sentences.problems:
        print(
            f"left out {len(sentences.problems)} of {len(parses)} lines.",
            file=sys.stderr,
        )
    return {
        "lines": len(parses),
        "skipped": len(sentences.problems),
        "invalid": sum(not parse.valid for parse in parses if parse is not None),
    }


def check_flags() -> None:
    """Raise unless the flags name one model and fit it."""
    _MODEL.check(_UNCONSTRAINED)
    if not os.path.isdir(_OUTPUT.value or ""):
        programs.check_output(_OUTPUT, _INPUT)


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
