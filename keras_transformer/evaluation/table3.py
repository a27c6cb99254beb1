"""Reproduction of Table 3: trains its rows and compares them with the paper."""

from __future__ import annotations

import dataclasses
import functools
import json
import multiprocessing
import os
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from absl import logging

from keras_transformer import atomic_files, json_files, presets
from keras_transformer.config import check_choice
from keras_transformer.model import cost

# Names of the rows in the paper; each is base with one change.
ROWS = (
    "base",
    *(
        name.removeprefix("table3_").upper()
        for name in presets.names()
        if name.startswith("table3_")
    ),
    "big",
)
SCALES = ("full", "mini")
# Divisors of `mini`. The number of heads stays the same. The warm-up shrinks less than
# the steps, because a rate that rises too fast diverges.
_MINI_WIDTH, _MINI_DEPTH = 4, 2
_MINI_STEPS, _MINI_WARMUP, _MINI_BATCH = 50, 10, 10
# Tokens of a sentence in estimates of cost.
_LENGTH = 30
_PRINT_AT_ONCE = functools.partial(print, flush=True)


@dataclasses.dataclass(frozen=True)
class RowResult:
    """Results of a row on the validation split: `result.json`."""

    row: str
    # The row's configuration, as in its `config.json`.
    config: dict[str, Any]
    # Per subword.
    perplexity: float
    # Tokenized BLEU of the last weights by beam search, as in Table 3.
    bleu: float
    num_parameters: int
    # Training and evaluation, summed over all starts of the program.
    seconds: float


def choose_rows(text: str) -> list[str]:
    """Return the rows named by a list such as "A1,B2" or by "all", base first.

    Raises:
        ValueError: If a row is not in the table; the message suggests the nearest.
    """
    by_lower = {row.lower(): row for row in ROWS}
    wanted = {"base"}  # the others are compared with it
    for name in text.lower().split(","):
        check_choice("row", name.strip(), [*by_lower, "all"])
        wanted.update(ROWS if name.strip() == "all" else [by_lower[name.strip()]])
    return [row for row in ROWS if row in wanted]


def row_preset(row: str, scale: str = "full") -> presets.Preset:
    """Return the preset of a row, shrunk if `scale` is "mini"."""
    check_choice("scale", scale, SCALES)
    name = row if row in presets.names() else f"table3_{row.lower()}"
    preset = presets.get(name)
    return shrink(preset) if scale == "mini" else preset


def shrink(preset: presets.Preset) -> presets.Preset:
    """Make a preset small enough for a CPU; its change from base stays.

    Widths are divided by 4, layers by 2, steps by 50, batches and warm-up by 10; heads,
    rates and the rest stay.
    """
    model = preset.model
    widths = {
        name: value // _MINI_WIDTH
        for name in ("d_model", "d_ff", "key_dim", "value_dim")
        if (value := getattr(model, name)) is not None
    }
    training = preset.training
    return dataclasses.replace(
        preset,
        model=dataclasses.replace(
            model, num_layers=model.num_layers // _MINI_DEPTH, **widths
        ),
        training=dataclasses.replace(
            training,
            train_steps=training.train_steps // _MINI_STEPS,
            warmup_steps=training.warmup_steps // _MINI_WARMUP,
            tokens_per_batch=training.tokens_per_batch // _MINI_BATCH,
        ),
    )


def seconds_left(
    results: Mapping[str, RowResult], chosen: Mapping[str, presets.Preset]
) -> float | None:
    """Estimate how long the remaining rows take, from their FLOPs.

    Args:
        results: Results of the finished rows.
        chosen: Presets of all rows.

    Returns:
        The seconds; None if no row is finished.
    """
    if not results:
        return None

    def flops(rows):
        return sum(
            cost.training_flops(chosen[row].model, _LENGTH, _LENGTH)
            * chosen[row].training.tokens_per_batch
            * chosen[row].training.train_steps
            for row in rows
        )

    seconds = sum(result.seconds for result in results.values())
    return seconds * flops(chosen.keys() - results.keys()) / flops(results)


