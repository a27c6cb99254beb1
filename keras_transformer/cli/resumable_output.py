"""Going on with an output file that a run has left unfinished: --resume.

OUTPUT.partial.jsonl keeps what the output is made from, and the translations of each
batch as soon as it is done. A later run takes them from there, so it writes what an
undisturbed run would have written: its batches are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from keras_transformer import atomic_files, text_files
from keras_transformer.cli.answers import Answers


@contextlib.contextmanager
def resumable_writer(
    output: str | None, resume: bool, made_from: Mapping[str, Any], line_end: str = "\n"
) -> Iterator[tuple[Callable[[Iterable[str]], None], Answers]]:
    """Write lines as `text_files.line_writer`, and keep the answers of each batch.

    A resumed run writes all lines again, over those of OUTPUT.partial, which are equal.
    So nothing that was written goes before something replaces it.

    Args:
        output: The file; None: standard output, which cannot be resumed.
        resume: Whether to go on with what an earlier run has left.
        made_from: What the outputs depend on; values that JSON can hold.
        line_end: Written after each line; "": lines have their ends.

    Yields:
        The function that writes lines, and the answers of an earlier run, to which
        those of this run are to be added.

    Raises:
        FileExistsError: Without --resume, if an earlier run has left its output.
        ValueError: With --resume, if there is no output file, or what is there was made
            from something else.
    """
    if output is None or atomic_files.is_written_directly(output):
        if resume:
            raise ValueError("--resume needs a file as --output.")
        with text_files.line_writer(output, line_end) as write:
            yield write, Answers()
        return
    partial = pathlib.Path(f"{os.path.realpath(output)}.partial")
    journal = pathlib.Path(f"{partial}.jsonl")
    if is_resumed := _is_unfinished(partial, journal):
        if not resume:
            raise FileExistsError(
                f"{partial} is of a run that ended early, if none is writing it now. "
                f"Give --resume to go on with it, or delete it and {journal.name}."
            )
        _check_journal(journal, made_from)
    with text_files.line_writer(output, line_end, keep_rest=is_resumed) as write:
        if not is_resumed:
            journal.write_text(json.dumps(made_from) + "\n", encoding="utf-8")
        with Answers(journal) as answers:
            if is_resumed:
                print(
                    f"{partial}: going on after {answers.num_texts:,} translations.",
                    file=sys.stderr,
                )
            yield write, answers
    journal.unlink(missing_ok=True)


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


def _is_unfinished(partial: pathlib.Path, journal: pathlib.Path) -> bool:
    """Return whether an earlier run has left lines or answers."""
    if partial.exists() and partial.stat().st_size:
        return True
    if not journal.exists():
        return False
    with open(journal, "rb") as file:
        file.readline()
        return bool(file.readline())


def _check_journal(journal: pathlib.Path, made_from: Mapping[str, Any]) -> None:
    """Raise ValueError unless the unfinished output was made from the same."""
    partial = journal.with_suffix("")
    try:
        with open(journal, encoding="utf-8") as file:
            before = json.loads(file.readline())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"What {partial} was made from cannot be read from {journal.name}, so it "
            "cannot be resumed. Delete both to begin anew."
        ) from error
    now = json.loads(json.dumps(made_from))
    names = dict.fromkeys([*now, *before])
    if differing := [name for name in names if before.get(name) != now.get(name)]:
        raise ValueError(
            f"{partial} was made with another {', '.join(differing)}, so it cannot be "
            f"resumed. Give the same again, or delete it and {journal.name} to begin "
            "anew."
        )
