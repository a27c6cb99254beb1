"""A whole training run: from a prepared corpus to checkpoints and `model.keras`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import keras
import sacrebleu

from keras_transformer import data, text_files, tokenization, wording
from keras_transformer.config import (
    ModelConfig,
    check_at_least,
    check_choice,
)
from keras_transformer.inference.translator import Translator
from keras_transformer.model.cost import training_flops
from keras_transformer.model.transformer import Transformer
from keras_transformer.parsing import symbols
from keras_transformer.presets import Preset
from keras_transformer.runs import checkpoints, lock
from keras_transformer.runs.model_dir import ModelDir, RunConfig
from keras_transformer.training import (
    callbacks,
    divergence,
    preflight,
    signals,
    workers,
)
from keras_transformer.training.guided_alignment import GuidedAlignment
from keras_transformer.training.heartbeat import Heartbeat
from keras_transformer.training.losses import LabelSmoothedCrossEntropy
from keras_transformer.training.schedule import paper_optimizer, warm_up_warning
from keras_transformer.training.strategies import Process, make_strategy, this_process

Plan = data.BatchPlan | data.PackedBatchPlan
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
BEST_METRICS = ("bleu", "loss")
# Looked at for whether their words are as many as their trees'.
_CHECKED_PAIRS = 1000


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a run is carried out: what does not change the model it aims at."""

    # One of `strategies.DISTRIBUTIONS`.
    distribution: str = "auto"
    # Devices; None: all GPUs, else one CPU.
    num_replicas: int | None = None
    # Padded tokens of one side that a replica takes at once; where a batch has more of
    # them, it is cut into more pieces than `accumulate_steps`. None: no limit.
    max_tokens_per_replica: int | None = None
    # XLA for the gradients: "true", "false", or "auto": where there is a GPU.
    jit_compile: str = "auto"
    # Steps between two checkpoints; None: by minutes only.
    checkpoint_every_steps: int | None = None
    # Minutes between two checkpoints; None: 10, unless they come by steps.
    checkpoint_every_minutes: float | None = None
    # Checkpoints kept, the newest; None: as many as are averaged.
    keep_checkpoints: int | None = None
    # Steps between two evaluations on the validation split.
    evaluate_every_steps: int = 1000
    # Validation sentences translated by beam search for BLEU; 0: none.
    bleu_sentences: int = 1000
    # Evaluations without a new best after which training stops; None: it does not.
    early_stopping_evaluations: int | None = None
    # Steps between two lines of progress.
    log_every_steps: int = 100
    # Steps in a row whose loss or gradients are not finite, after which training goes
    # back to the last checkpoint with half the learning rate, and then stops.
    max_skipped_steps: int = divergence.MAX_SKIPPED_STEPS
    # Whether the largest batch is tried before the first step.
    has_preflight: bool = True
    # A model_dir, or a checkpoint in one, whose weights training starts from.
    init_checkpoint: str | None = None
    # Whether a run may go on with other pairs than it began with.
    allow_changed_corpus: bool = False

    def __post_init__(self):
        check_choice("jit_compile", self.jit_compile, ("auto", "true", "false"))
        for name in ("evaluate_every_steps", "log_every_steps", "max_skipped_steps"):
            check_at_least(name, getattr(self, name), 1)
        check_at_least("bleu_sentences", self.bleu_sentences, 0)
        for name in (
            "max_tokens_per_replica",
            "checkpoint_every_steps",
            "keep_checkpoints",
            "early_stopping_evaluations",
        ):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1)
        minutes = self.checkpoint_every_minutes
        if minutes is not None and minutes <= 0:
            raise ValueError(
                "`checkpoint_every_minutes` must be above 0. "
                f"Received: checkpoint_every_minutes={minutes}."
            )


