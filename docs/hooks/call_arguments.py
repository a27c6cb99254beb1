"""Shows the call arguments of a layer as a list (an extension of mkdocstrings)."""

import griffe


class CallArguments(griffe.Extension):
    """Makes "Call arguments:", which Griffe does not know, a section that it does."""

    def on_instance(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace(
                "Call arguments:\n", "Other Parameters: Call arguments:\n"
            )
