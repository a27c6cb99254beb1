"""Runs whose models search together."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_transformer import tasks
from keras_transformer.runs.model_dir import ModelDir


def choose(
    folder: str | os.PathLike,
    others: Sequence[str | os.PathLike],
    languages: tuple[str | None, str | None] = (None, None),
    tokenizer: Any = None,
) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Find the weights of the models that search together with that of a run.

    Args:
        folder: Of the run.
        others: Folders of the other runs.
        languages: As in `opening.open_model`.
        tokenizer: The run's, if it is loaded already.

    Returns:
        Each of the other folders with the path that `ModelDir.choose` finds in it: the
        option `ensemble` of `opening.open_model`.

    Raises:
        FileNotFoundError: If a folder has no model.
        ValueError: If a folder is named twice, or its model is a parser, or has
            another vocabulary or direction.
    """
    if not others:
        return []
    first, *rest = map(pathlib.Path, (folder, *others))
    if len({path.resolve() for path in (first, *rest)}) < len(rest) + 1:
        raise ValueError(
            "A model twice is no ensemble: name each folder once. Received: "
            f"{', '.join(map(str, (first, *rest)))}."
        )
    direction, vocabulary = _direction_and_vocabulary(
        ModelDir(first), languages, tokenizer
    )
    chosen = []
    for path in rest:
        model_dir = ModelDir(path)
        try:
            weights = model_dir.choose().path
            own_direction, own_vocabulary = _direction_and_vocabulary(
                model_dir, languages
            )
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"No trained model in {path}: train it first, or correct --ensemble."
            ) from error
        if own_vocabulary != vocabulary:
            raise ValueError(
                f"The models in {first} and {path} have different vocabularies. The "
                "models of an ensemble must be trained on the same --data_dir, or with "
                "bin/prepare_data.py --tokenizer_from."
            )
        if own_direction != direction:
            raise ValueError(
                "The models of an ensemble must translate the same languages, but "
                f"{first} is for {direction}, and {path} for {own_direction}."
            )
        chosen.append((path, weights))
    return chosen


def _direction_and_vocabulary(model_dir, languages, tokenizer=None):
    """Return such as "en-de" (None: the model has several), and what is hashed."""
    config = model_dir.read_config()
    tasks.TRANSLATION.check(config.task, model_dir.path)
    if tokenizer is None:
        tokenizer = model_dir.load_tokenizer()
    if tokenizer.is_multilingual:
        return None, model_dir.told(tokenizer, languages, config).fingerprint
    direction = f"{config.source_language}-{config.target_language}"
    return direction, tokenizer.fingerprint
