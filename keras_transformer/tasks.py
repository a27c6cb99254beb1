"""What a model can be trained to write: translations, or trees. Imports no TensorFlow.

What differs between the two is here where it is a fact, and where it is a function, in
a table by task: `opening.of_run`, `bin/evaluate.py` and `bin/prepare_data.py` have one.
"""

from __future__ import annotations

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Task:
    """A task, and what to know of its models."""

    # As in `config.json`, `metadata.json` and --task.
    name: str
    # What a model is, and the program that uses it.
    kind: str
    program: str
    # The signature of an export that answers, and what it does with a text.
    signature: str
    verb: str
    # What a target is made of.
    target_noun: str
    # Whether targets are text: it has words to align, and BLEU.
    writes_text: bool
    # The nearest of the tasks of the Hugging Face Hub.
    pipeline_tag: str

    def check(self, task: str, path: str | os.PathLike, remedy: str = "") -> None:
        """Raise ValueError unless a model is of this task.

        Args:
            task: The name of the model's task.
            path: The model, for the error.
            remedy: What to say after what it is; default: the program for its task.
        """
        if task != self.name:
            own = of(task)
            raise ValueError(f"{path} is {own.kind}: {remedy or f'use {own.program}.'}")


TRANSLATION = Task(
    "translation",
    "a translation model",
    "bin/translate.py",
    "serving_default",
    "translates",
    "pieces of targets",
    writes_text=True,
    pipeline_tag="translation",
)
PARSING = Task(
    "parsing",
    "a parser",
    "bin/parse.py",
    "parse",
    "parses",
    "symbols",
    writes_text=False,
    pipeline_tag="token-classification",
)
# The symbols that a parser writes, in the folder of its corpus and of its run.
LABELS_FILE = "labels.json"
_TASKS = {task.name: task for task in (TRANSLATION, PARSING)}
NAMES = tuple(_TASKS)


def of(name: str) -> Task:
    """Return the task with a name.

    Raises:
        ValueError: If there is none.
    """
    if name not in _TASKS:
        raise ValueError(f"A task is one of {', '.join(NAMES)}. Received: {name!r}.")
    return _TASKS[name]
