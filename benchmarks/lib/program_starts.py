"""Programs started again and again, and when each gave its first result."""

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

# What can be timed: bin/translate.py with each of its two kinds of model; training.
TIMED = ("model_dir", "saved_model", "train")

_REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_CORPUS_VOCAB_SIZE = 2000  # as in `make quickstart`
# Lines of a failed program's standard error that its message shows.
_SHOWN_LINES = 5


class Start(NamedTuple):
    """A command, and how its result is known."""

    command: list[str]
    # Whether a line of standard output is the first result.
    is_result: Callable[[str], bool]
    # File that is standard input.
    text: pathlib.Path | None = None


def make(
    place: pathlib.Path,
    preset: Preset,
    timed: Collection[str],
    source_length: int,
    seed: int,
) -> dict[str, Any]:
    """Write what the programs read: a model_dir, its export, a sentence, a corpus.

    Args:
        place: The folder to write into.
        preset: Of the model, and how it searches.
        timed: What of `TIMED` will be; the rest is not made.
        source_length: Tokens of the sentence, EOS included.
        seed: Of weights and sentence.

    Returns:
        "num_parameters".
    """
    import keras

    from benchmarks.lib import random_models
    from keras_transformer.runs.model_dir import ModelDir, RunConfig
    from keras_transformer.serving import saved_model

    # First: TensorFlow drops what tokenizers hold when a seed is set.
    keras.utils.set_random_seed(seed)
    translator = random_models.random_translator(
        preset.model, preset.decoding, "float32"
    )
    (text,) = random_models.number_texts(
        preset.model.vocab_size, 1, source_length, seed
    )
    (place / "text").write_text(text + "\n", encoding="utf-8")
    folder = ModelDir(place / "model")
    folder.write_config(
        RunConfig(
            **{name: getattr(preset, name) for name in ("model", "training")},
            preset=preset.name,
            decoding=translator.decoding,
            source_language="none",
            target_language="none",
            tokenizer_hash=translator.tokenizer.fingerprint,
        )
    )
    translator.tokenizer.save(folder.tokenizer_path)
    folder.checkpoints("averaged").save(1, {}, model=translator.model)
    if "saved_model" in timed:
        saved_model.export(translator, place / "export")
    if "train" in timed:
        _run_to_the_end(
            _program("bin/prepare_data.py")
            + ["--dataset=phrasebook", f"--data_dir={place / 'data'}"]
            + [f"--vocab_size={_CORPUS_VOCAB_SIZE}"]
        )
    return {"num_parameters": translator.model.count_params()}


def commands(
    place: pathlib.Path,
    preset: Preset,
    timed: Collection[str],
    tokens_per_batch: int,
    seed: int,
) -> dict[str, Start]:
    """Return the commands to time on what `make` wrote.

    Args:
        place: As of `make`.
        preset: As of `make`.
        timed: As of `make`.
        tokens_per_batch: Of a side, in the training.
        seed: Of the training.

    Returns:
        By name: those of `timed`, and "parts_of_..." for the two that translate.
    """
    models = {"model_dir": place / "model", "saved_model": place / "export" / "1"}
    found = {}
    for kind in timed:
        if kind == "train":
            found[kind] = Start(
                _program("bin/train.py")
                + [f"--data_dir={place / 'data'}", "--bleu_sentences=0"]
                + [f"--model_dir={place / 'run'}", f"--preset={preset.name}"]
                + [f"--tokens_per_batch={tokens_per_batch}", "--log_every_steps=1"]
                + [f"--seed={seed}", "--distribution=one_device"]
                + _model_flags(preset),
                lambda line: line.startswith("step "),
            )
            continue
        found[kind] = Start(
            _program("bin/translate.py") + [f"--{kind}={models[kind]}"],
            lambda line: bool(line.strip()),
            place / "text",
        )
        found[f"parts_of_{kind}"] = Start(
            _program("benchmarks/start_parts.py") + [kind, str(models[kind])],
            lambda line: line.startswith("{"),
            place / "text",
        )
    return found


def by_turns(starts: Mapping[str, Start], repeats: int) -> dict[str, list[float]]:
    """Run every command once, then every one again, and so on.

    Returns:
        By "NAME_result_s", seconds from the command to its first result; by
        "NAME_cpu_s", seconds of all cores until the process was gone; and by
        "NAME_PART_s" what a command "parts_of_NAME" wrote.

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
    """Run a command until its first result, and end it there if it goes on.

    Returns:
        Seconds until the result, CPU seconds of the process, and the line.

    Raises:
        ChildProcessError: If it ends without a result.
    """
    # The child counts from the same moment: `time.monotonic` is the machine's.
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
        # Not by `process`, which would take away what `wait4` is to find.
        os.kill(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().decode(errors="replace").splitlines()
    if found is None:
        end = "\n".join(said[-_SHOWN_LINES:]) or "nothing"
        raise ChildProcessError(
            f"{' '.join(start.command)} gave no result. The end of its standard error: "
            f"{end}"
        )
    return found[0], usage.ru_utime + usage.ru_stime, found[1]


def _program(path: str) -> list[str]:
    return [sys.executable, str(_REPOSITORY / path)]


def _model_flags(preset: Preset) -> list[str]:
    """Return the flags of bin/train.py for the model; the corpus has the words."""
    left_out = ("vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id")
    given = {
        name: value
        for name, value in dataclasses.asdict(preset.model).items()
        if name not in left_out and value is not None
    }
    return [f"--{name}={value}" for name, value in given.items()]


def _run_to_the_end(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = "\n".join(ended.stderr.splitlines()[-_SHOWN_LINES:])
        raise ChildProcessError(f"{' '.join(command)} failed: {said or 'nothing'}")
