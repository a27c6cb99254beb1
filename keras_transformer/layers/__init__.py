"""The components of the paper as Keras layers, one per file.

Begin reading with `attention` (§3.2), then `encoder` and `decoder` (§3.1). Search,
caches and weight layouts for fast inference are in `inference/`. The layers are also
names of this package, `kt.layers.Encoder`, loaded when they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

from keras_transformer import saved_classes

_FOLDER = "layers."
_MODULE_OF = {
    name: module.removeprefix(_FOLDER)
    for name, module in saved_classes.MODULES.items()
    if module.startswith(_FOLDER)
}
_MODULE_OF |= dict.fromkeys(("causal_mask", "key_mask", "padding_mask"), "masks")

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
