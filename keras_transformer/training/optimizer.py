"""Adam with one fused kernel per variable, §5.3."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class Adam(keras.optimizers.Adam):
    """Keras's Adam with TensorFlow's fused kernel: same update, slots and config.

    The update of Keras 3.15 is a dozen operations, each of which reads and writes the
    whole variable; the kernel is one pass. The arguments are those of
    `keras.optimizers.Adam`.
    """

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Any) -> None:
        """Update one variable; see `keras.optimizers.Optimizer`."""
        if self.amsgrad:  # the kernel has no maximum of the velocities
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        dtype = variable.dtype
        step = tf.cast(tf.convert_to_tensor(self.iterations) + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=_handle(variable),
            m=_handle(self._momentums[index]),
            v=_handle(self._velocities[index]),
            beta1_power=tf.cast(self.beta_1, dtype) ** step,
            beta2_power=tf.cast(self.beta_2, dtype) ** step,
            lr=tf.cast(learning_rate, dtype),
            beta1=tf.cast(self.beta_1, dtype),
            beta2=tf.cast(self.beta_2, dtype),
            epsilon=tf.cast(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )


def _handle(variable: Any) -> Tensor:
    """Return the resource handle that the kernel takes."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return variable.handle
