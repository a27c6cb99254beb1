"""Adam whose update goes over each variable once, §5.3."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_transformer")
class Adam(keras.optimizers.Adam):
    """Keras's Adam by TensorFlow's own kernel: the same update, slots and config.

    Keras 3.15 makes the update of a dozen operations, each of which reads and writes as
    much as the variable holds; the kernel does it all in one go.

    Its arguments are those of `keras.optimizers.Adam`.
    """

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Any) -> None:
        """Update one variable; see `keras.optimizers.Optimizer`."""
        if self.amsgrad:  # the kernel knows no maximum of the velocities
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
    """Return what the kernel takes; of a replica's variable, within its update."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return variable.handle
