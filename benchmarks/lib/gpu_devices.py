"""Comparing the answers of an export on the GPU and on the CPU.

Run as a program, it writes those of an export on the device that it has:

    python benchmarks/lib/gpu_devices.py exports/my/1 texts.json answers.json
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])

from benchmarks.lib import measure

_ROWS = 32  # as many as a program for either device has
_CLOSE = 1e-2  # difference of scores in bfloat16 or TF32
_TOLERATED = 0.1  # BLEU


def compare(version: pathlib.Path, texts: Sequence[str], longest: int) -> dict:
    """Translate texts with an export on this process's device and on the CPU.

    Args:
        version: The export.
        texts: The sources.
        longest: Most tokens of a source.

    Returns:
        The number of lines, of equal ones and of different ones with close scores; the
        largest difference of the scores of equal ones; BLEU of one against the other;
        and whether all lines are equal or close, and BLEU about 100.
    """
    here = answers(version, texts, longest)
    there = _answers_of_cpu(version, texts, longest)
    return described(here, there)


def described(
    here: Sequence[tuple[str, float]], there: Sequence[tuple[str, float]]
) -> dict[str, Any]:
    """Compare answers, texts with scores; results as in `compare`."""
    import sacrebleu

    pairs = [
        (own[0] == other[0], abs(own[1] - other[1]))
        for own, other in zip(here, there, strict=True)
    ]
    equal = [difference for is_equal, difference in pairs if is_equal]
    close = [
        difference
        for is_equal, difference in pairs
        if not is_equal and difference <= _CLOSE
    ]
    bleu = sacrebleu.corpus_bleu(
        [text for text, _ in here], [[text for text, _ in there]]
    ).score
    return {
        "lines": len(pairs),
        "equal": len(equal),
        "close": len(close),
        "largest_difference": measure.rounded(max(equal, default=0.0), 2),
        "bleu": round(bleu, 2),
        "same": len(equal) + len(close) == len(pairs) and bleu >= 100 - _TOLERATED,
    }


def answers(
    version: pathlib.Path, texts: Sequence[str], longest: int
) -> list[tuple[str, float]]:
    """Translate with compiled searches, where those pay; return texts with scores."""
    from benchmarks.lib import compiled_export
    from keras_transformer.translation.pipeline import translate_in_batches

    translate_batch, _ = compiled_export.load(version, _ROWS, longest)
    found = translate_in_batches(texts, _ROWS, translate_batch)
    return [(each.text, each.score) for each in found]


def _answers_of_cpu(version, texts, longest) -> list[tuple[str, float]]:
    """Same as `answers`, in a process that sees no GPU."""
    with tempfile.TemporaryDirectory() as name:
        sources, found = (pathlib.Path(name, file) for file in ("texts", "answers"))
        sources.write_text(json.dumps([longest, *texts]), encoding="utf-8")
        subprocess.run(
            [sys.executable, __file__, version, sources, found],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            check=True,
        )
        return json.loads(found.read_text(encoding="utf-8"))


def _main(version: str, sources: str, found: str) -> None:
    from keras_transformer.cli import startup

    startup.import_tensorflow()
    longest, *texts = json.loads(pathlib.Path(sources).read_text(encoding="utf-8"))
    answered = answers(pathlib.Path(version), texts, longest)
    pathlib.Path(found).write_text(json.dumps(answered), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
