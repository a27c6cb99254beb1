"""What a run needs before its first step: checks, model, batches, saved state."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import keras

from keras_transformer import data, wording
from keras_transformer.config import check_choice
from keras_transformer.model import lora, train_step
from keras_transformer.model.transformer import Transformer
from keras_transformer.parsing import symbols
from keras_transformer.presets import Preset
from keras_transformer.runs import checkpoints, lock
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import PRECISIONS, RunConfig
from keras_transformer.training import (
    fine_tuning,
    preflight,
    run_checks,
    signals,
    validation_parts,
    workers,
)
from keras_transformer.training.compilation import Compilations
from keras_transformer.training.guided_alignment import AlignmentGuide, NextWordGuide
from keras_transformer.training.heartbeat import Heartbeat
from keras_transformer.training.losses import LabelSmoothedCrossEntropy
from keras_transformer.training.run_options import RunOptions
from keras_transformer.training.schedule import paper_optimizer, warm_up_warning
from keras_transformer.training.strategies import Process

Plan = data.BatchPlan | data.PackedBatchPlan

# Pairs checked for equal word counts in sentence and tree.
_CHECKED_PAIRS = 1000


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What a run is asked to do, and by which of its processes."""

    model_dir: ModelDir
    process: Process
    data_dir: str
    config: RunConfig
    options: RunOptions
    write: Heartbeat


@dataclasses.dataclass(frozen=True)
class Run(RunContext):
    """The parts of a run in one of its processes, ready to train."""

    model: Transformer
    tokenizer: Any
    corpus: data.EncodedCorpus
    plan: Plan
    compilations: Compilations
    stop: signals.Stop = dataclasses.field(default_factory=signals.Stop)

    @property
    def rows_multiple(self) -> int:
        """Rows of padding fill each batch up to a multiple of this."""
        return self.process.num_replicas * self.model.accumulate_steps


class ResumePoint(NamedTuple):
    """Where training begins: the steps done, and the state saved with them."""

    step: int
    state: dict[str, Any]


def resolve(
    preset: Preset,
    metadata: data.DataMetadata,
    *,
    precision: str = RunConfig.precision,
    seed: int = RunConfig.seed,
) -> RunConfig:
    """Join a preset with what the corpus decides: vocabulary and languages.

    Raises:
        ValueError: If a choice is unknown, the embeddings are shared although the sides
            have separate vocabularies, the model to start from has another vocabulary,
            it cannot be trained packed, or the corpus has no alignments to guide it.
    """
    check_choice("precision", precision, PRECISIONS)
    if preset.training.pack:
        run_checks.check_can_pack(preset.model)
    if metadata.target_vocab_size and preset.model.share_embeddings:
        raise ValueError(
            "`share_embeddings` must be False: the corpus has a separate vocabulary "
            f"for {metadata.target_language}. Received: share_embeddings=True. Choose "
            "--preset=parsing_tiny, parsing_wsj or parsing_semi, or pass "
            "--noshare_embeddings."
        )
    num_targets = metadata.target_vocab_size or metadata.vocab_size
    if max(preset.model.suppressed_ids, default=-1) >= num_targets:
        raise ValueError(
            "The model of --init_checkpoint has another vocabulary than the corpus, "
            f"which has {num_targets:,} entries. Prepare the corpus with "
            "--tokenizer_from and the folder of the model."
        )
    model = dataclasses.replace(
        preset.model,
        vocab_size=metadata.vocab_size,
        target_vocab_size=metadata.target_vocab_size,
        pad_id=metadata.pad_id,
        bos_id=metadata.bos_id,
        eos_id=metadata.eos_id,
        alignment_head=run_checks.alignment_head(preset, metadata),
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
        default_language=metadata.default_language,
        corpus=metadata.in_brief(),
    )


@contextlib.contextmanager
def exclusive(context: RunContext) -> Iterator[None]:
    """Lock a model_dir for this run and delete what killed runs left unfinished.

    Raises:
        LockedError: In all processes, if another training holds the lock.
    """
    model_dir, process = context.model_dir, context.process
    with contextlib.ExitStack() as stack:
        is_refused = False
        if process.is_chief:
            try:
                if stack.enter_context(lock.held(model_dir.path, context.write)):
                    model_dir.sweep()
            except lock.LockedError:
                is_refused = True
        if process.from_chief(float(is_refused)):
            raise lock.refusal(model_dir.path)
        yield


