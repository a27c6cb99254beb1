"""Options of `prepare` in one line."""

import dataclasses

from keras_transformer import data


def with_values(options=None, **values):
    """Return options with other values of fields, also of filters and encoding."""
    options = options or data.PreparationOptions()
    for name in ("filters", "encoding"):
        inner = getattr(options, name)
        names = {field.name for field in dataclasses.fields(inner)} & values.keys()
        changed = {each: values.pop(each) for each in names}
        values[name] = dataclasses.replace(inner, **changed)
    return dataclasses.replace(options, **values)
