"""Checks before step 1 that the largest batch fits into memory."""

from __future__ import annotations

import contextlib
import math
import pathlib
import resource
from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_transformer import data, wording
from keras_transformer.model.transformer import Transformer
from keras_transformer.training.out_of_memory import NotEnoughMemoryError
from keras_transformer.training.strategies import Process

# (rows, source_length, target_length) of a batch.
Shape = tuple[int, int, int]
# Takes the shape of a batch, and says that its step compiles.
Compiling = Callable[[Shape], contextlib.AbstractContextManager]

# Share of the free memory that a step may take.
_USABLE = 0.9
# oneDNN's allocator counts tensors of 256 KiB and more. Some are half as large as the
# activations of a layer.
_COUNTED_BYTES = 2**19


def check_memory(
    model: Transformer,
    process: Process,
    shapes: Sequence[Shape],
    write: Callable[[str], None] = print,
    compiling: Compiling = contextlib.nullcontext,
) -> None:
    """Train one step on padding of the largest shape, and report the memory it took.

    Padding has no loss, so a step with all its gradients and the update changes neither
    the weights nor a fresh optimizer.

    Args:
        model: Compiled, before its first step.
        process: This process and the replicas that share the batch.
        shapes: (rows, source_length, target_length) of each kind of batch.
        write: Takes a line.
        compiling: Says that a step on a shape compiles, if it does.

    Raises:
        NotEnoughMemoryError: If it does not fit; the message says which size would.
    """

    def train(rows, lengths):
        with compiling((rows, *lengths)):
            train_on_padding(model, process, rows, *lengths)

    multiple = process.num_replicas * model.accumulate_steps
    try_out = _try_on_gpu if _gpus() else _try_on_cpu
    for rows, *lengths in _largest(shapes, multiple):
        used = try_out(train, model, process, rows, lengths, multiple)
        write(
            f"a batch of {rows:,} rows of {_spelled(lengths)} tokens takes "
            f"{used / 2**30:.2f} GiB of memory at the peak"
        )


def shapes_to_try(
    model: Transformer, process: Process, shapes: Sequence[Shape]
) -> set[Shape]:
    """Return the shapes that `check_memory` trains on, if all of them fit.

    Args:
        model: Same as in `check_memory`.
        process: Same as in `check_memory`.
        shapes: Same as in `check_memory`.
    """
    multiple = process.num_replicas * model.accumulate_steps
    tried = set()
    for rows, *lengths in _largest(shapes, multiple):
        counts = [rows]
        if not _gpus():
            counts += [multiple, _quarter(model, rows, lengths, multiple)]
        tried.update((count, *lengths) for count in counts)
    return tried


