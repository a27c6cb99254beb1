"""Imported first by Beam's worker processes: imports TensorFlow without its messages.

export/translate_beam.py names this module with Beam's option `--beam_plugin`.
"""

from keras_transformer.cli import startup

startup.import_tensorflow(compiles=True)
