"""Bulk translation with Apache Beam, into shards that are in input order.

A shard is a fixed number of consecutive input lines, and one element of the pipeline
from reading to writing. Nothing is regrouped, so each shard is written as soon as it is
translated, and a run that was stopped resumes with the missing shards.
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

from keras_transformer import text_files, wording
from keras_transformer.config import check_at_least
from keras_transformer.documents.protection import Protection
from keras_transformer.translation import exported_model
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE
from keras_transformer.translation.opened_model import OpenedModel
from keras_transformer.translation.pipeline import (
    Options,
    Translation,
    translate_in_batches,
)
from keras_transformer.translation.sampling import Sampling

FORMAT_VERSION = 1
_BLOCK_BYTES = 1 << 20
# Part of Beam, but Beam does not resolve its short name.
_DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"


@dataclasses.dataclass(frozen=True)
class BeamTranslationConfig:
    """Model, input and output of a bulk translation.

    Paths are local, or on a file system that Beam and TensorFlow both support (gs://).

    Raises:
        ValueError: If a number is outside its range, or samples are to be protected.
    """

    # An exported model, EXPORT_DIR/VERSION.
    saved_model: str
    # A file or a glob pattern, one sentence per line; .gz files are decompressed.
    input: str
    # Prefix of the names of the shards.
    output: str
    # A worker takes one shard at a time, and a stopped run loses unfinished shards.
    lines_per_shard: int = 1000
    # Sentences translated at once; fewer for long sentences.
    batch_size: int = TRANSLATION_BATCH_SIZE
    # Draw translations, for back-translation; None: search for the best.
    sampling: Sampling | None = None
    # What translations must have, with the placeholders of the model; None: nothing.
    protection: Protection | None = None

    def __post_init__(self):
        check_at_least("lines_per_shard", self.lines_per_shard, 1)
        check_at_least("batch_size", self.batch_size, 1)
        if self.sampling and self.protection:
            raise ValueError(
                "--protect and --glossary are for the best translations: drop "
                "--sampling."
            )
        for name in ("saved_model", "input", "output"):
            path = getattr(self, name)
            if not FileSystems.get_scheme(path):
                # A worker may have another working directory.
                object.__setattr__(self, name, os.path.abspath(path))

    @property
    def use(self) -> str:
        """What the model is opened for."""
        if self.sampling:
            return "sample"
        needs_alignment = self.protection and self.protection.needs_alignment
        return "align" if needs_alignment else "translate"


@dataclasses.dataclass(frozen=True)
class LineRange:
    """Consecutive lines of one file."""

    path: str
    # Byte offset of the first line in the decompressed file.
    offset: int
    # Number of the first line in the file, from 1.
    first_line: int
    num_lines: int


@dataclasses.dataclass(frozen=True)
class Shard:
    """An output file of translations, and its input lines."""

    path: str
    # File with the numbers of truncated lines; not written if there are none.
    truncated_path: str
    # Number of the first line in the whole input, from 1.
    first_line: int
    ranges: tuple[LineRange, ...]


@dataclasses.dataclass(frozen=True)
class Index:
    """The input lines of each shard."""

    ranges: tuple[tuple[LineRange, ...], ...]
    num_lines: int
    # Hexadecimal digest of all lines, each with a line feed.
    sha256: str


def translate(
    config: BeamTranslationConfig,
    options: PipelineOptions,
    look: Callable[[int, Sequence[str]], None] | None = None,
) -> dict:
    """Translate the shards that do not exist yet.

    Args:
        config: Model, input and output.
        options: Beam's options, including the runner.
        look: Same as in `index_lines`.

    Returns:
        "lines", "shards", "skipped_shards" (those that existed), and "truncated", the
        number of sources cut to the model's input limit, including skipped shards.

    Raises:
        FileNotFoundError: If there is no model or no input.
        ValueError: If the model does not translate, the input is empty or not valid
            UTF-8, or existing shards have another input or model.
        OSError: If the folder of the output cannot be written.
        RuntimeError: If the pipeline fails.
    """
    exported_model.check_use(config.saved_model, config.use)
    index = index_lines(find_files(config.input), config.lines_per_shard, look)
    if not index.num_lines:
        raise ValueError(f"{config.input} is empty: there is nothing to translate.")
    shards = plan_shards(config, index)
    claim_output(config, index)
    present = _list(f"{_literal(config.output)}-*")
    missing = [shard for shard in shards if shard.path not in present]
    if missing:
        run_pipeline(missing, config, options)
        check_written(missing)
    return {
        "lines": index.num_lines,
        "shards": len(shards),
        "skipped_shards": len(shards) - len(missing),
        "truncated": count_truncated(shards, config.output),
    }


def run_pipeline(
    shards: Sequence[Shard], config: BeamTranslationConfig, options: PipelineOptions
) -> None:
    """Translate shards; RuntimeError if the pipeline fails."""
    pipeline = beam.Pipeline(options=options)
    (
        pipeline
        | "Shards" >> beam.Create(shards)
        | "Spread over workers" >> beam.Reshuffle()
        # Dask repeats the work of a lost worker, including shards that it wrote.
        | "Skip existing shards" >> beam.Filter(is_missing)
        | "Read" >> beam.Map(read_shard)
        | "Translate" >> RunInference(SavedModelHandler(config))
        | "Write" >> beam.Map(write_shard)
    )
    result = pipeline.run()
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise RuntimeError(f"The pipeline ended in state {state}.")


class SavedModelHandler(ModelHandler):
    """Translates one shard at a time with an exported model, for RunInference.

    Beam's handler for TensorFlow does not fit: it loads Keras models, stacks inputs
    into tensors of one shape, and needs tensorflow_hub.

    Args:
        config: Has the model, and what it does.
    """

    def __init__(self, config: BeamTranslationConfig):
        super().__init__()
        self._config = config

    def load_model(self) -> OpenedModel:
        config = self._config
        return exported_model.open_export(
            config.saved_model, config.use, config.sampling
        )

    def should_skip_batching(self) -> bool:
        # Beam's batching emits the last batch at the end of a bundle, and DaskRunner
        # drops elements emitted then (Beam 2.77).
        return True

    def run_inference(
        self,
        batch: tuple[Shard, list[str]],
        model: OpenedModel,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[tuple[Shard, list[Translation]]]:
        shard, lines = batch
        options = Options(self._config.protection or Protection())
        translations = translate_in_batches(
            lines, self._config.batch_size, model.run_batch, options, model.first_alone
        )
        yield shard, translations


def is_missing(shard: Shard) -> bool:
    """Return whether a shard has not been written yet."""
    return not FileSystems.exists(shard.path)


def read_shard(shard: Shard) -> tuple[Shard, list[str]]:
    """Read the lines of a shard; seeks to them unless the file is compressed."""
    lines = []
    for part in shard.ranges:
        with open_lines(part.path) as file:
            file.seek(part.offset)
            contents = list(itertools.islice(file, part.num_lines))
        if len(contents) < part.num_lines:
            raise ValueError(f"{part.path} became shorter during the translation.")
        lines += [
            text_files.decode_line(line.removesuffix(b"\n"), part.path, number)
            for number, line in enumerate(contents, start=part.first_line)
        ]
    return shard, lines


def write_shard(translated: tuple[Shard, list[Translation]]) -> None:
    """Write the numbers of truncated lines, then the shard, each atomically."""
    shard, translations = translated
    truncated = [
        number
        for number, translation in enumerate(translations, start=shard.first_line)
        if translation.truncated
    ]
    if truncated:
        # In a file, because some runners have no metrics, and a later run reads it.
        numbers = "".join(f"{number}\n" for number in truncated)
        atomic_write(shard.truncated_path, numbers)
    lines = [text_files.one_line(translation.text) for translation in translations]
    atomic_write(shard.path, "".join(f"{line}\n" for line in lines))


def atomic_write(path: str, text: str) -> None:
    """Write a temporary file and rename it, on any file system that Beam supports."""
    folder, name = FileSystems.split(path)
    temporary = FileSystems.join(folder, f".{name}.{uuid.uuid4().hex}")
    try:
        with FileSystems.create(
            temporary, compression_type=CompressionTypes.UNCOMPRESSED
        ) as file:
            file.write(text.encode("utf-8"))
        FileSystems.rename([temporary], [path])
    except BaseException:
        with contextlib.suppress(OSError):
            FileSystems.delete([temporary])
        raise


def find_files(pattern: str) -> list[str]:
    """Return the files that match a pattern, sorted; FileNotFoundError if none does."""
    paths = sorted(_list(pattern))
    if not paths:
        raise FileNotFoundError(f"No file {pattern}. Check --input.")
    return paths


def index_lines(
    paths: Sequence[str],
    lines_per_shard: int,
    look: Callable[[int, Sequence[str]], None] | None = None,
) -> Index:
    """Read the files once, line by line, to find where each shard starts.

    Args:
        paths: The files in order; a shard may span several files.
        lines_per_shard: Number of lines in all shards except the last.
        look: Called with the number of each line, from 1, and its text in a list.

    Raises:
        ValueError: If a line is not valid UTF-8, or a .gz file is damaged.
    """
    digest = hashlib.sha256()
    shards: list[list[list]] = []
    num_lines = 0
    for path in paths:
        offset = 0
        with open_lines(path) as file:
            for number, line in enumerate(file, start=1):
                text_files.check_not_utf_16(line, path, number)
                content = line.removesuffix(b"\n")
                text = text_files.decode_line(content, path, number)
                if look is not None:
                    look(num_lines + 1, [text])
                digest.update(content + b"\n")
                starts_shard = num_lines % lines_per_shard == 0
                if starts_shard:
                    shards.append([])
                if starts_shard or number == 1:
                    shards[-1].append([path, offset, number, 0])
                shards[-1][-1][3] += 1
                num_lines += 1
                offset += len(line)
    ranges = tuple(tuple(LineRange(*fields) for fields in shard) for shard in shards)
    return Index(ranges, num_lines, digest.hexdigest())


def plan_shards(config: BeamTranslationConfig, index: Index) -> list[Shard]:
    """Return the shards of the whole input, in input order."""
    paths = [
        shard_paths(name, len(index.ranges))
        for name in (config.output, _truncated(config.output))
    ]
    first_lines = range(1, index.num_lines + 1, config.lines_per_shard)
    return [
        Shard(*fields) for fields in zip(*paths, first_lines, index.ranges, strict=True)
    ]


def check_written(shards: Sequence[Shard]) -> None:
    """Raise RuntimeError if a runner has lost shards without an error."""
    lost = [shard.path for shard in shards if is_missing(shard)]
    if lost:
        raise RuntimeError(
            f"The runner reported success, but {wording.count(len(lost), 'shard')} "
            f"{'is' if len(lost) == 1 else 'are'} missing, such as {lost[0]}. Run the "
            "same command again, or choose another --runner."
        )


def count_truncated(shards: Sequence[Shard], output: str) -> int:
    """Return how many sources of finished shards were cut to the input limit."""
    present = _list(f"{_literal(_truncated(output))}-*")
    count = 0
    for shard in shards:
        if shard.truncated_path in present:
            with FileSystems.open(shard.truncated_path) as file:
                count += file.read().count(b"\n")
    return count


def shard_paths(output: str, num_shards: int) -> list[str]:
    """Return the names of all shards; sorted names are in input order."""
    width = max(5, len(str(num_shards)))
    return [
        f"{output}-{number:0{width}d}-of-{num_shards:0{width}d}"
        for number in range(num_shards)
    ]


def claim_output(config: BeamTranslationConfig, index: Index) -> None:
    """Write a manifest of input and model next to the shards, or check an existing one.

    Raises:
        ValueError: If existing shards have another input, model or size.
        OSError: If the folder cannot be written.
    """
    path = f"{config.output}.manifest.json"
    ours = {
        "format_version": FORMAT_VERSION,
        "input_sha256": index.sha256,
        "saved_model_sha256": sha256_of_model(config.saved_model),
        "lines_per_shard": config.lines_per_shard,
        "lines": index.num_lines,
        "shards": len(index.ranges),
    }
    if config.sampling:
        ours["sampling"] = config.sampling._asdict()
    if config.protection:
        terms = [list(term) for term in config.protection.terms]
        ours["protection"] = [list(config.protection.kinds), terms]
    remedy = f"Choose another --output, or delete {path} and the shards."
    if not FileSystems.exists(path):
        for name in (config.output, _truncated(config.output)):
            if _list(f"{_literal(name)}-*-of-*"):
                raise ValueError(
                    f"Files {name}-* exist without a manifest {path}, so their input "
                    f"and model are unknown. {remedy}"
                )
        atomic_write(path, json.dumps(ours, indent=2) + "\n")
        return
    with FileSystems.open(path) as file:
        content = file.read()
    try:
        theirs = json.loads(content)
        names = ours.keys() | theirs.keys()
        differing = sorted(name for name in names if theirs.get(name) != ours.get(name))
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged. {remedy}") from error
    if differing:
        raise ValueError(
            f"Files {config.output}-* belong to another run: {', '.join(differing)} in "
            f"{path} must equal those of this run. {remedy}"
        )


def sha256_of_model(saved_model: str) -> str:
    """Return the hexadecimal SHA-256 of a SavedModel's graph, weights and assets."""
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
    """Open a file for reading lines; .gz files are decompressed.

    Raises:
        ValueError: If a .gz file is damaged, when the damaged part is read.
    """
    # Beam's own decompression does not report a truncated .gz file.
    with FileSystems.open(
        path, compression_type=CompressionTypes.UNCOMPRESSED
    ) as stored:
        if not text_files.is_compressed(path):
            yield stored
            return
        try:
            with gzip.GzipFile(fileobj=stored) as file:
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is not a complete .gz file: {error}") from error


def parse_options(arguments: Sequence[str]) -> PipelineOptions:
    """Parse Beam's options from a command line.

    Raises:
        ValueError: If an option or its value is invalid, or the runner cannot be
            imported.
    """
    runner = _import_runner(PipelineOptions(arguments).view_as(StandardOptions).runner)
    parsers: list = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    parser = parsers[0]

    def raise_error(message):
        raise ValueError(f"Apache Beam reports: {message}.")

    parser.error = raise_error
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise ValueError(
            f"{unknown[0]!r} is not an option of this program or of Apache Beam (see "
            "--help)."
        )
    options = PipelineOptions(arguments)
    options.view_as(StandardOptions).runner = runner
    if runner in (None, "DirectRunner"):
        _set_direct_runner_defaults(options)
    elif runner == _DASK_RUNNER:
        _set_dask_defaults(options)
    return options


def _import_runner(name: str | None) -> str | None:
    """Import the runner, which defines its options; return its full name."""
    if name is not None and name.lower() in ("dask", "daskrunner"):
        name = _DASK_RUNNER
    if name is None or "." not in name:
        return name  # Beam already has the options of these
    try:
        importlib.import_module(name.rpartition(".")[0])
    except ModuleNotFoundError as error:
        raise ValueError(
            f"--runner={name} needs {error.name}. For Dask install "
            "keras_transformer[beam]."
        ) from error
    return name


def _set_dask_defaults(options: PipelineOptions) -> None:
    """Make Dask give a worker one shard at a time, unless options say otherwise."""
    from apache_beam.runners.dask.dask_runner import DaskOptions

    # By default Dask gives 128 shards to one worker while the others are idle.
    dask = options.view_as(DaskOptions)
    if dask.npartitions is None and dask.partition_size is None:
        dask.partition_size = 1


def _set_direct_runner_defaults(options: PipelineOptions) -> None:
    """Make DirectRunner use --direct_num_workers, and log errors only."""
    # By default DirectRunner downloads and starts Prism, which ignores
    # --direct_num_workers. Unsafe triggers disable that (apache/beam issue 33623); the
    # pipeline has no triggers.
    options.view_as(TypeOptions).allow_unsafe_triggers = True
    worker = options.view_as(WorkerOptions)
    if worker.default_sdk_harness_log_level is None:
        worker.default_sdk_harness_log_level = "ERROR"


def _truncated(output: str) -> str:
    """Return the prefix of the names of the files of truncated lines."""
    return f"{output}.truncated"


def _literal(path: str) -> str:
    """Return a pattern that matches only this path."""
    return re.sub(r"([*?[])", r"[\1]", path)


def _list(pattern: str) -> set[str]:
    (result,) = FileSystems.match([pattern])
    return {metadata.path for metadata in result.metadata_list}