def check(context: RunContext) -> RunContext:
    """Check that configuration, corpus and model_dir fit each other.

    Returns:
        The context, its configuration with the corpus's hash and `pack` decided.

    Raises:
        ValueError: If they do not, or `model_dir` holds weights that are no run's; the
            message names what differs.
        FileNotFoundError: If `init_checkpoint` names no model.
    """
    model_dir, data_dir, options = context.model_dir, context.data_dir, context.options
    run_checks.check_weights_are_kept(
        model_dir, context.process, options.init_checkpoint
    )
    config = with_packing_decided(context)
    run_checks.check_same_run(model_dir, config)
    corpus_hash = data.corpus_hash(data_dir)
    if not options.allow_changed_corpus:
        run_checks.check_same_corpus(model_dir, data_dir, corpus_hash)
    config = dataclasses.replace(
        config, corpus_hash=corpus_hash, start=start_of(context)
    )
    run_checks.check_positions(data_dir, config)
    # Raises if a tokenizer of BLEU is not installed.
    validation_parts.scored_parts(data_dir, options.bleu_sentences)
    newest = model_dir.checkpoints().latest()
    if options.init_checkpoint and not newest:
        fine_tuning.check_can_start_from(options.init_checkpoint, config)
    if config.training.lora_rank and not (options.init_checkpoint or newest):
        raise ValueError(
            "`lora_rank` adapts a trained model: give --init_checkpoint, or leave out "
            f"--lora_rank. Received: lora_rank={config.training.lora_rank}."
        )
    if newest and newest.step > config.training.train_steps:
        raise ValueError(
            f"{model_dir.path} holds a run of {newest.step:,} steps, more than "
            f"train_steps={config.training.train_steps:,}. Use another --model_dir, or "
            "more --train_steps."
        )
    return dataclasses.replace(context, config=config)


def start_of(context: RunContext) -> dict[str, Any] | None:
    """Return what `config.json` says of the model that the run began from, if any."""
    model_dir, start = context.model_dir, context.options.init_checkpoint
    if model_dir.checkpoints().latest() is None:
        return fine_tuning.describe(start) if start else None
    return model_dir.read_config().start if model_dir.config_path.exists() else None


def with_packing_decided(context: RunContext) -> RunConfig:
    """Return the configuration with `pack` true or false, the same in all processes.

    Packed rows have one shape, and XLA takes up to a minute to compile for each. A
    resumed run keeps what it began with, also on other devices.
    """
    config = context.config
    if config.training.pack is not None:
        return config
    pack = run_checks.begun_packed(context.model_dir)
    if pack is None:
        compiles = uses_xla(context.options) or context.options.distribution == "tpu"
        pack = compiles and run_checks.can_pack(context.data_dir, config)
    pack = bool(context.process.from_chief(float(pack)))
    training = dataclasses.replace(config.training, pack=pack)
    return dataclasses.replace(config, training=training)


def uses_xla(options: RunOptions) -> bool:
    """Return whether training runs under XLA: unless told otherwise, on a GPU."""
    return train_step.uses_xla(
        {"true": True, "false": False}.get(options.jit_compile, "auto")
    )


def prepare(context: RunContext) -> tuple[Run, ResumePoint]:
    """Build the model, plan the batches and load what was saved.

    Args:
        context: As `check` returns it.

    Raises:
        ValueError: If the corpus was not encoded for this model.
        NotEnoughMemoryError: If the largest batch does not fit into memory.
    """
    config, process, write = context.config, context.process, context.write
    # Before the tokenizer is loaded: setting a seed drops the contents of TensorFlow's
    # lookup tables.
    keras.utils.set_random_seed(config.seed)
    tokenizer = run_checks.load_tokenizer(context.data_dir, config)
    labels = run_checks.load_labels(context.data_dir, config)
    guide = make_guide(config, tokenizer, labels)
    with process.strategy.scope():
        model = build(config, context.options, process.num_replicas, guide)
    corpus, plan = plan_batches(context.data_dir, config)
    if isinstance(guide, NextWordGuide):
        guide.check([corpus[row] for row in range(min(len(corpus), _CHECKED_PAIRS))])
    run = Run(
        **vars(context),
        model=model,
        tokenizer=tokenizer,
        corpus=corpus,
        plan=plan,
        compilations=Compilations(write, model.jit_gradients),
    )
    tried = ()
    if context.options.has_preflight:
        tried = preflight.shapes_to_try(model, process, plan.shapes)
    write(describe(model, plan, process, tried))
    if warning := warm_up_warning(config.training):
        write(warning)
    if not model.jit_gradients:
        write("tracing the training step")
    resume = try_and_load(run)
    if process.is_chief:
        context.model_dir.write_config(config)
        tokenizer.save(context.model_dir.tokenizer_path)
        if labels:
            labels.save(context.model_dir.labels_path)
    return run, resume


