"""What happens between steps: progress, checkpoints, evaluation, early stopping."""

from __future__ import annotations

import collections
import contextlib
import math
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras

from keras_transformer import wording
from keras_transformer.runs.checkpoints import CheckpointFolder
from keras_transformer.training.heartbeat import EVERY_SECONDS
from keras_transformer.training.run_log import RunLog


class StepCallback(keras.callbacks.Callback):
    """A callback that counts optimizer steps over a whole run, resumed or not.

    Args:
        first_step: Steps done before `fit` begins.
    """

    def __init__(self, first_step: int = 0):
        super().__init__()
        self.first_step = first_step
        # Steps done so far.
        self.step = first_step

    def on_train_batch_end(self, batch, logs=None):
        self.step = self.first_step + batch + 1
        self.on_step(self.step, logs or {})

    def on_step(self, step: int, logs: dict[str, float]) -> None:
        """Override this: called after step `step`, counted from 1."""
        raise NotImplementedError


class BatchCost(NamedTuple):
    """What the batch of a step holds and costs."""

    # Real tokens, source + target.
    num_tokens: int
    # (rows, source_length, target_length).
    shape: tuple[int, int, int]
    # Floating-point operations of the step.
    flops: float


class Progress(StepCallback):
    """Prints a line every few steps and writes it for TensorBoard.

    The line has the means since the previous line: loss, perplexity per subword, token
    accuracy, the learning rate, real tokens (source + target) per second, the number of
    batch shapes so far (XLA compiles each once per device) and the time left. If steps
    are slow, a line with the means so far is printed at least every 30 seconds.

    Args:
        batch_cost: Maps a step, from 0, to what its batch holds and costs.
        total_steps: Last step of the run.
        every_steps: Steps between two lines.
        pause_every_steps: Steps between two of the evaluations that `pause` times.
        state: What `state` returned when the run was stopped.
        log: Takes the lines and scalars.
        clock: Returns seconds.
        first_step: Steps done before `fit` begins.
    """

    def __init__(
        self,
        batch_cost: Callable[[int], BatchCost],
        total_steps: int,
        every_steps: int = 100,
        pause_every_steps: int | None = None,
        state: Mapping[str, Any] | None = None,
        log: RunLog | None = None,
        clock: Callable[[], float] = time.perf_counter,
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._batch_cost = batch_cost
        self.total_steps = total_steps
        self._every_steps = every_steps
        self._pause_every_steps = pause_every_steps
        self._log = log or RunLog()
        self._clock = clock
        self._began = self._step_began = self._last_line = clock()
        state = state or {}
        self._seconds_before = state.get("seconds", 0.0)
        self._flops = state.get("flops", 0.0)
        # None: an earlier release did not count them.
        self._all_tokens = state.get("tokens", None if first_step else 0)
        # Earlier releases did not save the cost, so their steps cannot be counted.
        uncounted = 0 if "flops" in state else first_step
        self._cost_since_step = state.get("cost_since_step", uncounted)
        self._shapes: set[tuple[int, int, int]] = set()
        self.tokens_per_second: collections.deque[float] = collections.deque(maxlen=99)
        # Seconds of the last steps, without those that trace or compile a new shape.
        self._step_seconds: collections.deque[float] = collections.deque(maxlen=100)
        self._pause_seconds = 0.0
        self._restart()

    @property
    def num_shapes(self) -> int:
        """Batch shapes seen so far."""
        return len(self._shapes)

    def on_train_begin(self, logs=None):
        self._step_began = self._last_line = self._clock()
        self._restart()

    def on_step(self, step, logs):
        now = self._clock()
        seconds, self._step_began = now - self._step_began, now
        batch = self._batch_cost(step - 1)
        if batch.shape in self._shapes:
            self._step_seconds.append(seconds)
        self._shapes.add(batch.shape)
        self._flops += batch.flops
        self._tokens += batch.num_tokens
        if self._all_tokens is not None:
            self._all_tokens += batch.num_tokens
        is_regular = step % self._every_steps == 0 or step == self.total_steps
        # An extra line must not reset the metrics, which all processes share.
        if is_regular or now + seconds - self._last_line > EVERY_SECONDS:
            self._last_line = now
            left = wording.duration(self.seconds_left(step, seconds))
            means = self._means(logs, now)
            self._log.write(f"step {step:,}/{self.total_steps:,}  {means}  {left} left")
        if is_regular:
            self._end_of_means(step, logs, now)

    def seconds_left(self, step: int, last_seconds: float) -> float:
        """Estimate how long the rest of the run takes, evaluations included.

        Args:
            step: The step that has ended.
            last_seconds: Its duration, used while every step so far had a new shape.
        """
        known = self._step_seconds or [last_seconds]
        evaluations, every = 0, self._pause_every_steps
        if every:  # the evaluation of this step comes after its line
            evaluations = self.total_steps // every - (step - 1) // every
            evaluations += self.total_steps % every > 0
        return (
            statistics.fmean(known) * (self.total_steps - step)
            + self._pause_seconds * evaluations
        )

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Do not count the time of the block as training."""
        began = self._clock()
        try:
            yield
        finally:
            self._pause_seconds = self._clock() - began
            self._since += self._pause_seconds
            self._step_began += self._pause_seconds

    def state(self) -> dict[str, Any]:
        """Return what the run has cost, before and after it was resumed.

        "tokens" are real ones, source + target; None: not counted from the first step.
        "cost_since_step" is 0, or the step after which the cost was first recorded.
        """
        return {
            "seconds": self._seconds_before + self._clock() - self._began,
            "flops": self._flops,
            "tokens": self._all_tokens,
            "cost_since_step": self._cost_since_step,
        }

    def _means(self, logs, now):
        if math.isnan(logs["loss"]):  # an evaluation resets the means as well
            return "every step since the last line or validation was skipped"
        return (
            f"loss {logs['loss']:.4f}  perplexity {logs['perplexity']:.2f}  "
            f"accuracy {100 * logs['token_accuracy']:.1f} %  "
            f"learning rate {float(self.model.optimizer.learning_rate):.3g}  "
            f"{self._tokens / (now - self._since):,.0f} tokens/s  "
            f"{wording.count(self.num_shapes, 'shape')}"
        )

    def _end_of_means(self, step, logs, now):
        if not math.isnan(logs["loss"]):
            speed = self._tokens / (now - self._since)
            self.tokens_per_second.append(speed)
            rate = float(self.model.optimizer.learning_rate)
            values = {**logs, "learning_rate": rate, "tokens_per_second": speed}
            self._log.scalars(step, values)
            self.model.reset_metrics()
        self._restart()

    def _restart(self):
        self._tokens = 0
        self._since = self._clock()


class SayCompiling(StepCallback):
    """Says that a step compiles, while and after it does.

    Args:
        compiling: Maps a step, from 0, to a context that says so if it does.
        first_step: Steps done before `fit` begins.
    """

    def __init__(
        self,
        compiling: Callable[[int], contextlib.AbstractContextManager],
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._compiling = compiling
        self._step = contextlib.ExitStack()

    def on_train_batch_begin(self, batch, logs=None):
        self._step.enter_context(self._compiling(self.first_step + batch))

    def on_step(self, step, logs):
        self._step.close()


class SaveCheckpoints(StepCallback):
    """Saves model and optimizer by steps, by minutes, and at the end.

    Args:
        folder: Where checkpoints are written.
        every_steps: Steps between two checkpoints; None: not by steps.
        every_minutes: Minutes between two checkpoints; None: not by minutes.
        state: Returns what to save beside the variables.
        may_save: Whether the current step may be saved; if not, the next one that may
            is.
        first_step: Steps done before `fit` begins.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        every_steps: int | None,
        every_minutes: float | None,
        state: Callable[[], dict[str, Any]],
        may_save: Callable[[], bool] = lambda: True,
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._may_save = may_save
        self._is_due = False
        self._folder = folder
        self._every_steps = every_steps
        self._every_minutes = every_minutes
        self._state = state
        self._saved_step = first_step
        self._path = folder.path_of(first_step)
        self._saved_time = time.monotonic()

    def on_step(self, step, logs):
        by_steps = self._every_steps and step % self._every_steps == 0
        elapsed = (time.monotonic() - self._saved_time) / 60
        by_minutes = self._every_minutes and elapsed >= self._every_minutes
        self._is_due |= bool(by_steps or by_minutes)
        if self._is_due and self._may_save():
            self.save(step)

    def on_train_end(self, logs=None):
        self.save(self.step)

    def save(self, step: int) -> pathlib.Path:
        """Save this step unless it is saved already; return the checkpoint's path."""
        if step == self._saved_step:
            return self._path
        saved = self._folder.save(
            step,
            self._state(),
            model=self.model,
            optimizer=self.model.optimizer,
        )
        self._saved_step, self._path = step, saved.path
        self._is_due = False
        self._saved_time = time.monotonic()
        return saved.path


class Evaluate(StepCallback):
    """Evaluates every few steps, keeps the best checkpoint, may stop the run early.

    Args:
        evaluate: Returns the metrics of the current model; the one named `best_metric`
            decides.
        is_due: Whether to evaluate after a step, from 1.
        best_folder: Keeps the best checkpoint; None: another process does.
        best_metric: "bleu", higher is better, with the loss to break ties, or "loss",
            lower is better.
        patience: Evaluations without a new best after which training stops; None:
            never.
        state: What `state` returned when the run was stopped.
        log: Takes the lines and scalars.
        first_step: Steps done before `fit` begins.
    """

    def __init__(
        self,
        evaluate: Callable[[], dict[str, float]],
        is_due: Callable[[int], bool],
        best_folder: CheckpointFolder | None,
        best_metric: str = "bleu",
        patience: int | None = None,
        state: Mapping[str, Any] | None = None,
        log: RunLog | None = None,
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._evaluate = evaluate
        self._is_due = is_due
        self._best_folder = best_folder
        # Called before a best checkpoint is saved, with the step and the state before
        # its evaluation.
        self.before_best: Callable[[int, dict[str, Any]], None] | None = None
        self._best_metric = best_metric
        self._patience = patience
        self._log = log or RunLog()
        state = state or {}
        self.best_metrics: dict[str, float] | None = state.get("best_metrics")
        self.evaluated_step = state.get("evaluated_step", first_step)
        self.evaluations_since_best = state.get("evaluations_since_best", 0)
        self.stopped_early = False

    @property
    def best(self) -> float | None:
        """The best value of `best_metric` so far."""
        return self.best_metrics and self.best_metrics[self._best_metric]

    def catch_up(self, model: keras.Model) -> None:
        """Do the evaluation that a run was stopped before or during.

        Args:
            model: Holds the weights of the step that the run resumes from.
        """
        self.set_model(model)
        if self.evaluated_step < self.step:
            self.on_step(self.step, {})
        elif self._is_out_of_patience():
            self.stopped_early = True  # the run had ended this way

    def on_step(self, step, logs):
        if not self._is_due(step):
            return
        metrics = self._evaluate()
        is_best = self._keep_best(step, metrics)
        self.evaluated_step = step
        shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        self._log.write(f"validation at step {step:,}: {shown}{'  (best)' * is_best}")
        self._log.scalars(step, metrics)
        if self._is_out_of_patience():
            best = "any" if self.best is None else f"{self.best:.3f}"
            self._log.write(
                f"stopping: no better {self._best_metric} than {best} in "
                f"{self.evaluations_since_best} evaluations"
            )
            self.stopped_early = True
            self.model.stop_training = True

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs to know."""
        return {
            "best": self.best,
            "best_metrics": self.best_metrics,
            "evaluated_step": self.evaluated_step,
            "evaluations_since_best": self.evaluations_since_best,
            "stopped_early": self.stopped_early,
        }

    def _is_out_of_patience(self):
        return self._patience and self.evaluations_since_best >= self._patience

    def _keep_best(self, step, metrics):
        rank = self._rank(metrics)
        is_better = not self.best_metrics or rank > self._rank(self.best_metrics)
        if not is_better or not all(map(math.isfinite, rank)):
            self.evaluations_since_best += 1
            return False
        if self._best_folder is not None:
            if self.before_best is not None:
                self.before_best(step, self.state())
            self._best_folder.save(step, {"metrics": metrics}, model=self.model)
        self.best_metrics, self.evaluations_since_best = metrics, 0
        return True

    def _rank(self, metrics):
        """Return values that are compared in order; higher is better."""
        by_loss = -metrics["loss"]
        return (metrics["bleu"], by_loss) if self._best_metric == "bleu" else (by_loss,)