def resolve(
    preset: Preset,
    metadata: data.DataMetadata,
    *,
    precision: str = "float32",
    seed: int = 0,
) -> RunConfig:
    """Join a preset with what the corpus says: vocabulary and languages.

    Raises:
        ValueError: If a choice is unknown, or the embeddings are shared where the sides
            have vocabularies of their own, or the model cannot be trained packed.
    """
    check_choice("precision", precision, PRECISIONS)
    if preset.training.pack:
        check_can_pack(preset.model)
    if metadata.target_vocab_size and preset.model.share_embeddings:
        raise ValueError(
            "`share_embeddings` must be False: the corpus has a vocabulary of its own "
            f"for {metadata.target_language}. Received: share_embeddings=True. Choose "
            "--preset=parsing_tiny, parsing_wsj or parsing_semi, or pass "
            "--noshare_embeddings."
        )
    model = dataclasses.replace(
        preset.model,
        vocab_size=metadata.vocab_size,
        target_vocab_size=metadata.target_vocab_size,
        pad_id=metadata.pad_id,
        bos_id=metadata.bos_id,
        eos_id=metadata.eos_id,
    )
    return RunConfig(
        preset=preset.name,
        model=model,
        training=preset.training,
        decoding=preset.decoding,
        source_language=metadata.source_language,
        target_language=metadata.target_language,
        tokenizer_hash=metadata.tokenizer_hash,
        precision=precision,
        seed=seed,
        task=metadata.task,
        labels_hash=metadata.labels_hash,
    )


def check_can_pack(model: ModelConfig) -> None:
    """Raise if a model cannot tell the pairs of a packed row apart.

    Raises:
        ValueError: If its attention is restricted.
    """
    if model.attention_window is not None:
        raise ValueError(
            "`pack` must be False with restricted attention, which has no mask for "
            "pairs that share a row. Received: pack=True, "
            f"attention_window={model.attention_window}. Leave out one of the two."
        )


def check_positions(data_dir: str, config: RunConfig) -> None:
    """Raise if a sentence is longer than the table of learned positions.

    XLA does not notice: it would take the last row for all positions beyond.

    Raises:
        ValueError: If one of the training split or of the validation split is.
    """
    if config.model.position_encoding != "learned":
        return
    for split, limit in (("train", config.training.max_length), ("valid", math.inf)):
        lengths = data.EncodedCorpus.open(data_dir, split).lengths
        longest = int(lengths[lengths <= limit].max(initial=0))
        if longest > config.model.num_positions:
            raise ValueError(
                f"`num_positions` must be at least {longest}, the tokens of the "
                f"longest sentence in {data_dir}/{split}, where positions are learned. "
                f"Received: num_positions={config.model.num_positions}. Pass "
                f"--num_positions={longest}, or prepare the corpus with "
                f"--max_length={config.model.num_positions}."
            )


