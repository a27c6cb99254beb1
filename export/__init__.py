"""Export and serving programs; installed as `keras_transformer.export`."""
