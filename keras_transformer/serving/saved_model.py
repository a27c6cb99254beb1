"""Writing exported models (SavedModels, as loaded by TF Serving), and checking them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer import atomic_files, json_files, tasks
from keras_transformer.config import INT8, check_choice
from keras_transformer.inference.generator import SequenceGenerator
from keras_transformer.inference.translator import Translator
from keras_transformer.parsing.parser import Parser, parse_in_batches
from keras_transformer.serving import warmup
from keras_transformer.serving.signatures import ParsingModule, ServingModule
from keras_transformer.translation import exported_model
from keras_transformer.translation.batch_sizes import PARSING_BATCH_SIZE
from keras_transformer.translation.exported_model import DESCRIPTION
from keras_transformer.translation.pipeline import translate_in_batches

# By task: what has the signatures, and for what an export is opened to check it.
_MODULES = {tasks.TRANSLATION: ServingModule, tasks.PARSING: ParsingModule}
_USES = {
    tasks.TRANSLATION: ("translate", translate_in_batches),
    tasks.PARSING: ("parse", parse_in_batches),
}
# Signatures without a search that can be compiled.
_NOT_COMPILED = frozenset({"sample", "score"})
# Edge cases among the texts that check an export; the others are random.
_EDGE_CASES = ("", "  ", "a", "\U0001f600 \u72d7", "a\tb\u00a0c")
# Largest difference of scores, relative to scores above 1: for equal texts, and for
# different texts with practically equal scores (ties). bfloat16 rounds to 8 bits: of
# 288 captions that three small models translated together and alone, equal texts
# differ by up to 0.005, and the two different ones by 0.07. int8 rounds to 7 bits.
_TOLERANCES = {
    "float32": (1e-4, 1e-5),
    "bfloat16": (0.02, 0.1),
    INT8: (0.02, 0.1),
}
# Largest share of ties.
_MAX_TIES = 0.25
# Number of texts that are also checked in a batch of their own.
_TEXTS_ALONE = 4


def export(
    searcher: Translator | Parser,
    export_dir: str | os.PathLike,
    *,
    num_best: int | None = None,
    signatures: Sequence[str] | None = None,
    description: dict[str, Any] | None = None,
    check_texts: Sequence[str] = (),
    has_packed_kernels: bool = True,
    has_warmup: bool = False,
) -> pathlib.Path:
    """Write a SavedModel as the next version of a model, atomically.

    Args:
        searcher: The translator or parser to export, with its search settings. If it is
            `quantized`, each CPU that loads the export decides whether to multiply the
            integers, or the floats that they stand for, which it then computes.
        export_dir: Contains one folder per version, as TF Serving expects.
        num_best: Hypotheses of the signature `nbest`; None: the beam size. Not for
            parsers, which do not have this signature.
        signatures: Names of the signatures; None: all of `ServingModule`, or of
            `ParsingModule` for a parser.
        description: Written next to the model, as JSON, with "weights_bytes" added, the
            size of the weights that the signatures read. Its "source_language" has the
            rules for sentences of the signature `document`; its "device", "cpu" or
            "gpu", is what searches can be compiled for (see `search_programs`; any
            export runs on both), none without it.
        check_texts: Texts that the export must translate (parse) the same as
            `searcher`. Not checked if the signature `serving_default` (`parse`) is not
            exported.
        has_packed_kernels: Whether to store the decoder's packed kernels too: a larger
            file, but faster searches for few sentences. None of integers.
        has_warmup: Whether to add warmup requests for TF Serving.

    Returns:
        The folder of the version, EXPORT_DIR/VERSION.

    Raises:
        ValueError: If `export_dir` is a URL, a signature is unknown, `num_best` is
            given for a parser, or the export answers one of `check_texts` differently.
            No version is written then.
        OSError: If the disk is full or the folder cannot be written.
        ModuleNotFoundError: If `has_warmup` and the extra `serving` is not installed.
    """
    atomic_files.check_folder(export_dir)
    export_dir = pathlib.Path(export_dir)
    described = dict(description or {})
    if searcher.precision == INT8:
        served = searcher.quantized(for_any_cpu=True)
    else:
        device = described.get("device")
        has_search = not signatures or not _NOT_COMPILED.issuperset(signatures)
        sizes = searcher.program_sizes(device) if device and has_search else ()
        served = searcher.with_prepared_weights(
            has_packed_kernels=has_packed_kernels, has_stacks=True, program_sizes=sizes
        )
    module = _MODULES[searcher.task](
        served, num_best, described.get("source_language") or ""
    )
    chosen = module.signatures()
    for name in signatures or ():
        check_choice("signature", name, chosen)
    if signatures:
        chosen = {name: chosen[name] for name in signatures}
    programs = _add_programs(served, described)
    with atomic_files.folder_aside(export_dir / "new") as aside:
        owner = _save(served, {**chosen, **programs}, aside)
        size = sum(weight.dtype.size * tf.size(weight) for weight in owner.weights)
        described["weights_bytes"] = int(size)
        json_files.write(aside / DESCRIPTION, described)
        if has_warmup:
            sizes = described.get("programs", ())
            warmup.write_warmup_requests(aside, searcher, list(chosen), sizes)
        if searcher.task.signature in chosen:
            check_same(searcher, aside, check_texts)
        return atomic_files.rename_to_number(aside, export_dir, next_version)


def _save(
    served: SequenceGenerator, functions: dict[str, Callable], aside: pathlib.Path
) -> tf.Module:
    """Write a SavedModel; return the module with the weights that it reads."""
    try:
        # As concrete functions: the saving would trace others a second time.
        traced = {
            name: function.get_concrete_function()
            for name, function in functions.items()
        }
        owner = _owner(served, traced.values())
        tf.saved_model.save(owner, str(aside), signatures=traced)
        return owner
    except tf.errors.OpError as error:
        raise OSError(
            f"Could not write the export into {aside.parent}: "
            f"{atomic_files.reason(error)}. Free some space or check the folder's "
            "permissions."
        ) from error


def _add_programs(
    served: SequenceGenerator, description: dict[str, Any]
) -> dict[str, Callable]:
    """Describe the programs of a searcher; return their signatures."""
    if served.programs is None:
        return {}
    description["programs"] = served.programs.sizes
    description["step_weights"] = served.ensemble.num_step_weights
    return served.programs.signatures()


def _owner(searcher: SequenceGenerator, functions: Iterable[Any]) -> tf.Module:
    """Return a module with only the tokenizer and the weights that functions read.

    SavedModel traces and writes all functions of the saved object, so it must not be
    the serving module. It also writes Keras variables as copies that the functions do
    not read. Python's loader repairs that, TF Serving's does not (Keras 3.15).
    """
    read = {handle.ref() for each in functions for handle in each.captured_inputs}
    for each in searcher.ensemble.loaded:
        read |= {handle.ref() for handle in each.inputs}
    owner = tf.Module(name="serving")
    owner.weights = [
        variable
        for variable in searcher.searched_variables
        if variable.handle.ref() in read
    ]
    owner.tokenizer = searcher.tokenizer
    owner.loaded = [
        each for each in searcher.ensemble.loaded if each.resource_handle.ref() in read
    ]
    return owner


def check_same(
    searcher: Translator | Parser, saved_model: str | os.PathLike, texts: Sequence[str]
) -> None:
    """Raise unless an exported model gives the same answers as its original.

    Args:
        searcher: The exported translator or parser.
        saved_model: The export.
        texts: Texts to translate or parse, in batches. The last few are also run alone,
            because the export may read other weights for a single text.

    Raises:
        ValueError: If an answer differs and is not a tie; the message shows examples.
    """
    if not len(texts):
        return
    use, run = _USES[searcher.task]
    own = getattr(searcher, f"{use}_batch")
    other = exported_model.open_export(saved_model, use).run_batch
    answers = []
    # With a shortlist an answer depends on its batch.
    for some, size in ((texts, PARSING_BATCH_SIZE), (texts[-_TEXTS_ALONE:], 1)):
        ours, theirs = (run(some, size, answer) for answer in (own, other))
        answers += zip(some, ours, theirs, strict=True)
    tolerances = _TOLERANCES[searcher.precision]
    differing = [answer for answer in answers if not _is_same(*answer[1:], tolerances)]
    ties = [answer for answer in answers if answer[1].text != answer[2].text]
    if len(ties) > len(answers) * _MAX_TIES:
        differing = ties
    if differing:
        shown = {
            text: f"{text!r}: {own.text!r} became {other.text!r}"
            for text, own, other in differing
        }
        raise ValueError(
            f"The export {searcher.task.verb} {len(shown)} of {len(set(texts))} texts "
            "differently from the model, so it is deleted: "
            f"{'; '.join([*shown.values()][:5])}."
        )


def _is_same(own: Any, other: Any, tolerances: tuple[float, float]) -> bool:
    """Return whether two answers are equal or a tie; NaN scores are neither."""
    difference, size = abs(own.score - other.score), max(1, abs(own.score))
    tolerance = tolerances[own.text != other.text]
    return difference <= tolerance * size and own.truncated == other.truncated


def trial_texts(searcher: SequenceGenerator, count: int) -> list[str]:
    """Return texts to check a model with: edge cases, and random text.

    Args:
        searcher: Random texts are made from its vocabulary.
        count: Number of texts.
    """
    draw = np.random.default_rng(0)
    size = searcher.model.config.vocab_size
    rows = [draw.integers(4, size, size=1 + number % 20) for number in range(count)]
    return [*_EDGE_CASES, *searcher.tokenizer.decode(rows)][:count]


def next_version(export_dir: str | os.PathLike) -> int:
    """Return the number after the highest version in a folder; 1 for an empty one."""
    folder = pathlib.Path(export_dir)
    if not folder.is_dir():
        return 1
    versions = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    return max(versions, default=0) + 1
