"""Two CPU devices, for the test that splits batches between replicas."""

import contextlib

import tensorflow as tf

# Too late once TensorFlow has run something; who ran it may have asked for two as well.
with contextlib.suppress(RuntimeError):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