def run_row(
    row: str,
    preset: presets.Preset,
    data_dir: str,
    row_dir: str,
    options: dict[str, Any],
    resolve_options: dict[str, Any],
    write: Callable[[str], None] = _PRINT_AT_ONCE,
) -> RowResult:
    """Train and evaluate a row, resume it, or read its result if it is finished.

    Args:
        row: Its name in the paper.
        preset: The model to train.
        data_dir: A prepared corpus.
        row_dir: Folder for the model, the translations and `result.json`.
        options: Fields of `training.run_options.RunOptions`.
        resolve_options: Arguments of `training.run_setup.resolve`.
        write: Takes lines of progress.

    Raises:
        ValueError: If `row_dir` holds a row of other settings.
        FileNotFoundError: If `data_dir` is not a prepared corpus.
    """
    from keras_transformer import data, evaluation, text_files
    from keras_transformer.evaluation import translations
    from keras_transformer.training import run as training_run

    folder = pathlib.Path(row_dir)
    config = training_run.resolve(
        preset, data.read_metadata(data_dir), **resolve_options
    )
    finished = read_result(folder)
    if finished and finished.config == json.loads(json.dumps(config.to_json())):
        write(f"{row}: finished before")
        return finished
    evaluation.check_languages([config.target_language])
    clock = _Clock(folder / "seconds.json")

    def progress(line):
        clock.save()
        write(f"{row}: {line}")

    summary = training_run.train(
        data_dir,
        folder / "model",
        config,
        training_run.RunOptions(**options),
        write=progress,
    )
    sources, references = (
        text_files.read_lines(f"{data_dir}/valid.{side}")
        for side in ("source", "target")
    )
    # The paper's caption: "beam search ..., but no checkpoint averaging".
    hypotheses, perplexity = translations.translate_and_measure(
        folder / "model", sources, references, checkpoint="latest"
    )
    scores = evaluation.score_translations(
        hypotheses,
        references,
        target_language=config.target_language,
        bootstrap_samples=0,
    )
    text_files.write_lines(folder / "valid.hypothesis", hypotheses)
    result = RowResult(
        row=row,
        config=config.to_json(),
        perplexity=perplexity,
        bleu=scores.bleu_tokenized,
        num_parameters=summary["num_parameters"],
        seconds=round(clock.save(), 1),
    )
    json_files.write(folder / "result.json", dataclasses.asdict(result))
    return result


def in_own_process(
    function: Callable, *arguments: Any, prepare: Callable[[], None] | None = None
) -> Any:
    """Call a function in a fresh process, which ends when this one does.

    TensorFlow keeps the devices and memory of a run until its process ends.

    Args:
        function: A function of a module.
        *arguments: Arguments of the function.
        prepare: Called first in the new process, for instance to import TensorFlow.

    Raises:
        ChildProcessError: If the process was killed.
        Exception: Any error that the function raises.
    """
    pool = ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(prepare,)
    )
    with pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "The process of this row was killed, perhaps because memory ran out. "
                "Run the same command again to resume from its last checkpoint."
            ) from error
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def read_result(row_dir: str | os.PathLike) -> RowResult | None:
    """Read the result of a row; None if it is not finished, ValueError if damaged."""
    path = pathlib.Path(row_dir) / "result.json"
    if not path.exists():
        return None
    try:
        return RowResult(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}). Delete it, so that the row is evaluated "
            "again from its last checkpoint."
        ) from error


def difference_p_value(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    target_language: str,
) -> float:
    """Test whether two sets of translations differ in tokenized BLEU.

    Args:
        hypotheses: Translations of one system.
        baseline: Translations of the other system, of the same sources.
        references: Reference translations.
        target_language: As in `evaluation.score_translations`.

    Returns:
        sacreBLEU's p value of a paired bootstrap with 1,000 samples: the probability of
        a difference this large between two equally good systems. It does not include
        the variation between seeds of the training.
    """
    import sacrebleu
    from sacrebleu import significance

    from keras_transformer import evaluation

    texts = [
        evaluation.tokenized(lines, target_language)
        for lines in (baseline, hypotheses, references)
    ]
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    _, results = significance.PairedTest(
        [("baseline", texts[0]), ("row", texts[1])],
        {"BLEU": metric},
        [texts[2]],
        test_type="bs",
        n_samples=1000,
    )()
    return float(results["BLEU"][1].p_value)


class _Clock:
    """Counts seconds over all starts of the program, saved in a file."""

    def __init__(self, path: pathlib.Path):
        self._path = path
        try:
            self._before = float(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            self._before = 0.0
        self._began = time.perf_counter()

    def save(self) -> float:
        """Save the seconds and return them."""
        seconds = self._before + time.perf_counter() - self._began
        atomic_files.atomic_write(self._path, f"{seconds}\n")
        return seconds


def _begin(prepare: Callable[[], None] | None) -> None:
    """Make this process end when its parent ends, then call `prepare`."""
    logging.set_verbosity(logging.WARNING)
    os.setsid()  # only the parent gets Ctrl-C; it then ends this process
    parent = multiprocessing.parent_process()

    def wait():
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    if prepare is not None:
        prepare()
