"""The programs; installed as `keras_transformer.bin`."""
