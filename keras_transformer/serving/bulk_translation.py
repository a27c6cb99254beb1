"""Translating many lines with Apache Beam, into shards that are in input order.

A shard is a fixed number of lines that follow each other in the input. It is one
element of the pipeline from reading to writing: nothing is regrouped, so each shard is
written as soon as it is translated, and a stopped run goes on with the absent ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import importlib
import itertools
import json
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    StandardOptions,
    TypeOptions,
    WorkerOptions,
)
from apache_beam.runners.runner import PipelineState

from keras_transformer import text_files
from keras_transformer.config import TRANSLATED_AT_ONCE, check_at_least
from keras_transformer.inference.translator import Translation, translate_in_batches
from keras_transformer.serving import saved_model as saved_model_lib

FORMAT_VERSION = 1
_BLOCK_BYTES = 1 << 20
# Beam has this runner but does not know it by its name.
_DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"


@dataclasses.dataclass(frozen=True)
class BeamTranslationConfig:
    """What is translated, with what, into what.

    Paths are local, or of a file system that Beam knows and TensorFlow reads (gs://).

    Raises:
        ValueError: If a number is outside its range.
    """

    # An exported model, EXPORT_DIR/VERSION.
    saved_model: str
    # One file or a pattern of several, one sentence a line; those in .gz are unpacked.
    input: str
    # What the names of the shards begin with.
    output: str
    # Lines in a shard: what a worker takes at once, and what a stopped run may lose.
    lines_per_shard: int = 1000
    # Sentences translated at once; fewer where they are long.
    batch_size: int = TRANSLATED_AT_ONCE

    def __post_init__(self):
        check_at_least("lines_per_shard", self.lines_per_shard, 1)
        check_at_least("batch_size", self.batch_size, 1)
        for name in ("saved_model", "input", "output"):
            # A worker may have another working directory.
            object.__setattr__(self, name, _absolute(getattr(self, name)))


@dataclasses.dataclass(frozen=True)
class Piece:
    """Lines of one file that follow each other."""

    path: str
    # Bytes before the first of them, in the unpacked file.
    offset: int
    # Its number in the file, from 1.
    first_line: int
    num_lines: int


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file of translations and the lines it is made from."""

    path: str
    # Names the lines whose sources were cut; absent where there is none.
    truncated_path: str
    # Number of the first line in the whole input, from 1.
    first_line: int
    pieces: tuple[Piece, ...]


@dataclasses.dataclass(frozen=True)
class Index:
    """Where the lines of each shard are."""

    pieces: tuple[tuple[Piece, ...], ...]
    num_lines: int
    # Over all lines, each ended by a line feed, in hexadecimal.
    sha256: str


def translate(config: BeamTranslationConfig, options: PipelineOptions) -> dict:
    """Translate the shards that are not there yet.

    Args:
        config: What to translate.
        options: Of Beam, the runner among them.

    Returns:
        "lines", "shards", "skipped_shards", which were there, and "truncated", the
        number of sources cut to the model's length, in the skipped shards too.

    Raises:
        FileNotFoundError: If there is no model or no input.
        ValueError: If the model does not translate, the input is empty or no UTF-8, or
            the output has shards of something else.
        OSError: If the folder of the output cannot be written.
        RuntimeError: If the pipeline fails.
    """
    saved_model_lib.check_signature(config.saved_model)
    index = index_lines(find_files(config.input), config.lines_per_shard)
    if not index.num_lines:
        raise ValueError(f"{config.input} is empty: there is nothing to translate.")
    shards = plan_shards(config, index)
    claim_output(config, index)
    present = _list(f"{_literal(config.output)}-*")
    absent = [shard for shard in shards if shard.path not in present]
    if absent:
        run_pipeline(absent, config, options)
        check_written(absent)
    return {
        "lines": index.num_lines,
        "shards": len(shards),
        "skipped_shards": len(shards) - len(absent),
        "truncated": count_truncated(shards, config.output),
    }


def run_pipeline(
    shards: Sequence[Shard], config: BeamTranslationConfig, options: PipelineOptions
) -> None:
    """Translate shards.

    Raises:
        RuntimeError: If the pipeline fails.
    """
    pipeline = beam.Pipeline(options=options)
    (
        pipeline
        | "Shards" >> beam.Create(shards)
        | "Spread over workers" >> beam.Reshuffle()
        # Dask repeats what a lost worker did: what it wrote is there.
        | "Skip what is there" >> beam.Filter(is_absent)
        | "Read" >> beam.Map(read_shard)
        | "Translate"
        >> RunInference(SavedModelHandler(config.saved_model, config.batch_size))
        | "Write" >> beam.Map(write_shard)
    )
    result = pipeline.run()
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(f"The pipeline ended in state {state}.")


class SavedModelHandler(ModelHandler):
    """Translates a shard at a time with an exported model, for RunInference.

    Beam's own handler for TensorFlow loads Keras models, calls them on stacked tensors
    of one shape, and needs tensorflow_hub.

    Args:
        saved_model: The folder of a version.
        batch_size: Sentences translated at once.
    """

    def __init__(self, saved_model: str, batch_size: int):
        super().__init__()
        self._saved_model = saved_model
        self._batch_size = batch_size

    def load_model(self) -> Callable:
        return saved_model_lib.load(self._saved_model)

    def should_skip_batching(self) -> bool:
        # Beam's batching hands on the last batch when a bundle ends, and DaskRunner
        # drops what comes then (Beam 2.77).
        return True

    def run_inference(
        self,
        batch: tuple[Shard, list[str]],
        model: Callable,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[tuple[Shard, list[Translation]]]:
        shard, lines = batch
        yield shard, translate_in_batches(lines, self._batch_size, model)


def is_absent(shard: Shard) -> bool:
    """Return whether a shard has not been written yet."""
    return not FileSystems.exists(shard.path)


def read_shard(shard: Shard) -> tuple[Shard, list[str]]:
    """Read the lines of a shard, and no others where the file is not compressed."""
    lines = []
    for piece in shard.pieces:
        with open_lines(piece.path) as file:
            file.seek(piece.offset)
            contents = list(itertools.islice(file, piece.num_lines))
        if len(contents) < piece.num_lines:
            raise ValueError(f"{piece.path} lost lines while it was translated.")
        lines += [
            text_files.decode_line(line.removesuffix(b"\n"), piece.path, number)
            for number, line in enumerate(contents, start=piece.first_line)
        ]
    return shard, lines


def write_shard(translated: tuple[Shard, list[Translation]]) -> None:
    """Write a shard whole, after the numbers of its lines whose sources were cut."""
    shard, translations = translated
    cut = [
        number
        for number, translation in enumerate(translations, start=shard.first_line)
        if translation.truncated
    ]
    if cut:  # a file, because not every runner has metrics, and it outlives this run
        write_whole(shard.truncated_path, "".join(f"{number}\n" for number in cut))
    lines = [text_files.one_line(translation.text) for translation in translations]
    write_whole(shard.path, "".join(f"{line}\n" for line in lines))


def write_whole(path: str, text: str) -> None:
    """Write a file aside, then rename it, on any file system that Beam knows."""
    folder, name = FileSystems.split(path)
    aside = FileSystems.join(folder, f".{name}.{uuid.uuid4().hex}")
    try:
        with _create(aside) as file:
            file.write(text.encode("utf-8"))
        FileSystems.rename([aside], [path])
    except BaseException:
        with contextlib.suppress(OSError):
            FileSystems.delete([aside])
        raise


def find_files(pattern: str) -> list[str]:
    """Return the files of a pattern, sorted by name.

    Raises:
        FileNotFoundError: If there is none.
    """
    paths = sorted(_list(pattern))
    if not paths:
        raise FileNotFoundError(f"No file {pattern}. Check --input.")
    return paths


def index_lines(paths: Sequence[str], lines_per_shard: int) -> Index:
    """Read the files once, a line at a time, to know where each shard begins.

    Args:
        paths: Of the files, in order; a shard may hold the end of one and the next.
        lines_per_shard: All shards but the last have so many.

    Raises:
        ValueError: If a line is no UTF-8, or a .gz file is damaged.
    """
    digest = hashlib.sha256()
    shards: list[list[list]] = []
    num_lines = 0
    for path in paths:
        offset = 0
        with open_lines(path) as file:
            for number, line in enumerate(file, start=1):
                content = line.removesuffix(b"\n")
                text_files.decode_line(content, path, number)
                digest.update(content + b"\n")
                begins_shard = num_lines % lines_per_shard == 0
                if begins_shard:
                    shards.append([])
                if begins_shard or number == 1:
                    shards[-1].append([path, offset, number, 0])
                shards[-1][-1][3] += 1
                num_lines += 1
                offset += len(line)
    pieces = tuple(tuple(Piece(*piece) for piece in shard) for shard in shards)
    return Index(pieces, num_lines, digest.hexdigest())


def plan_shards(config: BeamTranslationConfig, index: Index) -> list[Shard]:
    """Return the shards of the whole input, in its order."""
    paths = [
        shard_paths(name, len(index.pieces))
        for name in (config.output, _truncated(config.output))
    ]
    first_lines = range(1, index.num_lines + 1, config.lines_per_shard)
    return [
        Shard(*fields) for fields in zip(*paths, first_lines, index.pieces, strict=True)
    ]


def check_written(shards: Sequence[Shard]) -> None:
    """Raise unless all shards are there.

    Raises:
        RuntimeError: If a runner lost some without an error.
    """
    lost = [shard.path for shard in shards if is_absent(shard)]
    if lost:
        raise RuntimeError(
            f"The runner said it was done, but {len(lost)} shards are absent, such as "
            f"{lost[0]}. Run the same command again, or choose another --runner."
        )


def count_truncated(shards: Sequence[Shard], output: str) -> int:
    """Return how many sources of finished shards were cut to the model's length."""
    present = _list(f"{_literal(_truncated(output))}-*")
    count = 0
    for shard in shards:
        if shard.truncated_path in present:
            with FileSystems.open(shard.truncated_path) as file:
                count += file.read().count(b"\n")
    return count


def shard_paths(output: str, num_shards: int) -> list[str]:
    """Return the names of all shards: sorted by name they are in input order."""
    width = max(5, len(str(num_shards)))
    return [
        f"{output}-{number:0{width}d}-of-{num_shards:0{width}d}"
        for number in range(num_shards)
    ]


def claim_output(config: BeamTranslationConfig, index: Index) -> None:
    """Say beside the shards what they are made from, or check what is said there.

    Raises:
        ValueError: If the shards that are there are made from something else.
        OSError: If the folder cannot be written.
    """
    path = f"{config.output}.manifest.json"
    ours = {
        "format_version": FORMAT_VERSION,
        "input_sha256": index.sha256,
        "saved_model_sha256": sha256_of_model(config.saved_model),
        "lines_per_shard": config.lines_per_shard,
        "lines": index.num_lines,
        "shards": len(index.pieces),
    }
    remedy = f"Give another --output, or delete {path} and the shards."
    if not FileSystems.exists(path):
        for name in (config.output, _truncated(config.output)):
            if _list(f"{_literal(name)}-*-of-*"):
                raise ValueError(
                    f"{name}-* are there, and no {path} that says what they are made "
                    f"from. {remedy}"
                )
        write_whole(path, json.dumps(ours, indent=2) + "\n")
        return
    with FileSystems.open(path) as file:
        content = file.read()
    try:
        theirs = json.loads(content)
        differing = [name for name in ours if theirs.get(name) != ours[name]]
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged. {remedy}") from error
    if differing:
        raise ValueError(
            f"{config.output}-* are made from something else: "
            f"{', '.join(differing)} in {path} must be those of this run. {remedy}"
        )


def sha256_of_model(saved_model: str) -> str:
    """Return the hexadecimal SHA-256 over graph, weights and assets of a SavedModel."""
    digest = hashlib.sha256()
    names = ("saved_model.pb", "variables/*", "assets/*")
    for pattern in names:
        for path in sorted(_list(FileSystems.join(_literal(saved_model), pattern))):
            with FileSystems.open(
                path, compression_type=CompressionTypes.UNCOMPRESSED
            ) as file:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def open_lines(path: str) -> Iterator[BinaryIO]:
    """Open a file whose lines are read, unpacked if it is a .gz.

    Raises:
        ValueError: If a .gz file is damaged, when that part of it is read.
    """
    # Beam's own unpacking takes the lines of a .gz that was cut short for all of them.
    with FileSystems.open(
        path, compression_type=CompressionTypes.UNCOMPRESSED
    ) as packed:
        if not path.endswith(".gz"):
            yield packed
            return
        try:
            with gzip.GzipFile(fileobj=packed) as file:
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is no whole .gz file: {error}") from error


def parse_options(arguments: Sequence[str]) -> PipelineOptions:
    """Return Beam's options from a command line.

    Raises:
        ValueError: If Beam does not know one, or its value, or the runner cannot be
            imported.
    """
    runner = _import_runner(PipelineOptions(arguments).view_as(StandardOptions).runner)
    parsers: list = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    parser = parsers[0]

    def refuse(message):
        raise ValueError(f"Apache Beam says: {message}.")

    parser.error = refuse
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise ValueError(
            f"neither this program nor Apache Beam knows {unknown[0]!r} (see --help)."
        )
    options = PipelineOptions(arguments)
    options.view_as(StandardOptions).runner = runner
    if runner in (None, "DirectRunner"):
        _keep_direct(options)
    elif runner == _DASK_RUNNER:
        _take_shards_one_by_one(options)
    return options


def _import_runner(name: str | None) -> str | None:
    """Import the runner, so that Beam knows its options; return Beam's name of it."""
    if name is not None and name.lower() in ("dask", "daskrunner"):
        name = _DASK_RUNNER
    if name is None or "." not in name:
        return name  # Beam has the options of these
    try:
        importlib.import_module(name.rpartition(".")[0])
    except ModuleNotFoundError as error:
        raise ValueError(
            f"--runner={name} needs {error.name}. For Dask install "
            "keras_transformer[beam]."
        ) from error
    return name


def _take_shards_one_by_one(options: PipelineOptions) -> None:
    """Let Dask give a worker one shard at a time, unless it is told otherwise."""
    from apache_beam.runners.dask.dask_runner import DaskOptions

    # By itself Dask gives 128 shards to one worker and keeps the others idle.
    dask = options.view_as(DaskOptions)
    if dask.npartitions is None and dask.partition_size is None:
        dask.partition_size = 1


def _keep_direct(options: PipelineOptions) -> None:
    """Let DirectRunner run here, with the workers it is given, and quietly."""
    # It would first download and start Prism, which does not read --direct_num_workers,
    # but not where triggers may be unsafe (apache/beam issue 33623); we have none.
    options.view_as(TypeOptions).allow_unsafe_triggers = True
    worker = options.view_as(WorkerOptions)
    if worker.default_sdk_harness_log_level is None:
        worker.default_sdk_harness_log_level = "ERROR"


def _truncated(output: str) -> str:
    """Return what the names of the files of cut lines begin with."""
    return f"{output}.truncated"


def _absolute(path: str) -> str:
    return path if FileSystems.get_scheme(path) else os.path.abspath(path)


def _literal(path: str) -> str:
    """Return the pattern that means this path alone."""
    return re.sub(r"([*?[])", r"[\1]", path)


def _list(pattern: str) -> set[str]:
    (result,) = FileSystems.match([pattern])
    return {metadata.path for metadata in result.metadata_list}


def _create(path: str) -> BinaryIO:
    return FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
