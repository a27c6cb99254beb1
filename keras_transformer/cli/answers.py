"""Translations that are kept in a file as soon as they are done."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:  # imports TensorFlow
    from keras_transformer.translation.pipeline import Translation


class Answers:
    """Translations of batches, in a file from which a later run takes them.

    A context manager, which deletes a file without answers.

    Args:
        path: The file, whose first line is of its user, then one for each batch; None:
            answers are not kept.

    Attributes:
        num_texts: Number of texts with an answer in the file.
    """

    def __init__(self, path: pathlib.Path | None = None):
        self.num_texts = 0
        self._path = path
        # Whether an answer was added since the last `advance`.
        self._has_new = False
        # Where the line of each batch begins.
        self._places: dict[str, int] = {}
        if path is not None:
            self._file = open(path, "r+b")  # noqa: SIM115  closed with this
            self._find_places()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._file.close()
        if not self._places:
            self._path.unlink()
        elif error is not None:
            error.add_note(
                f"{self._path} keeps {self.num_texts:,} translations. The same command "
                "with --resume goes on after them."
            )

    def get(self, texts: Sequence[str]) -> list[Translation] | None:
        """Return the answers of a batch; None: it has none yet."""
        from keras_transformer.translation.pipeline import Translation

        place = self._places.get(_key(texts))
        if place is None:
            return None
        self._file.seek(place)
        values = self._file.readline().split(b"\t", 2)[2]
        return [Translation.from_json(*each) for each in json.loads(values)]

    def add(self, texts: Sequence[str], answers: Sequence[Translation]) -> None:
        """Keep the answers of a batch."""
        self._has_new = True
        if self._path is None:
            return
        key = _key(texts)
        self._places[key] = self._file.seek(0, os.SEEK_END)
        line = f"{key}\t{len(texts)}\t{json.dumps(answers)}\n"
        self._file.write(line.encode("ascii"))
        self._file.flush()
        self.num_texts += len(texts)

    def advance(self, progress: Any, count: int) -> None:
        """Count what is done on a bar, without time for what an earlier run did.

        Args:
            progress: From `text_files.progress`.
            count: What is done since the last call.
        """
        if not self._has_new:
            progress.initial += count
        self._has_new = False
        progress.update(count)

    def _find_places(self) -> None:
        """Read the file; cut a last line that was not written to its end."""
        place = len(self._file.readline())
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            key, num_texts, _ = line.split(b"\t", 2)
            self._places[key.decode()] = place
            self.num_texts += int(num_texts)
            place += len(line)
        self._file.truncate(place)


def _key(texts: Sequence[str]) -> str:
    """Return what tells a batch from others."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
