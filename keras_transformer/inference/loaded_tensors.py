"""Tensors that are computed when an export is loaded, and are in no file.

What runs an export, in Python or in C++, initializes its resources after it has read
the variables. So these tensors are resources like lookup tables, and an export can
choose by the CPU that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

import tensorflow as tf

from keras_transformer import hardware


class LoadedTensor(tf.saved_model.experimental.TrackableResource):
    """A tensor that is set while an export is loaded, and stays until the process ends.

    Nothing tells it when the last signature that reads it is gone.

    Args:
        spec: Its shape and dtype.
    """

    def __init__(self, spec: tf.TensorSpec):
        self._spec = spec
        self._name = f"loaded_tensor_{uuid4()}"
        self.is_read = False
        super().__init__()
        self.resource_handle  # noqa: B018  makes it now, outside of graphs

    def read(self) -> tf.Tensor:
        """Return the value, in the current graph."""
        self.is_read = True
        value = tf.raw_ops.ReadVariableOp(
            resource=self.resource_handle, dtype=self._spec.dtype
        )
        return tf.ensure_shape(value, self._spec.shape)

    def set(self, value: tf.Tensor) -> None:
        """Set the value, in the current graph."""
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(
            dtype=self._spec.dtype, shape=self._spec.shape, shared_name=self._name
        )

    def _initialize(self):
        pass


class WithoutInt8(LoadedTensor):
    """Whether the CPU is slow with 8-bit integers, and tensors for such a CPU.

    Args:
        compute: Returns the tensors, in a graph; called where the CPU is slow.
    """

    def __init__(self, compute: Callable[[], Sequence[tf.Tensor]]):
        super().__init__(tf.TensorSpec([], tf.bool))
        self._compute = compute
        graph = tf.function(compute, autograph=False).get_concrete_function()
        self.inputs = graph.captured_inputs  # handles of variables
        self.tensors = [
            LoadedTensor(tf.TensorSpec(each.shape, each.dtype))
            for each in graph.outputs
        ]

    @property
    def parts(self) -> list[LoadedTensor]:
        """What an export must keep: itself, and the tensors that its graphs read."""
        return [self, *(each for each in self.tensors if each.is_read)]

    def fill(self) -> None:
        """Set all tensors, now."""
        self._fill(self.tensors)

    def _fill(self, wanted: Sequence[LoadedTensor]) -> None:
        for each, value in zip(self.tensors, self._compute(), strict=True):
            if each in wanted:
                each.set(value)

    def _initialize(self):
        is_slow = tf.logical_not(has_fast_int8())
        self.set(is_slow)

        def fill():
            self._fill(self.parts)
            return True

        tf.cond(is_slow, fill, lambda: False)


def has_fast_int8() -> tf.Tensor:
    """Return `hardware.has_fast_int8()` of what runs the graph; looks for no GPU."""
    is_told = tf.size(tf.io.matching_files(hardware.CPU_INFO)) > 0
    told = tf.cond(is_told, lambda: tf.io.read_file(hardware.CPU_INFO), lambda: "")
    return tf.strings.regex_full_match(told, rf"(?s).*\b{hardware.VNNI}\b.*")