def try_and_load(run: Run) -> ResumePoint:
    """Try the largest batches, then load the newest intact checkpoint.

    The trial needs a fresh optimizer, so it comes first. A run without a checkpoint
    starts from `init_checkpoint` if one is given.
    """
    resume = ResumePoint(0, {})
    with (
        workers.watching(run.model_dir, run.process),
        run.write.during("trying the largest batches"),
    ):
        if run.options.has_preflight:
            preflight.check_memory(
                run.model,
                run.process,
                run.plan.shapes,
                run.write,
                run.compilations.of_step,
            )
        newest = checkpoints.restore_newest(
            run.model_dir.checkpoints(), model=run.model, optimizer=run.model.optimizer
        )
        if newest:
            resume = ResumePoint(newest[0].step, newest[1])
            run.write(f"resuming from step {resume.step:,}")
        elif run.options.init_checkpoint:
            fine_tuning.load_weights(run.options.init_checkpoint, run.model)
        workers.check_same_step(run.model_dir, run.process, resume.step)
    return resume


def make_guide(
    config: RunConfig, tokenizer: Any, labels: symbols.SymbolVocabulary | None
) -> AlignmentGuide | NextWordGuide | None:
    """Return the loss that guides attention, if the run's configuration has one.

    ValueError if a parser's tokens do not tell where words begin.
    """
    weight = config.training.guided_alignment
    if not weight:
        return None
    if labels is None:
        return AlignmentGuide(weight, config.model.alignment_head)
    return NextWordGuide(weight, tokenizer, labels)


def build(
    config: RunConfig,
    options: RunOptions,
    num_replicas: int = 1,
    guide: AlignmentGuide | NextWordGuide | None = None,
) -> Transformer:
    """Make the model and compile it as the paper trains it, §5.3 and §5.4."""
    model = Transformer(config.model, dtype=config.precision)
    lora.add_adapters(model, config.training.lora_rank)
    fine_tuning.freeze(model, config.training.frozen_parts)
    optimizer = paper_optimizer(config.model.d_model, config.training)
    if config.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(
        optimizer,
        LabelSmoothedCrossEntropy(
            config.training.label_smoothing, config.training.r_drop
        ),
        jit_compile=uses_xla(options),
        accumulate_steps=count_microbatches(config, options, num_replicas),
        seed=config.seed,
        guide=guide,
        is_packed=bool(config.training.pack),
    )
    return model


def count_microbatches(
    config: RunConfig, options: RunOptions, num_replicas: int
) -> int:
    """Return how many microbatches a batch is split into on every replica.

    A batch has the same tokens in total on any number of devices: fewer replicas mean
    more microbatches.
    """
    count = config.training.accumulate_steps
    if options.max_tokens_per_replica is not None:
        at_once = num_replicas * options.max_tokens_per_replica
        count = max(count, math.ceil(config.training.tokens_per_batch / at_once))
    return count


def plan_batches(data_dir: str, config: RunConfig) -> tuple[data.EncodedCorpus, Plan]:
    """Open the training split and plan its batches, whatever devices share them."""
    is_aligned = config.training.guided_alignment > 0 and config.labels_hash is None
    corpus = data.EncodedCorpus.open(data_dir, "train", is_aligned=is_aligned)
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


def describe(
    model: Transformer,
    plan: Plan,
    process: Process,
    tried: Collection[tuple[int, int, int]] = (),
) -> str:
    """Say what is about to be trained.

    Args:
        model: Compiled.
        plan: Its batches.
        process: This process and the replicas that share each batch.
        tried: Shapes of the batches that memory is tried with.
    """
    microbatches = model.accumulate_steps
    rows_multiple = process.num_replicas * microbatches
    compiled = "without XLA"
    if model.jit_gradients:
        shapes = {preflight.filled(shape, rows_multiple) for shape in plan.shapes}
        programs = len(shapes.union(tried))
        if process.num_replicas > 1:
            programs += 1  # the update, which depends on no shape
        # XLA compiles each again for each device.
        programs *= process.num_replicas // process.count
        compiled = f"under XLA ({wording.count(programs, 'compilation')})"
    padding_rate = plan.padding_rate_of(rows_multiple)
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    shares = ", ".join(f"{each.name} {each.share:.1%}" for each in plan.corpora)
    return (
        f"{model.count_params():,} parameters, "
        + (f"{trained:,} of them trained, " if trained < model.count_params() else "")
        + wording.count(process.num_replicas, "replica")
        + (f" in {process.count} workers" if process.count > 1 else "")
        + (f", {microbatches} microbatches a batch" if microbatches > 1 else "")
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
        + (f"; shares of an epoch: {shares}" if shares else "")
    )
