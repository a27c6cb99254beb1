"""The update of a train step: each replica changes its own copies of the weights.

Under a `tf.distribute` strategy, an optimizer of Keras 3.15 sums the gradients of all
replicas and updates the copies of all, which no XLA program of one replica can do. Here
gradients are summed first. The optimizer then runs once per replica, as if it were the
only one.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tensorflow.python.distribute import distribute_lib, values_util

Tensor = Any


def sum_over_replicas(values: Any) -> Any:
    """Return the sum of each tensor of a structure over all replicas."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1 or not tf.nest.flatten(values):
        return values
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


@tf.function(autograph=False)
def sum_from_outside(strategy: tf.distribute.Strategy, value: Tensor) -> Any:
    """Return the sum over all replicas of a value that each of them has.

    Args:
        strategy: That of the replicas; called outside of them.
        value: Any numeric tensor.

    Returns:
        The sum for each replica, see `tf.distribute.Strategy.run`.
    """
    # A copy is on the replica's own device.
    return strategy.run(lambda: sum_over_replicas(tf.identity(value)))


def form_group(strategy: tf.distribute.Strategy) -> None:
    """Let the replicas of one process sum once, before a check can fail.

    TensorFlow 2.21 forms their group at the first sum. If a failed check on one of them
    cuts that sum off, it cancels all later ones too.

    Args:
        strategy: Any; does nothing unless its replicas are devices of this process.
    """
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        sum_from_outside(strategy, tf.zeros([]))


def is_skipped(optimizer: Any, loss: Tensor, is_finite: Tensor) -> Tensor:
    """Return whether a step counts as skipped.

    A `LossScaleOptimizer` also skips steps while it searches for a scale with finite
    gradients. Those do not count, unless the scale is below 1: then the search has
    failed.

    Args:
        optimizer: The optimizer of the step, before its update.
        loss: Sum over the tokens of all replicas.
        is_finite: Whether the loss and all gradients are.
    """
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return ops.logical_not(is_finite)
    has_failed = ops.convert_to_tensor(optimizer.dynamic_scale) < 1.0
    return ops.logical_or(
        ops.logical_not(ops.isfinite(loss)),
        ops.logical_and(has_failed, ops.logical_not(is_finite)),
    )


def apply_if_finite(
    optimizer: Any,
    gradients: Sequence[Tensor],
    variables: Sequence[keras.Variable],
    is_finite: Tensor,
    *,
    may_branch: bool,
) -> None:
    """Apply gradients to this replica's copies of the variables, if they are finite.

    Otherwise nothing changes but a loss scale.

    Args:
        optimizer: Built on the variables.
        gradients: One for each variable, summed over all replicas, times the loss scale
            if the optimizer has one.
        variables: Weights.
        is_finite: Whether the loss and all gradients are.
        may_branch: Whether what is not applied is not computed. In a program of XLA a
            GPU would wait until the CPU has read the condition. A CPU takes 0.95 of the
            time, and does not hold the weights twice.
    """
    if not gradients:
        warnings.warn(
            "`fit` changes nothing: all weights of the model are frozen "
            "(`trainable=False`).",
            stacklevel=2,
        )
        return
    with _one_replica():
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            # It lowers the scale, and checks gradients, but not the loss.
            gradients = [tf.where(is_finite, each, np.inf) for each in gradients]
            # `apply` of Keras 3.15 would look for replicas.
            optimizer._common_apply(gradients, variables)
        elif may_branch:
            tf.cond(
                is_finite, lambda: optimizer.apply(gradients, variables), lambda: None
            )
        else:
            state = [*optimizer.variables, *variables]
            before = [tf.convert_to_tensor(each) for each in state]
            optimizer.apply(gradients, variables)
            for variable, old in zip(state, before, strict=True):  # in the same pass
                variable.assign(tf.where(is_finite, variable, old))


@contextlib.contextmanager
def _one_replica() -> Iterator[None]:
    """Let code that updates variables change only the copies of this replica.

    In the update of one replica, `tf.distribute` reads and writes its copy of each
    variable. TensorFlow 2.21 enters it only from outside of all replicas, one update
    after the other, so it is entered here.
    """
    if not tf.distribute.has_strategy():
        yield
        return
    replica = values_util.get_current_replica_id_as_int()
    strategy = tf.distribute.get_strategy()
    extended = strategy.extended
    extended.update = _update_own_copy
    extended._use_merge_call = lambda: False
    distribute_lib._push_per_thread_mode(
        distribute_lib._CrossReplicaThreadMode(strategy)
    )
    try:
        with distribute_lib.UpdateContext(replica):
            yield
    finally:
        distribute_lib._pop_per_thread_mode()
        del extended.update, extended._use_merge_call


def _update_own_copy(variable, function, args=(), kwargs=None, group=True):
    return function(variable, *args, **(kwargs or {}))
