"""What happens between steps: progress, checkpoints, evaluation, early stopping."""

from __future__ import annotations

import collections
import math
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from keras_transformer import wording
from keras_transformer.runs.checkpoints import CheckpointFolder
from keras_transformer.training.heartbeat import EVERY_SECONDS


class StepCallback(keras.callbacks.Callback):
    """A callback that counts optimizer steps over a whole run, resumed or not.

    Args:
        first_step: Steps that the run had behind it when `fit` began.
    """

    def __init__(self, first_step: int = 0):
        super().__init__()
        self.first_step = first_step
        # Steps that the run has behind it.
        self.step = first_step

    def on_train_batch_end(self, batch, logs=None):
        self.step = self.first_step + batch + 1
        self.on_step(self.step, logs or {})

    def on_step(self, step: int, logs: dict[str, float]) -> None:
        """Subclass: called after step `step`, counted from 1."""
        raise NotImplementedError


class Progress(StepCallback):
    """Prints a line every few steps and writes it for TensorBoard.

    The line has the means since the last one: loss, perplexity per subword, token
    accuracy, the learning rate, real tokens (source + target) a second, the number of
    batch shapes so far, each of which XLA compiles once for each device, and the time
    left. Where steps are slow, lines with the means so far come between.

    Args:
        num_tokens: Maps a step, from 0, to the real tokens of its batch.
        shape: Maps a step, from 0, to (rows, source_length, target_length) of its
            batch.
        total_steps: Where the run ends.
        every_steps: Steps between two lines.
        pause_every_steps: Steps between two of the evaluations that `pause` times.
        flops: Maps the shape of a batch to the cost of a step.
        state: What `state` returned where the run was stopped.
        log_dir: Where TensorBoard looks; None: nowhere.
        write: Takes a line.
        clock: Returns seconds.
    """

    def __init__(
        self,
        num_tokens: Callable[[int], int],
        shape: Callable[[int], tuple[int, int, int]],
        total_steps: int,
        every_steps: int = 100,
        pause_every_steps: int | None = None,
        flops: Callable[[int, int, int], float] = lambda *shape: 0.0,
        state: Mapping[str, Any] | None = None,
        log_dir: str | None = None,
        write: Callable[[str], None] = print,
        clock: Callable[[], float] = time.perf_counter,
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._num_tokens = num_tokens
        self._shape = shape
        self.total_steps = total_steps
        self._every_steps = every_steps
        self._pause_every_steps = pause_every_steps
        self._flops = flops
        self._write = write
        self._clock = clock
        self._began = self._step_began = self._last_line = clock()
        self._before = {
            name: (state or {}).get(name, 0.0) for name in ("seconds", "flops")
        }
        self._board = tf.summary.create_file_writer(log_dir) if log_dir else None
        # How many batches of each shape were trained on.
        self.shape_counts: collections.Counter[tuple[int, int, int]] = (
            collections.Counter()
        )
        self.tokens_per_second: collections.deque[float] = collections.deque(maxlen=99)
        # Seconds of the last steps, without those that trace or compile a new shape.
        self._step_seconds: collections.deque[float] = collections.deque(maxlen=100)
        self._pause_seconds = 0.0
        self._restart()

    @property
    def num_shapes(self) -> int:
        """Batch shapes seen so far."""
        return len(self.shape_counts)

    def on_train_begin(self, logs=None):
        self._step_began = self._last_line = self._clock()
        self._restart()

    def on_step(self, step, logs):
        now = self._clock()
        seconds, self._step_began = now - self._step_began, now
        shape = self._shape(step - 1)
        if shape in self.shape_counts:
            self._step_seconds.append(seconds)
        self.shape_counts[shape] += 1
        self._tokens += self._num_tokens(step - 1)
        self._has_loss |= not logs.get("skipped")
        is_regular = step % self._every_steps == 0 or step == self.total_steps
        # A line between leaves the metrics as they are, which all processes share.
        if is_regular or now + seconds - self._last_line > EVERY_SECONDS:
            self._last_line = now
            left = wording.duration(self.seconds_left(step, seconds))
            means = self._means(logs, now)
            self._write(f"step {step:,}/{self.total_steps:,}  {means}  {left} left")
        if is_regular:
            self._end_of_means(step, logs, now)

    def seconds_left(self, step: int, last_seconds: float) -> float:
        """Estimate how long the rest of the run takes, evaluations included.

        Args:
            step: The step that has ended.
            last_seconds: How long it took: counts where each step so far had a shape
                of its own.
        """
        known = self._step_seconds or [last_seconds]
        evaluations, every = 0, self._pause_every_steps
        if every:  # that of this step comes after its line
            evaluations = self.total_steps // every - (step - 1) // every
            evaluations += self.total_steps % every > 0
        return (
            statistics.fmean(known) * (self.total_steps - step)
            + self._pause_seconds * evaluations
        )

    def pause(self) -> Pause:
        """Return a context whose time does not count as training."""
        return Pause(self)

    def state(self) -> dict[str, Any]:
        """Return what the run has cost up to now, over all its parts."""
        flops = sum(
            count * self._flops(*shape) for shape, count in self.shape_counts.items()
        )
        return {
            "seconds": self._before["seconds"] + self._clock() - self._began,
            "flops": self._before["flops"] + flops,
        }

    def _means(self, logs, now):
        if not self._has_loss:
            return "every step since the last line was skipped"
        return (
            f"loss {logs['loss']:.4f}  perplexity {logs['perplexity']:.2f}  "
            f"accuracy {100 * logs['token_accuracy']:.1f} %  "
            f"learning rate {float(self.model.optimizer.learning_rate):.3g}  "
            f"{self._tokens / (now - self._since):,.0f} tokens/s  "
            f"{wording.count(self.num_shapes, 'shape')}"
        )

    def _end_of_means(self, step, logs, now):
        if self._has_loss:
            speed = self._tokens / (now - self._since)
            self.tokens_per_second.append(speed)
            rate = float(self.model.optimizer.learning_rate)
            self._to_board(
                step, {**logs, "learning_rate": rate, "tokens_per_second": speed}
            )
            self.model.reset_metrics()
        self._restart()

    def _restart(self):
        self._tokens = 0
        self._has_loss = False
        self._since = self._clock()

    def _to_board(self, step, values):
        if self._board is None:
            return
        with self._board.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._board.flush()


class Pause:
    """Stops the clock of `Progress`: see `Progress.pause`."""

    def __init__(self, progress: Progress):
        self._progress = progress

    def __enter__(self) -> None:
        self._start = self._progress._clock()

    def __exit__(self, *error) -> None:
        seconds = self._progress._clock() - self._start
        self._progress._since += seconds
        self._progress._step_began += seconds
        self._progress._pause_seconds = seconds


class SaveCheckpoints(StepCallback):
    """Saves model and optimizer by steps, by minutes, and at the end.

    Args:
        folder: Where to.
        every_steps: Steps between two; None: not by steps.
        every_minutes: Minutes between two; None: not by minutes.
        state: Returns what to remember beside the variables.
        may_save: Whether now is a time for it; what is due is saved later.
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
        """Save now, unless this step is saved, and return where it is."""
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


class StopWhenAsked(keras.callbacks.Callback):
    """Ends training after the step during which it was asked to.

    Args:
        is_asked: Returns whether it was.
    """

    def __init__(self, is_asked: Callable[[], bool]):
        super().__init__()
        self._is_asked = is_asked

    def on_train_batch_end(self, batch, logs=None):
        if self._is_asked():
            self.model.stop_training = True


class Evaluate(StepCallback):
    """Evaluates every few steps, keeps the best checkpoint, stops when none comes.

    Args:
        evaluate: Returns the metrics of the model as it is; the one named
            `best_metric` decides.
        every_steps: Steps between two evaluations; the last step is evaluated too.
        total_steps: Where the run ends.
        best_folder: Keeps the best checkpoint; None: another process does.
        best_metric: "bleu", higher is better, with the loss to break ties, or "loss",
            lower is better.
        patience: Evaluations without a new best after which training stops; None: it
            does not.
        best_metrics: Those of the best checkpoint so far, where the run was resumed.
        evaluated_step: The last step that was evaluated before.
        evaluations_since_best: How many came after it.
        log_dir: Where TensorBoard looks; None: nowhere.
        write: Takes a line.
    """

    def __init__(
        self,
        evaluate: Callable[[], dict[str, float]],
        every_steps: int,
        total_steps: int,
        best_folder: CheckpointFolder | None,
        best_metric: str = "bleu",
        patience: int | None = None,
        best_metrics: dict[str, float] | None = None,
        evaluated_step: int = 0,
        evaluations_since_best: int = 0,
        log_dir: str | None = None,
        write: Callable[[str], None] = print,
        first_step: int = 0,
    ):
        super().__init__(first_step)
        self._evaluate = evaluate
        self._every_steps = every_steps
        self._total_steps = total_steps
        self._best_folder = best_folder
        self._best_metric = best_metric
        self._patience = patience
        self._board = tf.summary.create_file_writer(log_dir) if log_dir else None
        self._write = write
        self.best_metrics = best_metrics
        self.evaluated_step = evaluated_step
        self.evaluations_since_best = evaluations_since_best
        self.stopped_early = False

    @property
    def best(self) -> float | None:
        """The best value of `best_metric` so far."""
        return self.best_metrics and self.best_metrics[self._best_metric]

    def catch_up(self, model: keras.Model) -> None:
        """Evaluate the step that a run stands at, where it was stopped before that.

        Args:
            model: With the weights of that step.
        """
        self.set_model(model)
        if self.evaluated_step < self.step:
            self.on_step(self.step, {})
        elif self._patience and self.evaluations_since_best >= self._patience:
            self.stopped_early = True  # as it was when it ended

    def on_step(self, step, logs):
        if step % self._every_steps and step != self._total_steps:
            return
        metrics = self._evaluate()
        self.evaluated_step = step
        is_best = self._keep_best(step, metrics)
        shown = "  ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        self._write(f"validation at step {step:,}: {shown}{'  (best)' * is_best}")
        self._to_board(step, metrics)
        if self._patience and self.evaluations_since_best >= self._patience:
            best = "any" if self.best is None else f"{self.best:.3f}"
            self._write(
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

    def _keep_best(self, step, metrics):
        rank = self._rank(metrics)
        is_better = not self.best_metrics or rank > self._rank(self.best_metrics)
        if not is_better or not all(map(math.isfinite, rank)):
            self.evaluations_since_best += 1
            return False
        self.best_metrics, self.evaluations_since_best = metrics, 0
        if self._best_folder is not None:
            self._best_folder.save(step, {"metrics": metrics}, model=self.model)
        return True

    def _rank(self, metrics):
        """Return what is higher, compared in order, for the better of two models."""
        by_loss = -metrics["loss"]
        return (metrics["bleu"], by_loss) if self._best_metric == "bleu" else (by_loss,)

    def _to_board(self, step, metrics):
        if self._board is None:
            return
        with self._board.as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
        self._board.flush()
