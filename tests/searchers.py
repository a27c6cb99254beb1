"""The translator or parser of a run, as it was trained."""

from keras_transformer.opening import open_model


def load_searcher(path, checkpoint=None, **options):
    """Load a `Translator` or a `Parser`; options as in `open_model`."""
    return open_model(path, None, checkpoint=checkpoint, **options).searcher