def filled(shape: Shape, rows_multiple: int) -> Shape:
    """Return a shape with rows of padding up to a multiple."""
    rows, *lengths = shape
    return -(-rows // rows_multiple) * rows_multiple, *lengths


def _largest(shapes, multiple) -> list[Shape]:
    """Return the shapes that may take most memory, each once."""
    rounded = [filled(shape, multiple) for shape in shapes]
    # Activations grow with the tokens of a batch, logits with its target tokens, and
    # attention weights also with the length of its rows.
    sizes = (_count_attention_weights, _count_tokens, _count_target_tokens)
    return [*dict.fromkeys(max(rounded, key=size) for size in sizes)]


def _count_tokens(shape) -> int:
    rows, source_length, target_length = shape
    return rows * (source_length + target_length)


def _count_target_tokens(shape) -> int:
    rows, _, target_length = shape
    return rows * target_length


def _count_attention_weights(shape) -> int:
    """Count the attention weights of one head in one layer of each stack."""
    rows, source_length, target_length = shape
    decoder = target_length * (target_length + source_length)
    return rows * (source_length**2 + decoder)


def _spelled(lengths) -> str:
    return " + ".join(map(str, lengths))


def _try_on_gpu(train, model, process, rows, lengths, multiple) -> int:
    """Return the peak of the fullest GPU in bytes.

    With several processes there is no second try: the others still wait in the first.
    """
    gpus = [device.name.removeprefix("/device:") for device in _gpus()]
    fitting = rows
    while True:
        for gpu in gpus:
            tf.config.experimental.reset_memory_stats(gpu)
        try:
            train(fitting, lengths)
            break
        except tf.errors.ResourceExhaustedError as error:
            if fitting == multiple:
                raise _too_large(model, process, rows, lengths, 0) from error
            if process.count > 1:
                half = max(rows // 2 // multiple, 1) * multiple
                raise _too_large(model, process, rows, lengths, half) from error
            fitting = max(fitting // 2 // multiple, 1) * multiple
    if fitting < rows:
        raise _too_large(model, process, rows, lengths, fitting)
    return max(tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus)


def _try_on_cpu(train, model, process, rows, lengths, multiple) -> int:
    """Return the peak of this process in bytes.

    Linux kills a process that asks for too much memory, without a message. So two
    smaller batches are tried first: one with the fewest rows, and one with a quarter of
    all rows, or more if a quarter's tensors are too small to be counted. The difference
    of their peaks is the memory per row, without the gradients, whose size does not
    depend on the rows.
    """
    quarter = _quarter(model, rows, lengths, multiple)
    held = _peak_of_tensors()  # by an earlier batch; oneDNN reuses it
    forget_peak()
    fewest, more = (
        _peak_of_step(train, count, lengths) for count in (multiple, quarter)
    )
    row_bytes = max(more - fewest, 1) / max(quarter - multiple, 1)
    held = max(held - more, 0)
    wanted = row_bytes * (rows - quarter) - held
    usable = _USABLE * available_bytes()
    # All processes refuse it or none does; else the others would wait for ever.
    if process.sum_over_processes(float(wanted > usable)):
        usable = min(usable, wanted / 2)
        fitting = quarter + (usable + held) / row_bytes
        fitting = int(fitting // multiple) * multiple
        raise _too_large(model, process, rows, lengths, fitting)
    train(rows, lengths)
    return peak_bytes()


def _quarter(model, rows, lengths, multiple) -> int:
    """Return a quarter of the rows, or as many as have tensors that are counted."""
    counted = math.ceil(_COUNTED_BYTES / (4 * model.config.d_model * min(lengths)))
    return min(max(rows // 4 // multiple, counted, 2) * multiple, rows)


def _peak_of_step(train, rows, lengths) -> int:
    """Return the peak of all tensors, or else of this process, in bytes."""
    with contextlib.suppress(ValueError):
        tf.config.experimental.reset_memory_stats("CPU:0")
    train(rows, lengths)
    return _peak_of_tensors() or peak_bytes()


def _peak_of_tensors() -> int:
    """Return the peak of all tensors since the last reset in bytes; 0 if unknown.

    oneDNN's allocator counts them, for all logical CPUs together. It never returns
    memory to the system, so the memory of the process would not show that a step takes
    less than the one before it.
    """
    try:
        return tf.config.experimental.get_memory_info("CPU:0")["peak"]
    except ValueError:
        return 0


def train_on_padding(
    model: Transformer,
    process: Process,
    rows: int,
    source_length: int,
    target_length: int,
) -> None:
    """Take a step on a batch of padding, which changes nothing.

    Args:
        model: Compiled, before its first step.
        process: This process and the replicas that share the batch.
        rows: Rows of the whole batch.
        source_length: Tokens of each source row.
        target_length: Tokens of each target row.
    """

    def make_dataset(replicas=None, num_replicas=1):
        parts = 1 if replicas is None else len(replicas)
        return data.padding_dataset(
            rows // num_replicas,
            source_length,
            target_length,
            model.config.pad_id,
            parts,
            model.takes_alignment,
        )

    # Scalars such as the step counter change; all other state stays zero because the
    # gradients are zero.
    scalars = [value for value in model.optimizer.variables if not len(value.shape)]
    before = [value.numpy() for value in scalars]
    model.fit(
        process.distribute(make_dataset), steps_per_epoch=1, shuffle=False, verbose=0
    )
    for variable, value in zip(scalars, before, strict=True):
        variable.assign(value)
    model.reset_metrics()


def forget_peak() -> None:
    """Reset the peak of this process, if Linux allows it."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """Return the peak memory of this process since `forget_peak` in bytes."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def available_bytes() -> float:
    """Return the memory that this process may still take; infinite if unknown."""
    free = math.inf
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    # A container may have less memory than its machine.
    limit, used = (
        _read(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current")
    )
    if limit.strip().isdecimal() and used.strip().isdecimal():
        free = min(free, int(limit) - int(used))
    return free


def _too_large(model, process, rows, lengths, fitting) -> NotEnoughMemoryError:
    """Return an error that says which batch fits: `fitting` rows, or none if 0."""
    parts = process.num_replicas * model.accumulate_steps
    problem = (
        f"A batch of {rows:,} rows of {_spelled(lengths)} tokens on "
        f"{wording.count(process.num_replicas, 'replica')} does not fit into memory."
    )
    if not fitting:
        return NotEnoughMemoryError(
            f"{problem} Not even one row per replica does: lower --max_length, or "
            "use a smaller model."
        )
    tokens = fitting * max(lengths)
    return NotEnoughMemoryError(
        f"{problem} {fitting:,} rows would: pass "
        f"--max_tokens_per_replica={tokens // parts} to split batches into "
        f"microbatches, which gives the same result, or --tokens_per_batch={tokens}."
    )


def _gpus():
    return tf.config.list_logical_devices("GPU")


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
