"""The flag --resume: go on with an output file that a run has left unfinished.

What the lines of OUTPUT.partial were made from is in OUTPUT.partial.json.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from keras_transformer import atomic_files, text_files

RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Go on with OUTPUT.partial, which a run that ended early has left, after its last "
    "whole block; without one, begin anew.",
)


class Kept(NamedTuple):
    """What is kept of an unfinished output."""

    # Inputs whose outputs are kept: whole blocks.
    inputs: int = 0
    # Lines and bytes of these outputs.
    lines: int = 0
    size: int = 0


@contextlib.contextmanager
def resumable_writer(
    output: str | None,
    made_from: Mapping[str, Any],
    block_size: int,
    input_of_line: Callable[[int, bytes], int] = lambda position, line: position,
    line_end: str = "\n",
) -> Iterator[tuple[Callable[[Iterable[str]], None], int]]:
    """Write lines as `text_files.line_writer`, from where an earlier run ended.

    The block of inputs that the earlier run was at is done again as a whole, because
    its outputs depend a little on what is computed together.

    Args:
        output: The file; None: standard output, which cannot be resumed.
        made_from: What the outputs depend on; values that JSON can hold.
        block_size: Inputs of a block.
        input_of_line: Returns the number of the input of an output line, given the
            line's position and its text.
        line_end: Written after each line; "": lines have their ends.

    Yields:
        The function that writes lines, and the number of the first input to do.

    Raises:
        FileExistsError: Without --resume, if an earlier run has left its output.
        ValueError: With --resume, if there is no output file, or what is there was made
            from something else.
    """
    if output is None or (os.path.exists(output) and not os.path.isfile(output)):
        if RESUME.value:
            raise ValueError("--resume needs a file as --output.")
        with text_files.line_writer(output, line_end=line_end) as write:
            yield write, 0
        return
    partial = pathlib.Path(f"{os.path.realpath(output)}.partial")
    record = pathlib.Path(f"{partial}.json")
    kept = Kept()
    if partial.exists() and partial.stat().st_size:
        if not RESUME.value:
            raise FileExistsError(
                f"{partial} is of a run that ended early, if none is writing it now. "
                "Give --resume to go on with it, or delete it."
            )
        _check_record(record, made_from)
        kept = _kept(partial, block_size, input_of_line)
        print(
            f"{partial}: going on after {kept.inputs:,} inputs, in whole blocks of "
            f"{block_size:,}.",
            file=sys.stderr,
        )
    try:
        with text_files.line_writer(output, kept.lines, kept.size, line_end) as write:
            atomic_files.atomic_write(record, json.dumps(made_from, indent=2))
            yield write, kept.inputs
    finally:
        if not partial.exists():
            record.unlink(missing_ok=True)


def fingerprints(
    lines: Iterable[str], model: pathlib.Path, others: Sequence[pathlib.Path] = ()
) -> dict[str, Any]:
    """Return what tells an input and a model from others.

    Args:
        lines: The input.
        model: File or folder of the model's weights.
        others: Those of further models of an ensemble.
    """
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line}\n".encode())
    found = {
        "input": digest.hexdigest(),
        "model": str(model.resolve()),
        "date of the model": _date(model),
    }
    if others:
        found["ensemble"] = [[str(path.resolve()), _date(path)] for path in others]
    return found


def _date(path: pathlib.Path) -> int | None:
    """Return when a file or folder was changed; None: it is gone."""
    return path.stat().st_mtime_ns if path.exists() else None


def _check_record(record: pathlib.Path, made_from: Mapping[str, Any]) -> None:
    """Raise ValueError unless the unfinished output was made from the same."""
    partial = record.with_suffix("")
    try:
        before = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"What {partial} was made from cannot be read from {record.name}, so it "
            "cannot be resumed. Delete it to begin anew."
        ) from error
    now = json.loads(json.dumps(made_from))
    names = dict.fromkeys([*now, *before])
    if differing := [name for name in names if before.get(name) != now.get(name)]:
        raise ValueError(
            f"{partial} was made with another {', '.join(differing)}, so it cannot be "
            "resumed. Give the same again, or delete it to begin anew."
        )


def _kept(partial, block_size, input_of_line) -> Kept:
    """Find the beginning of the block that the last whole line belongs to."""
    kept, size = Kept(), 0
    with open(partial, "rb") as file:
        for position, line in enumerate(file):
            if not line.endswith(b"\n"):
                break
            block = input_of_line(position, line) // block_size
            if block * block_size > kept.inputs:
                kept = Kept(block * block_size, position, size)
            size += len(line)
    return kept
