"""Writing and loading exported models (SavedModels, as loaded by TF Serving)."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operators of the vocabulary
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer import atomic_files, json_files
from keras_transformer.config import check_choice
from keras_transformer.inference.batch_size import (
    PARSING_BATCH_SIZE,
    TRANSLATION_BATCH_SIZE,
)
from keras_transformer.inference.compiling_beside import CompilerBeside, compiling
from keras_transformer.inference.generator import SequenceGenerator
from keras_transformer.inference.search_programs import COMPILE, STATE, Size
from keras_transformer.inference.translator import Translator
from keras_transformer.language_tokens import token_of
from keras_transformer.parsing.parser import (
    Parser,
    parse_in_batches,
)
from keras_transformer.serving import warmup
from keras_transformer.serving.sampling import Sampling, sampler
from keras_transformer.serving.signatures import ParsingModule, ServingModule
from keras_transformer.translation.pipeline import Translation, translate_in_batches

# Signatures that translate, and that parse in the export of a parser.
SIGNATURE = "serving_default"
PARSE_SIGNATURE = "parse"
# The signature with the alignment of words, and the newer of its outputs.
_ALIGNED = ("align", ("log_probabilities", "source_words"))
# Signatures without a search that can be compiled.
_NOT_COMPILED = frozenset({"sample", "score"})
# In the folder where TF Serving expects additional files.
DESCRIPTION = pathlib.PurePath("assets.extra") / "keras_transformer.json"
# Edge cases among the texts that check an export; the others are random.
_EDGE_CASES = ("", "  ", "a", "\U0001f600 \u72d7", "a\tb\u00a0c")
# Largest difference of scores, relative to scores above 1: for equal texts, and for
# different texts with practically equal scores (ties). bfloat16 rounds to 8 bits: of
# 288 captions that three small models translated together and alone, equal texts
# differ by up to 0.005, and the two different ones by 0.07.
_TOLERANCES = {"float32": (1e-4, 1e-5), "bfloat16": (0.02, 0.1)}
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
        searcher: The translator or parser to export, with its search settings.
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
            file, but faster searches for few sentences.
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
    is_parser = isinstance(searcher, Parser)
    if is_parser and num_best is not None:
        raise ValueError(
            "`num_best` (--nbest) is for translation models; a parser gives one tree. "
            f"Received: num_best={num_best}."
        )
    described = dict(description or {})
    device = described.get("device")
    has_programs = device and not _NOT_COMPILED.issuperset(signatures or [SIGNATURE])
    served = searcher.with_prepared_weights(
        has_packed_kernels=has_packed_kernels,
        has_stacks=True,
        program_sizes=searcher.program_sizes(device) if has_programs else (),
    )
    if is_parser:
        module = ParsingModule(served)
    else:
        module = ServingModule(served, num_best, described.get("source_language") or "")
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
        if (PARSE_SIGNATURE if is_parser else SIGNATURE) in chosen:
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
    owner = tf.Module(name="serving")
    owner.weights = [
        variable
        for variable in searcher.searched_variables
        if variable.handle.ref() in read
    ]
    owner.tokenizer = searcher.tokenizer
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
    if isinstance(searcher, Parser):
        run, own, other = (
            parse_in_batches,
            searcher.parse_batch,
            load_parser(saved_model),
        )
    else:
        run, own = translate_in_batches, searcher.translate_batch
        other = load(saved_model)
    answers = []
    # With a shortlist an answer depends on its batch.
    for some, size in ((texts, PARSING_BATCH_SIZE), (texts[-_TEXTS_ALONE:], 1)):
        ours, theirs = (run(some, size, answer) for answer in (own, other))
        answers += zip(some, ours, theirs, strict=True)
    tolerances = _TOLERANCES[searcher.model.compute_dtype]
    differing = [answer for answer in answers if not _is_same(*answer[1:], tolerances)]
    ties = [answer for answer in answers if answer[1].text != answer[2].text]
    if len(ties) > len(answers) * _MAX_TIES:
        differing = ties
    if differing:
        shown = {
            text: f"{text!r}: {own.text!r} became {other.text!r}"
            for text, own, other in differing
        }
        verb = "parses" if isinstance(searcher, Parser) else "translates"
        raise ValueError(
            f"The export {verb} {len(shown)} of {len(set(texts))} texts differently "
            f"from the model, so it is deleted: {'; '.join([*shown.values()][:5])}."
        )


def _is_same(own: Any, other: Any, tolerances: tuple[float, float]) -> bool:
    """Return whether two answers are equal or a tie; NaN scores are neither."""
    difference, size = abs(own.score - other.score), max(1, abs(own.score))
    tolerance = tolerances[own.text != other.text]
    return difference <= tolerance * size and own.truncated == other.truncated


def trial_texts(searcher: SequenceGenerator, count: int, seed: int = 0) -> list[str]:
    """Return texts to check a model with: edge cases, and random text.

    Args:
        searcher: Random texts are made from its vocabulary.
        count: Number of texts.
        seed: Random seed.
    """
    draw = np.random.default_rng(seed)
    size = searcher.model.config.vocab_size
    rows = [draw.integers(4, size, size=1 + number % 20) for number in range(count)]
    return [*_EDGE_CASES, *searcher.tokenizer.decode(rows)][:count]


def read_description(saved_model: str | os.PathLike) -> dict[str, Any]:
    """Return the description of an exported model, {} if it has none.

    Raises:
        ValueError: If the description is damaged.
    """
    path = os.path.join(saved_model, DESCRIPTION)
    content = _content(path)
    if content is None:
        return {}
    try:
        description = json.loads(content)
        if isinstance(description, dict):
            return description
    except ValueError:
        pass
    raise ValueError(f"{path} is damaged: export the model again.")


def language_tokens(description: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a text of an exported model may begin with to tell its language.

    Args:
        description: From `read_description`; earlier releases wrote languages alone.
    """
    tokens = map(token_of, description.get("languages", ()))
    return tuple(description.get("language_tokens", tokens))


