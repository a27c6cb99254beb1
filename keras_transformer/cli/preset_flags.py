"""One flag for every field of a configuration, so that presets can be overridden."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from absl import flags

_FIELD = re.compile(r"    (\w+): ")
_COMMENT = re.compile(r"    # (.*)")


def define(
    config_class: type, leave_out: Collection[str] = ()
) -> dict[str, flags.FlagHolder]:
    """Define a flag for every field, with the comment above the field as its help.

    Args:
        config_class: A dataclass of integers, numbers, truth values and strings.
        leave_out: Fields that get no flag.

    Returns:
        By field name, a flag whose value is None unless it was given.
    """
    comments = field_comments(config_class)
    return {
        field.name: _define(field, comments.get(field.name, ""))
        for field in dataclasses.fields(config_class)
        if field.name not in leave_out
    }


def override(config: Any, holders: Mapping[str, flags.FlagHolder]) -> Any:
    """Return the configuration with the values of the flags that were given."""
    given = {name: holder.value for name, holder in holders.items()}
    return dataclasses.replace(
        config, **{name: value for name, value in given.items() if value is not None}
    )


def field_comments(config_class: type) -> dict[str, str]:
    """Return the comment above each field of a dataclass: one place to explain it."""
    comments, lines = {}, []
    for line in inspect.getsource(config_class).splitlines():
        if match := _COMMENT.fullmatch(line):
            lines.append(match[1])
            continue
        if match := _FIELD.match(line):
            comments[match[1]] = " ".join(lines)
        lines = []
    return comments


def _define(field: dataclasses.Field, comment: str) -> flags.FlagHolder:
    define_kind = {
        "bool": flags.DEFINE_bool,
        "int": flags.DEFINE_integer,
        "float": flags.DEFINE_float,
        "str": flags.DEFINE_string,
    }[str(field.type).removesuffix(" | None")]
    base = "none" if field.default is None else field.default
    text = f"{comment or field.name + '.'} Default: the preset's; in base: {base}."
    return define_kind(field.name, None, text)
