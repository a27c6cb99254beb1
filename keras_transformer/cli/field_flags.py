"""Flags made from the fields of a dataclass, with the comment above a field as help."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from absl import flags

# A flag belongs to the module that asks for it, whose --help then shows it.
flags.disclaim_key_flags()

_FIELD = re.compile(r"    (\w+): ")
_COMMENT = re.compile(r"    # (.*)")


def define(
    config_class: type, *, only: Collection[str] = (), leave_out: Collection[str] = ()
) -> dict[str, flags.FlagHolder]:
    """Define a flag for each field, with the field's default, range and choices.

    The flag has the field's name unless the field's metadata names another under
    "flag"; None there means no flag. The metadata may have the "minimum" of a number,
    and "choices".

    Args:
        config_class: A dataclass of integers, numbers, truth values and strings.
        only: Fields that get a flag; empty: all.
        leave_out: Fields that get no flag.

    Returns:
        Flags by field name.
    """
    comments = field_comments(config_class)
    return {
        field.name: define_flag(field, field.default, comments[field.name])
        for field in fields_with_flags(config_class, only, leave_out)
    }


def values(holders: Mapping[str, flags.FlagHolder]) -> dict[str, Any]:
    """Return the value of each flag by field name."""
    return {name: holder.value for name, holder in holders.items()}


def fields_with_flags(
    config_class: type, only: Collection[str], leave_out: Collection[str]
) -> list[dataclasses.Field]:
    """Return the fields that get a flag; arguments as in `define`."""
    return [
        field
        for field in dataclasses.fields(config_class)
        if field.name not in leave_out
        and (not only or field.name in only)
        and field.metadata.get("flag", field.name) is not None
    ]


def define_flag(
    field: dataclasses.Field, default: Any, help_text: str
) -> flags.FlagHolder:
    """Define the flag of one field."""
    rules = field.metadata
    name = rules.get("flag", field.name)
    if "choices" in rules:
        return flags.DEFINE_enum(name, default, list(rules["choices"]), help_text)
    define_kind = {
        "bool": flags.DEFINE_bool,
        "int": flags.DEFINE_integer,
        "float": flags.DEFINE_float,
        "str": flags.DEFINE_string,
    }[str(field.type).removesuffix(" | None")]
    bounds = {"lower_bound": rules["minimum"]} if "minimum" in rules else {}
    return define_kind(name, default, help_text, **bounds)


def field_comments(config_class: type) -> dict[str, str]:
    """Return the comment above each field of a dataclass."""
    comments, lines = {}, []
    for line in inspect.getsource(config_class).splitlines():
        if match := _COMMENT.fullmatch(line):
            lines.append(match[1])
            continue
        if match := _FIELD.match(line):
            comments[match[1]] = " ".join(lines)
        lines = []
    return comments
