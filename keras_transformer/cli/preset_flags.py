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
    for field in field_flags.fields_with_flags(config_class, only, leave_out):
        base = "none" if field.default is None else field.default
        text = f"{comments[field.name]} Default: {default.format(base)}."
        holders[field.name] = field_flags.define_flag(field, None, text)
    return holders


def given(holders: Mapping[str, flags.FlagHolder]) -> dict[str, Any]:
    """Return the values of the flags that were given, by field name."""
    values = field_flags.values(holders)
    return {name: value for name, value in values.items() if value is not None}


def override(config: Any, holders: Mapping[str, flags.FlagHolder]) -> Any:
    """Return the configuration with the values of the flags that were given."""
    return dataclasses.replace(config, **given(holders))
