"""One flag for every field of a preset, so that a command can override it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from absl import flags

from keras_transformer.cli import field_flags

flags.disclaim_key_flags()


def define(
    config_class: type,
    *,
    only: Collection[str] = (),
    leave_out: Collection[str] = (),
    default: str = "the preset's; in base: {}",
) -> dict[str, flags.FlagHolder]:
    """Define a flag for every field, with the comment above the field as its help.

    Args:
        config_class: A dataclass of integers, numbers, truth values and strings.
        only: Same as in `field_flags.define`.
        leave_out: Same as in `field_flags.define`.
        default: What the help says of the default; {} is the field's.

    Returns:
        Flags by field name. The value of a flag is None unless it is given.
    """
    comments = field_flags.field_comments(config_class)
    holders = {}
    for field in dataclasses.fields(config_class):
        is_wanted = field.name not in leave_out and (not only or field.name in only)
        if is_wanted and field_flags.has_flag(field):
            base = "none" if field.default is None else field.default
            text = f"{comments[field.name]} Default: {default.format(base)}."
            holders[field.name] = field_flags.define_flag(field, None, text)
    return holders


def override(config: Any, holders: Mapping[str, flags.FlagHolder]) -> Any:
    """Return the configuration with the values of the flags that were given."""
    given = {
        name: value
        for name, value in field_flags.values(holders).items()
        if value is not None
    }
    return dataclasses.replace(config, **given)
