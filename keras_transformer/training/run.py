"""A whole training run: from a prepared corpus to checkpoints and `model.keras`."""

from __future__ import annotations

import contextlib
import signal
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from keras_transformer import data, wording
from keras_transformer.layers.initialization import skip_weight_init
from keras_transformer.model import lora
from keras_transformer.model.transformer import Transformer
from keras_transformer.runs import checkpoints, model_card
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.training import (
    divergence,
    out_of_memory,
    run_callbacks,
    run_setup,
    signals,
    workers,
)
from keras_transformer.training.heartbeat import Heartbeat
from keras_transformer.training.run_callbacks import Callbacks
from keras_transformer.training.run_options import RunOptions
from keras_transformer.training.run_setup import ResumePoint, Run, RunContext, resolve
from keras_transformer.training.strategies import make_strategy, this_process

__all__ = ["RunOptions", "resolve", "train"]


def train(
    data_dir: str,
    model_dir: str,
    config: RunConfig,
    options: RunOptions | None = None,
    write: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train a model, or resume a run that was stopped.

    Args:
        data_dir: A prepared corpus.
        model_dir: Folder of the run. If it holds checkpoints, training resumes from the
            newest, with the batch that would have come next.
        config: What to train; `resolve` makes it.
        options: How to train it.
        write: Takes lines of progress.

    Returns:
        A summary for people and programs.

    Raises:
        ValueError: If `model_dir` holds another run, or weights without a checkpoint,
            or the corpus does not fit.
        FileNotFoundError: If `data_dir` is not a prepared corpus.
        LockedError: If another process trains in `model_dir`.
        NotEnoughMemoryError: If a batch does not fit into memory.
        DivergedError: If loss or gradients were not finite in several steps in a row.
        LostWorkerError: If another worker of this training has ended.
        StoppedBySignalError: After SIGTERM or Ctrl-C, when the step is done and saved.
    """
    options = (options or RunOptions()).for_task(config.task)
    # The strategy may create devices, which TensorFlow allows only before first use.
    process = this_process(make_strategy(options.distribution, options.num_replicas))
    # Only worker 0 reports.
    write = Heartbeat(write if process.is_chief else lambda line: None)
    context = RunContext(ModelDir(model_dir), process, data_dir, config, options, write)
    with run_setup.exclusive(context):
        context = run_setup.check(context)
        if is_complete(context):
            return finish_complete_run(context)
        run, resume = run_setup.prepare(context)
        callbacks = fit_with_recovery(run, resume)
        if run.stop.number is not None:
            save_and_stop(run, callbacks)
        return finish(run, callbacks)


def is_complete(context: RunContext) -> bool:
    """Whether the run has nothing left to do; the chief decides for all processes."""
    own = context.process.is_chief and _has_ended(context)
    return bool(context.process.from_chief(float(own)))


def _has_ended(context: RunContext) -> bool:
    """Whether the newest checkpoint is intact, evaluated and the run's last."""
    newest = context.model_dir.checkpoints().latest()
    if newest is None:
        return False
    try:
        checkpoints.check_files(newest)
    except checkpoints.DamagedCheckpointError:
        return False
    state = newest.state
    if state.get("evaluated_step", newest.step) != newest.step:
        return False
    if newest.step == context.config.training.train_steps:
        return True
    patience = context.options.early_stopping_evaluations
    return (
        patience is not None
        and state.get("evaluations_since_best", 0) >= patience
        and state.get("best_measure") == run_callbacks.measure_of_best(context)
    )


def finish_complete_run(context: RunContext) -> dict[str, Any]:
    """Write `model.keras` of a complete run and return the summary.

    The file is written again because a run may be killed after its last checkpoint.
    """
    model_dir, config = context.model_dir, context.config
    newest = model_dir.checkpoints().latest()
    remedy = "give more --train_steps"
    if newest.step < config.training.train_steps:
        remedy = "it stopped early: raise --early_stopping_evaluations"
    context.write(
        f"the run in {model_dir.path} is complete after "
        f"{wording.count(newest.step, 'step')}; {remedy} to train on"
    )
    if not context.process.is_chief:
        return {"model_dir": str(model_dir.path), "steps": newest.step}
    with skip_weight_init():
        model = run_setup.build(config, context.options)
    model_dir.write_config(config)
    return write_result(model_dir, model, newest.state)


def fit_with_recovery(run: Run, resume: ResumePoint) -> Callbacks:
    """Train to the last step, to an early stop, or until a signal asks to stop.

    Training that diverges goes back once, with half the learning rate.

    Returns:
        The callbacks as they were when training ended.
    """
    callbacks = run_callbacks.make_callbacks(run, resume)
    with (
        workers.watching(run.model_dir, run.process),
        run.write.during("training"),
        run.stop.listening(),
        contextlib.suppress(KeyboardInterrupt),
    ):
        callbacks["evaluate"].catch_up(run.model)
        try:
            if not callbacks["evaluate"].stopped_early:
                fit(run, callbacks)
        except divergence.DivergedError as error:
            resume = go_back(run, callbacks, error)
            callbacks = run_callbacks.make_callbacks(run, resume)
            fit(run, callbacks)
    return callbacks


def fit(run: Run, callbacks: Callbacks) -> None:
    """Train from the current step of the callbacks to the last."""
    progress, total = callbacks["progress"], run.config.training.train_steps
    first_step = progress.step
    if first_step == total:
        return

    def make_dataset(**shares):
        return data.training_dataset(
            run.corpus,
            run.plan,
            first_step,
            rows_multiple=run.rows_multiple,
            **shares,
        )

    with out_of_memory.naming_flags(lambda: too_large(run, progress.step)):
        run.model.fit(
            run.process.distribute(make_dataset),
            steps_per_epoch=total - first_step,
            callbacks=list(callbacks.values()),
            shuffle=False,  # the plan shuffles, over the whole corpus
            verbose=0,
        )


def too_large(run: Run, step: int) -> str:
    """Say that the batch of a step, from 0, does not fit, and what to do."""
    rows, source_length, target_length = run_callbacks.padded_shape(run, step)
    half = run.config.training.tokens_per_batch // (2 * run.rows_multiple)
    return (
        f"Out of memory in step {step + 1:,}, whose batch has {rows:,} rows of "
        f"{source_length} + {target_length} tokens: pass --max_tokens_per_replica="
        f"{max(half, 1)} to split batches into microbatches, which gives the same "
        "result, or end other programs on the device. Training resumes "
        f"{workers.resumes_where(run.model_dir)}."
    )


def go_back(
    run: Run, callbacks: Callbacks, error: divergence.DivergedError
) -> ResumePoint:
    """Load the last good checkpoint and lower the learning rate, once in a run.

    Returns:
        Where training resumes.

    Raises:
        DivergedError: If the rate was lowered before, or there is no earlier step to
            go back to.
    """
    state = {**callbacks["evaluate"].state(), **callbacks["skipped"].state()}
    best = {name: state[name] for name in ("best_metrics", "evaluations_since_best")}
    if state["learning_rate_factor"] != 1:
        raise error
    newest = checkpoints.restore_newest(
        run.model_dir.checkpoints(), model=run.model, optimizer=run.model.optimizer
    )
    # Without a checkpoint the weights are those before the first of the skipped steps.
    step = error.step
    if newest:
        # The best so far stays the best, also if it is newer than this checkpoint.
        step, state = newest[0].step, {**state, **newest[1], **best}
    elif step == run.config.training.train_steps:
        raise error
    state["learning_rate_factor"] = divergence.LOWERED
    state["skipped_steps"] = callbacks["skipped"].total
    state.update(callbacks["progress"].state())
    run.write(f"{error} Going back to step {step:,} with half the learning rate.")
    return ResumePoint(step, state)


def save_and_stop(run: Run, callbacks: Callbacks) -> NoReturn:
    """Save a run that a signal asked to stop, and raise `StoppedBySignalError`."""
    # A signal during an evaluation leaves the later callbacks one step behind.
    step, number = callbacks["progress"].step, run.stop.number
    reason = f"stopped by {signal.Signals(number).name}"
    if not run.process.is_chief:
        raise signals.StoppedBySignalError(
            number, f"{reason}: worker 0 saves step {step:,}."
        )
    path = callbacks["save"].save(step)
    raise signals.StoppedBySignalError(
        number,
        f"{reason}: step {step:,} is saved in {path}. Run the same command again to "
        "resume.",
    )


def finish(run: Run, callbacks: Callbacks) -> dict[str, Any]:
    """Write `model.keras` with the chosen weights and return the summary."""
    progress = callbacks["progress"]
    if not run.process.is_chief:
        return {"model_dir": str(run.model_dir.path), "steps": progress.step}
    return write_result(
        run.model_dir,
        run.model,
        run_callbacks.state_of(callbacks),
        progress.num_shapes,
        list(progress.tokens_per_second),
    )


def write_result(
    model_dir: ModelDir,
    model: Transformer,
    state: dict[str, Any],
    num_shapes: int = 0,
    speeds: Sequence[float] = (),
) -> dict[str, Any]:
    """Write `model.keras` with the chosen weights, and its card; return the summary.

    Args:
        model_dir: The run.
        model: Its model, compiled; takes the weights.
        state: What the callbacks saved or would save.
        num_shapes: Batch shapes that this process has trained on.
        speeds: Tokens per second between lines of progress.
    """
    chosen = model_dir.choose()
    if chosen.path.parent.name == "averaged":
        model = model_dir.load_model("averaged")  # an average has no optimizer
    else:
        checkpoints.restore(chosen, model=model)
    model = lora.merged(model)
    model_dir.save_model(model)
    model_card.update(model_dir, chosen, model.count_params())
    return {
        "model_dir": str(model_dir.path),
        "steps": model_dir.checkpoints().latest().step,
        "seconds": round(state.get("seconds", 0.0), 1),
        "tokens_per_second": round(statistics.median(speeds), 1) if speeds else None,
        "flops": state.get("flops", 0.0),
        "cost_since_step": state.get("cost_since_step", 0),
        "num_shapes": num_shapes,
        "skipped_steps": state.get("skipped_steps", 0),
        "best_metric": state.get("best"),
        "stopped_early": state.get("stopped_early", False),
        "model_keras": str(chosen.path.relative_to(model_dir.path)),
        "num_parameters": model.count_params(),
    }


def describe_cost(summary: dict[str, Any]) -> str:
    """Say what a run has cost, or the part of it whose cost was recorded.

    Args:
        summary: What `train` returned, in the process that writes.
    """
    part = "the whole run"
    if since := summary["cost_since_step"]:
        part = f"the steps after step {since:,} (earlier ones have no record)"
    return (
        f"cost of {part}: {summary['flops']:.2g} FLOPs, counted from the model "
        f"(compare with Table 2: bin/training_cost.py), in "
        f"{wording.duration(summary['seconds'])}"
    )
