"""What happens between the steps of a run: progress, evaluation, checkpoints, stop."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import keras
import sacrebleu

from keras_transformer import bleu_metric, data, hardware, text_files, wording
from keras_transformer.data.corpus import SIDES
from keras_transformer.inference.translator import Translator
from keras_transformer.model.cost import training_flops
from keras_transformer.runs import checkpoints
from keras_transformer.training import (
    callbacks,
    divergence,
    out_of_memory,
    preflight,
    validation_parts,
    workers,
)
from keras_transformer.training.run_log import RunLog
from keras_transformer.training.run_setup import ResumePoint, Run, RunContext

# Callbacks by name, in the order in which Keras calls them.
Callbacks = dict[str, keras.callbacks.Callback]

_LOSS_TOO_LARGE = (
    "Out of memory while measuring the validation loss: lower "
    "--max_tokens_per_replica, which also bounds its batches, or end other programs on "
    "the device."
)
_BLEU_TOO_LARGE = (
    "Out of memory while translating for BLEU: pass --bleu_sentences=0, and measure it "
    "with bin/evaluate.py --follow, whose --batch_size can be lowered."
)


def make_callbacks(run: Run, resume: ResumePoint) -> Callbacks:
    """Return what happens between the steps of a run, from where it begins."""
    options, total_steps = run.options, run.config.training.train_steps
    every, is_chief = options.evaluate_every_steps, run.process.is_chief
    measure = measure_of_best(run)
    saved = with_same_measure(run, measure, resume.state)
    record = make_record(run, measure, resume)
    skipped = divergence.CountSkippedSteps(
        options.max_skipped_steps,
        lambda step: divergence.diagnose(run.model, *planned_batch(run, step - 1)),
        saved.get("learning_rate_factor", 1.0),
        saved.get("skipped_steps", 0),
        write=run.write,
        first_step=resume.step,
    )
    progress = callbacks.Progress(
        lambda step: batch_cost(run, step),
        total_steps,
        options.log_every_steps,
        every,
        saved,
        make_log(run, "train"),
        first_step=resume.step,
    )
    folder = run.model_dir.checkpoints()
    folder.keep = options.keep_checkpoints or run.config.training.average_last
    # Not of `evaluate`: in a reference cycle, logs would stay open.
    before_evaluation = {"skipped": skipped, "progress": progress}
    evaluate = callbacks.Evaluate(
        make_evaluation(run, progress),
        lambda step: step % every == 0 or step == total_steps,
        run.model_dir.checkpoints("best") if is_chief else None,
        measure["metric"],
        options.early_stopping_evaluations,
        saved,
        make_log(run, "validation"),
        first_step=resume.step,
    )
    evaluate.before_best = lambda step, evaluated: save_first(
        run, folder, step, {**state_of(before_evaluation), **evaluated, **record()}
    )
    # "skipped" before others, so that they do not count the step at which it ends
    # `fit`.
    with_state = {**before_evaluation, "evaluate": evaluate}
    made = {**say_compiling(run, resume.step), **with_state}
    if is_chief:
        made["save"] = callbacks.SaveCheckpoints(
            folder,
            options.checkpoint_every_steps,
            options.minutes_between_checkpoints(),
            # Not of `made`, for the same reason.
            lambda: {**state_of(with_state), **record()},
            lambda: not skipped.is_skipping,
            first_step=resume.step,
        )
    made["stop"] = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: stop_if_asked(run)
    )
    return made


def make_record(
    run: Run, measure: dict[str, Any], resume: ResumePoint
) -> Callable[[], dict[str, Any]]:
    """Return a function that says how a run measures, when it began, and where it is.

    "began" is None if an earlier release began it.
    """
    today = datetime.date.today().isoformat()
    constant = {
        "best_measure": measure,
        "signatures": sorted(
            {bleu_metric.signature(part.bleu) for part in _scored_parts(run)}
        ),
        "began": resume.state.get("began") if resume.step else today,
    }
    replicas = wording.count(run.process.num_replicas, "replica")
    return lambda: {
        **constant,
        "hardware": f"{hardware.in_words(hardware.describe())}, {replicas}",
    }


def say_compiling(run: Run, first_step: int) -> Callbacks:
    """Return what says that a step compiles, if its shape is new; none without XLA."""
    if not run.model.jit_gradients:
        return {}
    say = callbacks.SayCompiling(
        lambda step: run.compilations.of_step(padded_shape(run, step)), first_step
    )
    return {"compiling": say}


def state_of(made: Callbacks) -> dict[str, Any]:
    """Return what a resumed run needs to know of its callbacks."""
    parts = [made[name] for name in ("evaluate", "skipped", "progress") if name in made]
    return {name: value for part in parts for name, value in part.state().items()}


def save_first(
    run: Run, folder: checkpoints.CheckpointFolder, step: int, state: dict[str, Any]
) -> None:
    """Save a checkpoint if the run has none yet.

    A run does this before it keeps any other weights: weights without a checkpoint are
    then never those of a run that was killed.
    """
    if folder.latest() is None:
        model = run.model
        folder.save(step, state, model=model, optimizer=model.optimizer)


def stop_if_asked(run: Run) -> None:
    """End training after the step during which a stop was requested."""
    if workers.is_asked(run.process, run.stop):
        run.model.stop_training = True


def make_log(run: Run, name: str) -> RunLog:
    """Return a log whose scalars go to a folder of `logs`; only the chief has one."""
    log_dir = run.model_dir.log_path / name if run.process.is_chief else None
    return RunLog(run.write, log_dir)


def measure_of_best(context: RunContext) -> dict[str, Any]:
    """Return the metric that decides the best checkpoint, and BLEU's sentences.

    With "parts", the sentences and the tokenizer of each corpus, unless that is one
    corpus with the tokenizer 13a: earlier releases measured all in this way.
    """
    parts = _scored_parts(context)
    if not parts:
        return {"metric": "loss", "sentences": None}
    measure = {"metric": "bleu", "sentences": sum(len(part.lines) for part in parts)}
    tokenizers = [part.bleu.tokenizer_signature for part in parts]
    if tokenizers != ["13a"]:
        measure["parts"] = {
            part.name: [len(part.lines), tokenizer]
            for part, tokenizer in zip(parts, tokenizers, strict=True)
        }
    return measure


def _scored_parts(context: RunContext) -> list[validation_parts.ScoredPart]:
    return validation_parts.scored_parts(
        context.data_dir, context.options.bleu_sentences
    )


def with_same_measure(
    run: Run, measure: dict[str, Any], state: dict[str, Any]
) -> dict[str, Any]:
    """Return a saved state, without its best unless that was measured in the same way.

    `measure` is what decides now. A run of an earlier release did not save its measure,
    but its best checkpoint has the metrics.
    """
    if state.get("best") is None or state.get("best_measure") == measure:
        return state
    if "best_measure" not in state and "parts" not in measure:
        with contextlib.suppress(AttributeError, checkpoints.DamagedCheckpointError):
            metrics = run.model_dir.checkpoints("best").latest().state["metrics"]
            if metrics.get(measure["metric"]) == state["best"]:
                return {**state, "best_metrics": metrics}
    by = "the loss"
    if measure["metric"] == "bleu":
        by = f"BLEU of {measure['sentences']:,} sentences"
    run.write(
        f"The best checkpoint is now chosen by {by}, which the run did not measure "
        "before: the next evaluation counts as the first."
    )
    return {**state, "best_metrics": None, "evaluations_since_best": 0}


def make_evaluation(
    run: Run, progress: callbacks.Progress
) -> Callable[[], dict[str, float]]:
    """Return a function that measures the current model on the validation split."""
    process = run.process
    measure_loss, measure_bleu = make_loss_measure(run), make_bleu_measure(run)

    def evaluate():
        with (
            progress.pause(),
            run.write.during("evaluating"),
            workers.interruptible(process, run.stop),
        ):
            with out_of_memory.naming_flags(lambda: _LOSS_TOO_LARGE):
                metrics = measure_loss()
            if measure_bleu is not None:
                with out_of_memory.naming_flags(lambda: _BLEU_TOO_LARGE):
                    scores = measure_bleu() if process.is_chief else {"bleu": 0.0}
                metrics |= scores | {"bleu": process.from_chief(scores["bleu"])}
        return metrics

    return evaluate


def make_loss_measure(run: Run) -> Callable[[], dict[str, float]]:
    """Return a function that measures loss, perplexity and accuracy."""
    model, process = run.model, run.process
    corpus = data.EncodedCorpus.open(run.data_dir, "valid")
    corpus.check_ids(run.config.model.vocab_size, run.config.model.output_vocab_size)
    # A microbatch of training fits into memory, so a batch of its size does too.
    at_once = run.config.training.tokens_per_batch // model.accumulate_steps

    def make_dataset(**shares):
        return data.evaluation_dataset(
            corpus,
            tokens_per_batch=max(at_once, max(corpus.lengths)),
            rows_multiple=process.num_replicas,
            **shares,
        )

    dataset = process.distribute(make_dataset)
    # Every replica takes the same number of batches; a dataset that is distributed has
    # no length of its own.
    steps = len(make_dataset()) if process.num_replicas > 1 else None

    def measure_loss():
        metrics = model.evaluate(dataset, steps=steps, return_dict=True, verbose=0)
        model.reset_metrics()
        return metrics

    return measure_loss


def make_bleu_measure(run: Run) -> Callable[[], dict[str, float]] | None:
    """Return a function that measures BLEU and chrF; None if the options ask for none.

    Both are means over the corpora of the validation split, whose own scores follow if
    there are several.
    """
    parts = _scored_parts(run)
    if not parts:
        return None
    sources, references = (
        text_files.read_lines(f"{run.data_dir}/valid.{side}") for side in SIDES
    )
    sources = [sources[line] for part in parts for line in part.lines]
    translator = Translator(run.model, run.tokenizer, run.config.decoding)
    if sizes := translator.sizes_of_large_batches():
        # Its programs read the weights as they are at each search.
        translator = translator.with_prepared_weights(
            has_packed_kernels=False, program_sizes=sizes
        )
    chrf = sacrebleu.CHRF()

    def measure_bleu():
        translations, metrics = iter(translator(sources)), {}
        for part in parts:
            texts = list(itertools.islice(translations, len(part.lines)))
            expected = [[references[line] for line in part.lines]]
            for name, metric in (("bleu", part.bleu), ("chrf", chrf)):
                score = metric.corpus_score(texts, expected).score
                metrics[f"{name}/{part.name}"] = score
        means = {
            name: statistics.fmean(metrics[f"{name}/{part.name}"] for part in parts)
            for name in ("bleu", "chrf")
        }
        return means | (metrics if len(parts) > 1 else {})

    return measure_bleu


def batch_cost(run: Run, step: int) -> callbacks.BatchCost:
    """Count the tokens and the operations of the batch of a step, from 0."""
    batch = run.plan.batch(step)
    rows = batch.rows[batch.rows >= 0]
    lengths = batch.source_length, batch.target_length
    num_tokens = run.corpus.source_lengths[rows].sum()
    num_tokens += run.corpus.target_lengths[rows].sum()
    num_rows = len(batch.rows)
    passes = 2 if run.model.r_drop else 1  # R-Drop computes each pair twice
    return callbacks.BatchCost(
        int(num_tokens),
        (num_rows, *lengths),
        passes * num_rows * training_flops(run.model.config, *lengths),
    )


def padded_shape(run: Run, step: int) -> tuple[int, int, int]:
    """Return the shape of the batch of a step, from 0, as devices share it."""
    batch = run.plan.batch(step)
    shape = len(batch.rows), batch.source_length, batch.target_length
    return preflight.filled(shape, run.rows_multiple)


def planned_batch(run: Run, step: int) -> Any:
    """Return what the train step takes, of the batch of a step, from 0."""
    batch = run.plan.batch(step)
    return run.corpus.rows(batch.rows, batch.source_length, batch.target_length)
