"""Tensors that are computed when an export is loaded, and are in no file.

What runs an export, in Python or in C++, initializes its resources after it has read
the variables. So one resource, like a lookup table, sets these tensors, and an export
can choose by the CPU that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

import tensorflow as tf

from keras_transformer import hardware

# A name is of one device, and TensorFlow may choose another one for each graph.
_DEVICE = "CPU:0"


class LoadedTensor:
    """A tensor that graphs set and read by a name, and that none of them holds.

    A resource each would be an object of an export with three functions, and loading
    takes 10 ms for it. Nothing tells when the last signature that reads it is gone, so
    it stays until the process ends.

    Args:
        spec: Its shape and dtype.
    """

    def __init__(self, spec: tf.TensorSpec):
        self._spec = spec
        self._name = f"loaded_tensor_{uuid4()}"
        self.is_read = False

    def read(self) -> tf.Tensor:
        """Return the value, in the current graph."""
        self.is_read = True
        with tf.device(_DEVICE):
            value = tf.raw_ops.ReadVariableOp(
                resource=self._handle(), dtype=self._spec.dtype
            )
        return tf.ensure_shape(value, self._spec.shape)

    def set(self, value: tf.Tensor) -> None:
        """Set the value, in the current graph."""
        with tf.device(_DEVICE):
            tf.raw_ops.AssignVariableOp(resource=self._handle(), value=value)

    def _handle(self) -> tf.Tensor:
        return tf.raw_ops.VarHandleOp(
            dtype=self._spec.dtype, shape=self._spec.shape, shared_name=self._name
        )


class WithoutInt8(tf.saved_model.experimental.TrackableResource):
    """Whether the CPU is slow with 8-bit integers, and tensors for such a CPU.

    An export must keep it. It sets the tensors that graphs read.

    Args:
        compute: Returns the tensors, in a graph; called where the CPU is slow.
    """

    def __init__(self, compute: Callable[[], list[tf.Tensor]]):
        self._name = f"without_int8_{uuid4()}"
        super().__init__()
        self.resource_handle  # noqa: B018  makes it now, outside of graphs
        self._compute = compute
        graph = tf.function(compute, autograph=False).get_concrete_function()
        self.inputs = graph.captured_inputs  # handles of variables
        # A function, because TensorFlow wraps lists in attributes.
        tensors = [
            LoadedTensor(tf.TensorSpec(each.shape, each.dtype))
            for each in graph.outputs
        ]
        self._tensors = lambda: tensors

    @property
    def tensors(self) -> list[LoadedTensor]:
        """The tensors."""
        return self._tensors()

    def read(self) -> tf.Tensor:
        """Return whether the CPU is slow, bool, in the current graph."""
        return tf.raw_ops.ReadVariableOp(resource=self.resource_handle, dtype=tf.bool)

    def fill(self) -> None:
        """Set all tensors, now."""
        self._fill(self.tensors)

    def _fill(self, wanted: Sequence[LoadedTensor]) -> None:
        for each, value in zip(self.tensors, self._compute(), strict=True):
            if each in wanted:
                each.set(value)

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name=self._name)

    def _initialize(self):
        is_slow = tf.logical_not(has_fast_int8())
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=is_slow)

        def fill():
            self._fill([each for each in self.tensors if each.is_read])
            return True

        tf.cond(is_slow, fill, lambda: False)


def has_fast_int8() -> tf.Tensor:
    """Return `hardware.has_fast_int8()` of what runs the graph; looks for no GPU."""
    is_told = tf.size(tf.io.matching_files(hardware.CPU_INFO)) > 0
    told = tf.cond(is_told, lambda: tf.io.read_file(hardware.CPU_INFO), lambda: "")
    return tf.strings.regex_full_match(told, rf"(?s).*\b{hardware.VNNI}\b.*")