def next_version(export_dir: str | os.PathLike) -> int:
    """Return the number after the highest version in a folder; 1 for an empty one."""
    folder = pathlib.Path(export_dir)
    if not folder.is_dir():
        return 1
    versions = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    return max(versions, default=0) + 1


def translate(
    saved_model: str | os.PathLike,
    texts: Sequence[str],
    batch_size: int = TRANSLATION_BATCH_SIZE,
) -> list[Translation]:
    """Translate texts with the model that `load` loads: `translate_in_batches`."""
    return translate_in_batches(texts, batch_size, load(saved_model))


def load(
    saved_model: str | os.PathLike, sampling: Sampling | None = None
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load an exported model; return the batch function for `translate_in_batches`.

    Args:
        saved_model: The folder of a version, local or remote (gs://).
        sampling: How to draw translations; None: search for the best.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it does not translate, or is damaged.
    """
    if sampling is not None:
        return sampler(_signature(saved_model, "sample"), sampling)
    return _compiling(saved_model, SIGNATURE)


def compiler_of(loaded: Any, saved_model: str | os.PathLike) -> CompilerBeside | None:
    """Return what compiles the programs of an export, if it has and describes some.

    Args:
        loaded: The loaded export.
        saved_model: Its folder.
    """
    if COMPILE not in loaded.signatures:
        return None
    description = read_description(saved_model)
    if "programs" not in description:  # copied without its additional files
        return None
    return CompilerBeside(
        {name: functools.partial(_call, loaded, name) for name in (COMPILE, STATE)},
        [Size(*each) for each in description["programs"]],
        description["step_weights"],
    )


def load_aligned(
    saved_model: str | os.PathLike,
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load an exported model as in `load`, with the outputs of its signature `align`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it has no such signature or an earlier one, or is damaged.
    """
    return _compiling(saved_model, *_ALIGNED)


def check_aligned(saved_model: str | os.PathLike) -> None:
    """Raise as `load_aligned` does unless it can load a model; loads no weights."""
    check_signature(saved_model, *_ALIGNED)


def load_parser(
    saved_model: str | os.PathLike,
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load a parser as in `load`; return the batch function for `parse_in_batches`."""
    serve = _signature(saved_model, PARSE_SIGNATURE)
    return lambda text: serve(text=text)


def load_all(saved_model: str | os.PathLike) -> Any:
    """Load an exported model with all its signatures, in the attribute `signatures`.

    They need the returned object, which owns the weights.

    Args:
        saved_model: The folder of a version, local or remote (gs://).

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it is damaged.
    """
    _read_graph(saved_model)
    return _load(saved_model)


def check_signature(
    saved_model: str | os.PathLike, name: str = SIGNATURE, outputs: Sequence[str] = ()
) -> None:
    """Raise unless a folder has a model with this signature; loads no weights.

    Args:
        saved_model: The folder of a version, local or remote (gs://).
        name: Name of the signature.
        outputs: Outputs that it must have.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it has no such signature or outputs, or is damaged.
    """
    graph = _read_graph(saved_model)
    names = [key for key in graph.signature_def if not key.startswith("__")]
    if name not in names:
        raise ValueError(
            f"The model in {saved_model} must have the signature {name!r}. "
            f"Received: {', '.join(sorted(names)) or 'none'}."
        )
    missing = sorted(set(outputs) - set(graph.signature_def[name].outputs))
    if missing:
        raise ValueError(
            f"The signature {name!r} of the model in {saved_model} has no "
            f"{', '.join(missing)}, as an earlier version wrote it. Export the model "
            "again."
        )


def _load(saved_model: str | os.PathLike) -> Any:
    try:
        with atomic_files.without_pattern(saved_model) as folder:
            return tf.saved_model.load(folder)
    except Exception as error:  # each kind of damage raises another exception
        raise ValueError(
            f"The model in {saved_model} cannot be loaded, perhaps because a file is "
            f"missing or damaged: {str(error).splitlines()[0]}. Copy the whole folder "
            "again, or export the model again."
        ) from error


def _read_graph(saved_model: str | os.PathLike) -> Any:
    """Read saved_model.pb; return its graph definition."""
    path = os.path.join(saved_model, "saved_model.pb")
    content = _content(path)
    if content is None:
        raise FileNotFoundError(
            f"No saved_model.pb in {saved_model}. Give the folder with the version "
            "number, EXPORT_DIR/VERSION."
        )
    try:
        (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    except (DecodeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: export the model again.") from error
    return graph


def _content(path: str) -> bytes | None:
    """Return the content of a file, local or remote (gs://); None if there is none."""
    try:
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.OpError as error:
        raise OSError(
            f"Could not read {path}: {atomic_files.reason(error)}."
        ) from error


def _translate_batch(serve: Callable) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Give a signature with one translation a text the form of `translate_batch`."""

    def translate_batch(text):
        result = dict(serve(text=text))
        translation, score = result.pop("translation"), result.pop("score")
        return {
            **result,
            "translations": translation[:, tf.newaxis],
            "scores": score[:, tf.newaxis],
        }

    return translate_batch


def _compiling(
    saved_model: str | os.PathLike, name: str, outputs: Sequence[str] = ()
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """Load a signature that translates, and what compiles programs beside its batches.

    Arguments as in `check_signature`.
    """
    check_signature(saved_model, name, outputs)
    loaded = _load(saved_model)
    translate_batch = _translate_batch(functools.partial(_call, loaded, name))
    return compiling(translate_batch, compiler_of(loaded, saved_model))


def _signature(
    saved_model: str | os.PathLike, name: str, outputs: Sequence[str] = ()
) -> Callable:
    """Load one signature of an exported model; arguments as in `check_signature`."""
    check_signature(saved_model, name, outputs)
    return functools.partial(_call, _load(saved_model), name)


def _call(loaded: Any, name: str, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Call a signature; the caller keeps `loaded` alive, which owns the weights."""
    return loaded.signatures[name](**inputs)
