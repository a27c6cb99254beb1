"""Timing programs from their start to their first result."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from keras_transformer.presets import Preset

# Programs that can be timed: bin/translate.py with two kinds of model, bin/train.py.
TIMED = ("model_dir", "saved_model", "train")

_REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_CORPUS_VOCAB_SIZE = 2000  # same as in `make quickstart`
# Number of lines of standard error in the message about a failed program.
_SHOWN_LINES = 5


class Start(NamedTuple):
    """A command, and how to recognize its first result."""

    command: list[str]
    # Returns whether a line of standard output is the first result.
    is_result: Callable[[str], bool]
    # File for standard input.
    text: pathlib.Path | None = None


def make(
    folder: pathlib.Path,
    preset: Preset,
    timed: Collection[str],
    source_length: int,
    seed: int,
) -> dict[str, Any]:
    """Write the inputs of the programs: a model_dir, its export, a sentence, a corpus.

    Args:
        folder: The folder to write into.
        preset: Model and search settings.
        timed: Names from `TIMED`; inputs of the other programs are not written.
        source_length: Tokens of the sentence, EOS included.
        seed: Seed of weights and sentence.

    Returns:
        "num_parameters".
    """
    import keras

    from benchmarks.lib import random_models
    from keras_transformer.runs.model_dir import ModelDir, RunConfig
    from keras_transformer.serving import saved_model

    # Before making tokenizers: setting a seed deletes their TensorFlow resources.
    keras.utils.set_random_seed(seed)
    translator = random_models.random_translator(
        preset.model, preset.decoding, "float32"
    )
    (text,) = random_models.number_texts(
        preset.model.vocab_size, 1, source_length, seed
    )
    (folder / "text").write_text(text + "\n", encoding="utf-8")
    model_dir = ModelDir(folder / "model")
    model_dir.write_config(
        RunConfig(
            **{name: getattr(preset, name) for name in ("model", "training")},
            preset=preset.name,
            decoding=translator.decoding,
            source_language="none",
            target_language="none",
            tokenizer_hash=translator.tokenizer.fingerprint,
        )
    )
    translator.tokenizer.save(model_dir.tokenizer_path)
    model_dir.checkpoints("averaged").save(1, {}, model=translator.model)
    if "saved_model" in timed:
        saved_model.export(translator, folder / "export")
    if "train" in timed:
        make_corpus(folder / "data")
    return {"num_parameters": translator.model.count_params()}


def make_corpus(folder: pathlib.Path) -> None:
    """Write and prepare the phrasebook as `make quickstart` does."""
    with tempfile.TemporaryDirectory() as text:
        _run(program("examples/write_phrasebook.py") + [f"--output_dir={text}"])
        files = [
            f"--{split}_{side}={text}/{split}.{language}"
            for split in ("train", "valid")
            for side, language in (("source", "en"), ("target", "de"))
        ]
        _run(
            program("bin/prepare_data.py")
            + [*files, f"--data_dir={folder}", f"--vocab_size={_CORPUS_VOCAB_SIZE}"]
        )


def commands(
    folder: pathlib.Path,
    preset: Preset,
    timed: Collection[str],
    tokens_per_batch: int,
    seed: int,
) -> dict[str, Start]:
    """Return the commands to time, with the inputs that `make` wrote.

    Args:
        folder: Same as in `make`.
        preset: Same as in `make`.
        timed: Same as in `make`.
        tokens_per_batch: Tokens per side in a training batch.
        seed: Seed of the training.

    Returns:
        By name, the commands of `timed`, and "parts_of_..." for those that translate.
    """
    models = {"model_dir": folder / "model", "saved_model": folder / "export" / "1"}
    found = {}
    for kind in timed:
        if kind == "train":
            found[kind] = Start(
                program("bin/train.py")
                + [f"--data_dir={folder / 'data'}", "--bleu_sentences=0"]
                + [f"--model_dir={folder / 'run'}", f"--preset={preset.name}"]
                + [f"--tokens_per_batch={tokens_per_batch}", "--log_every_steps=1"]
                + [f"--seed={seed}", "--distribution=one_device"]
                + _model_flags(preset),
                lambda line: line.startswith("step "),
            )
            continue
        found[kind] = Start(
            program("bin/translate.py") + [f"--{kind}={models[kind]}"],
            lambda line: bool(line.strip()),
            folder / "text",
        )
        found[f"parts_of_{kind}"] = Start(
            program("benchmarks/start_parts.py") + [kind, str(models[kind])],
            lambda line: line.startswith("{"),
            folder / "text",
        )
    return found


def time_alternating(
    starts: Mapping[str, Start], repeats: int
) -> dict[str, list[float]]:
    """Run all commands `repeats` times, alternating.

    Returns:
        "NAME_result_s": seconds from the start of a command to its first result;
        "NAME_cpu_s": CPU seconds of its process; "NAME_PART_s": the output of a command
        "parts_of_NAME".

    Raises:
        ChildProcessError: If a command ends without a result.
    """
    values: dict[str, list[float]] = {}

    def add(name, value):
        values.setdefault(name, []).append(value)

    for _ in range(repeats):
        for name, start in starts.items():
            seconds, cpu_seconds, line = first_result(start)
            if name.startswith("parts_of_"):
                kind = name.removeprefix("parts_of_")
                for part, value in json.loads(line).items():
                    add(f"{kind}_{part}", value)
            else:
                add(f"{name}_result_s", seconds)
                add(f"{name}_cpu_s", cpu_seconds)
    return values


def first_result(start: Start) -> tuple[float, float, str]:
    """Run a command until its first result, then kill it.

    Returns:
        Seconds until the result, CPU seconds of the process, and the line.

    Raises:
        ChildProcessError: If the command ends without a result.
    """
    # The child reads this time too: `time.monotonic` is the same in all processes.
    began = time.monotonic()
    with (
        open(start.text or os.devnull, "rb") as text,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            start.command,
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "STARTED_AT": repr(began)},
        ) as process,
    ):
        found = None
        for line in process.stdout:
            if start.is_result(line):
                found = time.monotonic() - began, line
                break
        # Not `process.kill`, which may reap the process before `wait4` does.
        os.kill(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        error_lines = errors.read().decode(errors="replace").splitlines()
    if found is None:
        end = "\n".join(error_lines[-_SHOWN_LINES:]) or "nothing"
        raise ChildProcessError(
            f"{' '.join(start.command)} gave no result. The end of its standard error: "
            f"{end}"
        )
    return found[0], usage.ru_utime + usage.ru_stime, found[1]


def seconds_until(
    command: Sequence[str], beginnings: Sequence[str], environment: Mapping[str, str]
) -> list[float]:
    """Run a command until it has printed lines that begin so, in this order; kill it.

    Returns:
        The seconds from its start to each of them.

    Raises:
        ChildProcessError: If it ends before.
    """
    began, found = time.perf_counter(), []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            for line in process.stdout:
                if line.startswith(beginnings[len(found)]):
                    found.append(time.perf_counter() - began)
                if len(found) == len(beginnings):
                    return found
        finally:
            process.kill()
    missing = beginnings[len(found)]
    raise ChildProcessError(f"{' '.join(command)} ended without {missing!r}.")


def program(path: str) -> list[str]:
    """Return the command of a program of the checkout."""
    return [sys.executable, str(_REPOSITORY / path)]


def _model_flags(preset: Preset) -> list[str]:
    """Return bin/train.py's flags for the model, except vocabulary sizes and ids."""
    left_out = ("vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id")
    left_out += ("suppressed_ids",)  # no flag
    given = {
        name: value
        for name, value in dataclasses.asdict(preset.model).items()
        if name not in left_out and value is not None
    }
    return [f"--{name}={value}" for name, value in given.items()]


def _run(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        end = "\n".join(ended.stderr.splitlines()[-_SHOWN_LINES:])
        raise ChildProcessError(f"{' '.join(command)} failed: {end or 'nothing'}")