def train(
    data_dir: str,
    model_dir: str,
    config: RunConfig,
    options: RunOptions | None = None,
    write: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train a model, or go on with a run that was stopped.

    Args:
        data_dir: A prepared corpus.
        model_dir: Where the run lies; if it holds checkpoints, training resumes from
            the newest, with the batch that would have come next.
        config: What to train; `resolve` makes it.
        options: How.
        write: Takes lines of progress.

    Returns:
        A summary for people and programs.

    Raises:
        ValueError: If `model_dir` holds another run, or the corpus does not fit.
        FileNotFoundError: If `data_dir` is no prepared corpus.
        LockedError: If another process trains in `model_dir`.
        DivergedError: If loss or gradients were not finite again and again.
        LostWorkerError: If another process that trains with this one has ended.
        StoppedBySignalError: After SIGTERM or Ctrl-C, when the step is done and saved.
    """
    options = options_of_task(options or RunOptions(), config.task)
    place = ModelDir(model_dir)
    # First of all that touches TensorFlow's devices: it may have to make some.
    strategy = make_strategy(options.distribution, options.num_replicas)
    process = this_process(strategy)
    write = Heartbeat(write if process.is_chief else _say_nothing)
    with alone(place, process, write):
        run, first_step, state = set_up(
            place, process, data_dir, config, options, write
        )
        acting = make_callbacks(run, first_step, state)
        with (
            workers.watching(place, process),
            write.during("training"),
            run.stop.listening(),
            contextlib.suppress(KeyboardInterrupt),
        ):
            acting["evaluate"].catch_up(run.model)
            try:
                if not acting["evaluate"].stopped_early:
                    fit(run, acting)
            except divergence.DivergedError as error:
                acting = make_callbacks(run, *go_back(run, acting, error))
                fit(run, acting)
        if run.stop.number is not None:
            leave(run, acting)
        return finish(run, acting)


@dataclasses.dataclass(frozen=True)
class Run:
    """The parts of a run, in one of its processes."""

    place: ModelDir
    process: Process
    model: Transformer
    tokenizer: Any
    data_dir: str
    corpus: data.EncodedCorpus
    plan: Plan
    config: RunConfig
    options: RunOptions
    write: Heartbeat
    stop: signals.Stop = dataclasses.field(default_factory=signals.Stop)


@contextlib.contextmanager
def alone(
    place: ModelDir, process: Process, write: Callable[[str], None]
) -> Iterator[None]:
    """Keep other trainings out of a folder and delete what killed ones left there.

    Raises:
        LockedError: In all processes, if another training runs there.
    """
    with contextlib.ExitStack() as stack:
        is_refused = False
        if process.is_chief:
            try:
                if stack.enter_context(lock.held(place.path, write)):
                    place.sweep()
            except lock.LockedError:
                is_refused = True
        if process.from_chief(float(is_refused)):
            raise lock.refusal(place.path)
        yield


def set_up(
    place: ModelDir,
    process: Process,
    data_dir: str,
    config: RunConfig,
    options: RunOptions,
    write: Heartbeat,
) -> tuple[Run, int, dict[str, Any]]:
    """Check that model, corpus and folder fit each other, and load what was saved.

    Returns:
        The run, the steps behind it, and the state that was saved with them.
    """
    check_same_run(place, config)
    config = dataclasses.replace(config, corpus_hash=data.corpus_hash(data_dir))
    check_same_corpus(place, data_dir, config.corpus_hash, options)
    check_positions(data_dir, config)
    # Before the tokenizer is loaded: TensorFlow drops what lookup tables and the like
    # hold when a seed is set.
    keras.utils.set_random_seed(config.seed)
    tokenizer = check_corpus(data_dir, config)
    labels = check_labels(data_dir, config)
    with process.strategy.scope():
        guide = guide_of(config, tokenizer, labels)
        model = build(config, options, process.num_replicas, guide)
    corpus, plan = plan_batches(data_dir, config)
    if guide:
        guide.check([corpus[row] for row in range(min(len(corpus), _CHECKED_PAIRS))])
    write(describe(model, plan, process))
    if warning := warm_up_warning(config.training):
        write(warning)
    write(
        "compiling the training step, once for each batch shape and device"
        if model.jit_gradients
        else "tracing the training step"
    )
    with workers.watching(place, process), write.during("trying the largest batches"):
        if options.has_preflight:
            preflight.check_memory(model, process, plan.shapes, write)
        first_step, state = start(place, model, config, options)
        workers.check_same_step(place, process, first_step)
    total = config.training.train_steps
    if first_step > total:
        raise ValueError(
            f"{place.path} has {first_step:,} steps behind it, more than "
            f"train_steps={total:,}. Use another --model_dir, or more --train_steps."
        )
    if process.is_chief:
        place.write_config(config)
        tokenizer.save(place.tokenizer_path)
        if labels:
            labels.save(place.labels_path)
    run = Run(
        place, process, model, tokenizer, data_dir, corpus, plan, config, options, write
    )
    return run, first_step, state


# By what they do, in the order they act.
Callbacks = dict[str, keras.callbacks.Callback]


def fit(run: Run, acting: Callbacks) -> None:
    """Train from the step that the callbacks stand at to the last."""
    first_step, total = acting["progress"].step, run.config.training.train_steps
    if first_step == total:
        return

    def make_dataset(**shares):
        return data.training_dataset(
            run.corpus,
            run.plan,
            first_step,
            rows_multiple=run.process.num_replicas * run.model.accumulate_steps,
            **shares,
        )

    run.model.fit(
        run.process.distribute(make_dataset),
        steps_per_epoch=total - first_step,
        callbacks=list(acting.values()),
        shuffle=False,  # the plan shuffles, over the whole corpus
        verbose=0,
    )


def go_back(
    run: Run, acting: Callbacks, error: divergence.DivergedError
) -> tuple[int, dict[str, Any]]:
    """Load the last good checkpoint and lower the learning rate, once in a run.

    Returns:
        The step to go on from, and the state to go on with.

    Raises:
        DivergedError: If the rate was lowered before.
    """
    state = {**acting["evaluate"].state(), **acting["skipped"].state()}
    best = {name: state[name] for name in ("best_metrics", "evaluations_since_best")}
    if state["learning_rate_factor"] != 1:
        raise error
    newest = checkpoints.restore_newest(
        run.place.checkpoints(), model=run.model, optimizer=run.model.optimizer
    )
    # Without one the weights are those before the first of the skipped steps.
    step = error.step
    if newest:
        # The best so far stays the best, also where it came after this checkpoint.
        step, state = newest[0].step, {**state, **newest[1], **best}
    elif step == run.config.training.train_steps:
        raise error
    state["learning_rate_factor"] = divergence.LOWERED
    state["skipped_steps"] = acting["skipped"].total
    state.update(acting["progress"].state())
    run.write(f"{error} Going back to step {step:,} with half the learning rate.")
    return step, state


def options_of_task(options: RunOptions, task: str) -> RunOptions:
    """Leave out what means nothing for a task.

    The output of a parser is no text: it has no BLEU, and the loss decides the best.
    """
    if task == "parsing":
        return dataclasses.replace(options, bleu_sentences=0)
    return options


def leave(run: Run, acting: Callbacks) -> None:
    """Save a run that a signal asked to stop, and say where it stands.

    Raises:
        StoppedBySignalError: Always.
    """
    # Progress counts first: a signal during an evaluation finds the others a step back.
    step, number = acting["progress"].step, run.stop.number
    reason = f"stopped by {signal.Signals(number).name}"
    if not run.process.is_chief:
        raise signals.StoppedBySignalError(
            number, f"{reason}: worker 0 saves step {step:,}."
        )
    path = acting["save"].save(step)
    raise signals.StoppedBySignalError(
        number,
        f"{reason}: step {step:,} is saved in {path}. Run the same command again to go "
        "on.",
    )


def check_same_run(place: ModelDir, config: RunConfig) -> None:
    """Raise if the folder holds a run that this one does not continue.

    Steps may be added, other checkpoints averaged, and batches cut into other pieces;
    all else would make the result another than its `config.json` says.

    Raises:
        ValueError: If it does; the message names the field.
    """
    if not place.config_path.exists():
        return
    # The corpus has a check of its own.
    free = {"train_steps", "average_last", "accumulate_steps", "corpus_hash"}
    old, new = place.read_config().to_json(), config.to_json()
    for part in ("model", "training", None):
        before, after = (old[part], new[part]) if part else (old, new)
        for name, value in before.items():
            changed = not isinstance(value, dict) and value != after[name]
            if changed and name not in free:
                raise ValueError(
                    f"{place.path} holds another run: its `{name}` is {value!r}, here "
                    f"it is {after[name]!r}. Use another --model_dir, or the same "
                    "settings to resume it."
                )


def check_corpus(data_dir: str, config: RunConfig) -> Any:
    """Return the corpus's tokenizer.

    Raises:
        ValueError: If the corpus was encoded with another vocabulary than the model's.
    """
    tokenizer = tokenization.load(f"{data_dir}/tokenizer")
    found = {tokenizer.fingerprint, data.read_metadata(data_dir).tokenizer_hash}
    if found != {config.tokenizer_hash}:
        raise ValueError(
            f"The corpus in {data_dir} is encoded with another vocabulary than the "
            "model's: their tokenizer hashes differ. Prepare it with the model's "
            "tokenizer (--tokenizer_model), or train a new model."
        )
    return tokenizer


def check_same_corpus(
    place: ModelDir, data_dir: str, corpus_hash: str, options: RunOptions
) -> None:
    """Raise if the folder holds a run on other pairs: step n would be another batch.

    Raises:
        ValueError: If it does, unless `options.allow_changed_corpus`. Runs of earlier
            releases, which do not know their corpus, pass.
    """
    if options.allow_changed_corpus or not place.config_path.exists():
        return
    if place.read_config().corpus_hash not in (None, corpus_hash):
        raise ValueError(
            f"{place.path} holds a run on another corpus: the pairs in {data_dir} "
            "changed since. Prepare the same corpus again or use another --model_dir; "
            "--allow_changed_corpus goes on with these pairs."
        )


def check_labels(data_dir: str, config: RunConfig) -> symbols.SymbolVocabulary | None:
    """Return what the targets of a parsing corpus are encoded with; else None.

    Raises:
        ValueError: If the corpus has other labels than the model.
    """
    if config.labels_hash is None:
        return None
    labels = symbols.load(f"{data_dir}/{symbols.FILE_NAME}")
    found = {labels.fingerprint, data.read_metadata(data_dir).labels_hash}
    if found != {config.labels_hash}:
        raise ValueError(
            f"The corpus in {data_dir} is encoded with other labels of constituents "
            "than the model's, or with other tags: their hashes differ. Prepare it "
            "from the trees that the model was trained on, with --keep_tags as then, "
            "or train a new model."
        )
    return labels


def guide_of(
    config: RunConfig, tokenizer: Any, labels: symbols.SymbolVocabulary | None
) -> GuidedAlignment | None:
    """Return what shows attention where to look, if the run's config says so.

    Raises:
        ValueError: If the model translates, or the tokens do not tell words.
    """
    weight = config.training.guided_alignment
    if not weight:
        return None
    if labels is None:
        raise ValueError(
            "`guided_alignment` must be 0 in translation, where no alignment of the "
            f"words is known. Received: guided_alignment={weight}."
        )
    return GuidedAlignment(weight, tokenizer, labels)


def build(
    config: RunConfig,
    options: RunOptions,
    num_replicas: int = 1,
    guide: GuidedAlignment | None = None,
) -> Transformer:
    """Make the model and compile it as the paper trains it, §5.3 and §5.4."""
    model = Transformer(config.model, dtype=config.precision)
    optimizer = paper_optimizer(config.model.d_model, config.training)
    if config.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(
        optimizer,
        LabelSmoothedCrossEntropy(config.training.label_smoothing),
        jit_compile={"true": True, "false": False}.get(options.jit_compile, "auto"),
        accumulate_steps=count_pieces(config, options, num_replicas),
        seed=config.seed,
        guide=guide,
        is_packed=config.training.pack,
    )
    return model


def count_pieces(config: RunConfig, options: RunOptions, num_replicas: int) -> int:
    """Return the pieces that each batch is cut into, on every replica.

    The tokens of a batch, of all replicas together, stay what the run's config says, on
    whatever devices it goes on: with fewer replicas there are more pieces.
    """
    pieces = config.training.accumulate_steps
    if options.max_tokens_per_replica is not None:
        at_once = num_replicas * options.max_tokens_per_replica
        pieces = max(pieces, math.ceil(config.training.tokens_per_batch / at_once))
    return pieces


def plan_batches(data_dir: str, config: RunConfig) -> tuple[data.EncodedCorpus, Plan]:
    """Open the training split and plan its batches, whatever devices share them."""
    corpus = data.EncodedCorpus.open(data_dir, "train")
    corpus.check_ids(config.model.vocab_size, config.model.output_vocab_size)
    make_plan = corpus.batch_plan
    if config.training.pack:
        corpus.check_segments(config.model.eos_id)
        make_plan = corpus.packed_batch_plan
    plan = make_plan(
        tokens_per_batch=config.training.tokens_per_batch,
        seed=config.seed,
        max_length=config.training.max_length,
    )
    return corpus, plan


def describe(model: Transformer, plan: Plan, process: Process) -> str:
    """Say what is about to be trained."""
    compiled = "without XLA"
    if model.jit_gradients:
        # XLA compiles a shape anew for each device.
        graphs = len(plan.shapes) * process.num_replicas // process.count
        compiled = f"under XLA ({wording.count(graphs, 'compilation')})"
    pieces = model.accumulate_steps
    padding_rate = plan.padding_rate_of(process.num_replicas * pieces)
    return (
        f"{model.count_params():,} parameters, "
        + wording.count(process.num_replicas, "replica")
        + (f" in {process.count} workers" if process.count > 1 else "")
        + (f", {pieces} pieces a batch" if pieces > 1 else "")
        + f", {compiled}; {wording.count(plan.num_pairs, 'pair')} in "
        f"{wording.count(plan.batches_per_epoch, 'batch', 'batches')} of "
        f"{wording.count(len(plan.shapes), 'shape')}, "
        f"{100 * padding_rate:.1f} % padding"
        + (f", {plan.pairs_per_row:.1f} pairs a row" if model.is_packed else "")
        + (
            f"; {wording.count(plan.num_left_out, 'pair')} too long"
            if plan.num_left_out
            else ""
        )
    )


def start(
    place: ModelDir, model: Transformer, config: RunConfig, options: RunOptions
) -> tuple[int, dict[str, Any]]:
    """Load the newest whole checkpoint, or the weights to fine-tune from.

    Returns:
        The steps behind the run, and the state that was saved with them.
    """
    newest = checkpoints.restore_newest(
        place.checkpoints(), model=model, optimizer=model.optimizer
    )
    if newest:
        checkpoint, state = newest
        return checkpoint.step, state
    if options.init_checkpoint:
        load_weights(options.init_checkpoint, model, config)
    return 0, {}


def load_weights(path: str, model: Transformer, config: RunConfig) -> None:
    """Start from another model's weights, with a fresh optimizer.

    Args:
        path: A model_dir, or a checkpoint in one.
        model: Takes the weights.
        config: Of this run.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If its vocabulary or architecture differs.
    """
    place = ModelDir(path)
    checkpoint = None
    if not place.config_path.exists():  # model_dir/checkpoints/step-NNNNNNNN
        place, checkpoint = ModelDir(place.path.parent.parent), path
    other = place.read_config()
    if other.tokenizer_hash != config.tokenizer_hash:
        raise ValueError(
            f"The model in {place.path} has another vocabulary than the corpus. "
            f"Prepare the corpus with --tokenizer_model={place.tokenizer_path}/"
            "sentencepiece.model to fine-tune it."
        )
    if other.labels_hash != config.labels_hash:
        raise ValueError(
            f"The model in {place.path} knows other labels of constituents than the "
            "corpus, or other tags. Only a corpus with the same ones (--keep_tags) can "
            "fine-tune it."
        )
    try:
        model.set_weights(place.load_model(checkpoint).get_weights())
    except ValueError as error:
        raise ValueError(
            f"The model in {place.path} has other sizes than this run: "
            f"{str(error).splitlines()[0]} Give the preset and the flags that it was "
            "trained with."
        ) from error


def make_callbacks(run: Run, first_step: int, state: dict[str, Any]) -> Callbacks:
    """Return what happens between the steps of a run, in the order it happens.

    Args:
        run: The run.
        first_step: The steps behind it.
        state: What was saved with them.
    """
    place, config, options = run.place, run.config, run.options
    is_chief = run.process.is_chief
    measure = measure_of_best(run)
    state = with_same_measure(run, measure, state)
    total = config.training.train_steps
    progress = callbacks.Progress(
        lambda step: batch_tokens(run.corpus, run.plan, step),
        lambda step: batch_shape(run.plan, step),
        total,
        options.log_every_steps,
        options.evaluate_every_steps,
        lambda rows, *lengths: rows * training_flops(run.model.config, *lengths),
        state,
        log_dir=str(place.log_path / "train") if is_chief else None,
        write=run.write,
        first_step=first_step,
    )
    evaluate = callbacks.Evaluate(
        make_evaluation(run, progress),
        options.evaluate_every_steps,
        total,
        place.checkpoints("best") if is_chief else None,
        best_metric=measure["metric"],
        patience=options.early_stopping_evaluations,
        best_metrics=state.get("best_metrics"),
        evaluated_step=state.get("evaluated_step", first_step),
        evaluations_since_best=state.get("evaluations_since_best", 0),
        log_dir=str(place.log_path / "validation") if is_chief else None,
        write=run.write,
        first_step=first_step,
    )
    skipped = divergence.CountSkippedSteps(
        options.max_skipped_steps,
        lambda step: divergence.diagnose(
            run.model, *planned_batch(run.corpus, run.plan, step - 1)
        ),
        state.get("learning_rate_factor", 1.0),
        state.get("skipped_steps", 0),
        write=run.write,
        first_step=first_step,
    )
    folder = place.checkpoints()
    folder.keep = options.keep_checkpoints or config.training.average_last
    minutes = options.checkpoint_every_minutes
    if minutes is None and options.checkpoint_every_steps is None:
        minutes = 10.0  # as in the paper, §6.1
    save = callbacks.SaveCheckpoints(
        folder,
        options.checkpoint_every_steps,
        minutes,
        lambda: {
            **evaluate.state(),
            **skipped.state(),
            **progress.state(),
            "best_measure": measure,
        },
        lambda: not skipped.is_skipping,
        first_step=first_step,
    )
    asked = callbacks.StopWhenAsked(lambda: workers.is_asked(run.process, run.stop))
    return {
        "skipped": skipped,  # first: the others need not see the step it ends at
        "progress": progress,
        "evaluate": evaluate,
        **({"save": save} if is_chief else {}),
        "stop": asked,
    }


def measure_of_best(run: Run) -> dict[str, Any]:
    """Return the metric that decides the best checkpoint, and BLEU's sentences."""
    if not run.options.bleu_sentences:
        return {"metric": "loss", "sentences": None}
    available = data.read_metadata(run.data_dir).splits["valid"].pairs_read
    return {"metric": "bleu", "sentences": min(run.options.bleu_sentences, available)}


def with_same_measure(
    run: Run, measure: dict[str, Any], state: dict[str, Any]
) -> dict[str, Any]:
    """Return a saved state, without its best unless that was measured in this way.

    A run of an earlier release did not save how; its best checkpoint has the metrics.

    Args:
        run: The run.
        measure: What decides now, see `measure_of_best`.
        state: As saved with a checkpoint.
    """
    if state.get("best") is None or state.get("best_measure") == measure:
        return state
    if "best_measure" not in state:
        with contextlib.suppress(AttributeError, checkpoints.DamagedCheckpointError):
            metrics = run.place.checkpoints("best").latest().state["metrics"]
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
    """Return a function that measures the model as it is on the validation split."""
    model, config, process = run.model, run.config, run.process
    corpus = data.EncodedCorpus.open(run.data_dir, "valid")
    corpus.check_ids(config.model.vocab_size, config.model.output_vocab_size)
    # What fits in training, a piece at a time, does here too.
    at_once = config.training.tokens_per_batch // model.accumulate_steps

    def make_dataset(**shares):
        return data.evaluation_dataset(
            corpus,
            tokens_per_batch=max(at_once, max(corpus.lengths)),
            rows_multiple=process.num_replicas,
            **shares,
        )

    dataset = process.distribute(make_dataset)
    # Parts are as many for every replica; this process's dataset has those of its own.
    steps = len(make_dataset()) if process.count > 1 else None
    sources, references = (
        text_files.read_lines(f"{run.data_dir}/valid.{side}")[
            : run.options.bleu_sentences
        ]
        for side in data.corpus.SIDES
    )
    translator = Translator(model, run.tokenizer, config.decoding) if sources else None

    def bleu():
        return sacrebleu.corpus_bleu(translator(sources), [references]).score

    def evaluate():
        with (
            progress.pause(),
            run.write.during("evaluating"),
            workers.interruptible(process, run.stop),
        ):
            metrics = model.evaluate(dataset, steps=steps, return_dict=True, verbose=0)
            model.reset_metrics()
            if sources:
                metrics["bleu"] = process.from_chief(
                    bleu() if process.is_chief else 0.0
                )
        return metrics

    return evaluate


def batch_tokens(corpus: data.EncodedCorpus, plan: Plan, step: int) -> int:
    """Count the real tokens, source + target, of the batch of a step."""
    rows = plan.batch(step).rows
    rows = rows[rows >= 0]
    return int(corpus.source_lengths[rows].sum() + corpus.target_lengths[rows].sum())


def planned_batch(corpus: data.EncodedCorpus, plan: Plan, step: int) -> Any:
    """Return (source_tokens, target_tokens) of the batch of a step."""
    batch = plan.batch(step)
    return corpus.rows(batch.rows, batch.source_length, batch.target_length)


def batch_shape(plan: Plan, step: int) -> tuple[int, int, int]:
    """Return (rows, source_length, target_length) of the batch of a step."""
    batch = plan.batch(step)
    return len(batch.rows), batch.source_length, batch.target_length


def finish(run: Run, acting: Callbacks) -> dict[str, Any]:
    """Write `model.keras` with the best weights so far and sum the run up."""
    place, model, progress = run.place, run.model, acting["progress"]
    if not run.process.is_chief:
        return {"model_dir": str(place.path), "steps": progress.step}
    chosen = place.choose()
    checkpoints.restore(chosen, model=model)
    place.save_model(model)
    speeds = progress.tokens_per_second
    cost = progress.state()
    return {
        "model_dir": str(place.path),
        "steps": place.checkpoints().latest().step,
        "seconds": round(cost["seconds"], 1),
        "tokens_per_second": round(statistics.median(speeds), 1) if speeds else None,
        "flops": cost["flops"],
        "num_shapes": progress.num_shapes,
        "skipped_steps": acting["skipped"].total,
        "best_metric": acting["evaluate"].best,
        "stopped_early": acting["evaluate"].stopped_early,
        "model_keras": str(chosen.path.relative_to(place.path)),
        "num_parameters": model.count_params(),
    }


def _say_nothing(line: str) -> None:
    """Worker 0 says what happens."""
