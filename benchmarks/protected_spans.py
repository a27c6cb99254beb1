"""How many protected spans come back in translations?

    python benchmarks/protected_spans.py --model_dir=runs/kept --input=test.en

puts one to four addresses, numbers, pairs of tags and terms of a glossary into each
line, at random places, and translates the lines with bin/translate.py twice: with
--protect=urls,numbers,tags --glossary, and without. Prints how many spans there are,
and how many came back: addresses and numbers once, tags once and around something,
terms by their translation.
"""

from __future__ import annotations

import collections
import pathlib
import random
import subprocess
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import marked_lines, measure
from keras_transformer import text_files
from keras_transformer.cli import programs
from keras_transformer.cli.flags import ModelFlags
from keras_transformer.documents import protection

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_INPUT = flags.DEFINE_string("input", None, "Text file, one sentence a line.")
_GLOSSARY = flags.DEFINE_string(
    "glossary",
    str(_ROOT / "benchmarks/lib/caption_terms.tsv"),
    "Terms to put in, as bin/translate.py --glossary reads them; English to German.",
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the spans.")
_MODEL = ModelFlags()


def main() -> dict:
    """Translate with and without protection, and print the counts."""
    programs.check_given(_MODEL.model_dir, _INPUT)
    terms = {
        term.source: term.target or term.source
        for term in protection.read_glossary(_GLOSSARY.value)
    }
    draw = random.Random(_SEED.value)
    lines = [
        marked_lines.mark(line, terms, draw)
        for line in text_files.read_lines(_INPUT.value)
        if line.strip()
    ]
    kinds = collections.Counter(kind for line in lines for kind, _ in line.spans)
    result = {
        "benchmark": "protected_spans",
        "lines": len(lines),
        **{f"{kind}s": kinds[kind] for kind in marked_lines.KINDS},
    }
    protect = ["--protect=urls,numbers,tags", f"--glossary={_GLOSSARY.value}"]
    for name, options in (("protected", protect), ("unprotected", [])):
        translations = _translate([line.text for line in lines], options)
        result[name] = marked_lines.counts(lines, translations)
    measure.write_line(**result)
    return result


def _translate(texts, options):
    """Return the lines that bin/translate.py gives."""
    with tempfile.TemporaryDirectory() as name:
        source, target = pathlib.Path(name) / "source", pathlib.Path(name) / "target"
        text_files.write_lines(source, texts)
        model = [f"--model_dir={_MODEL.model_dir.value}", f"--input={source}"]
        if _MODEL.checkpoint.value is not None:
            model.append(f"--checkpoint={_MODEL.checkpoint.value}")
        subprocess.run(
            [sys.executable, _ROOT / "bin/translate.py", *model, *options]
            + [f"--output={target}"],
            check=True,
        )
        return text_files.read_lines(target)


if __name__ == "__main__":
    programs.run(main)
