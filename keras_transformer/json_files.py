"""JSON files that one program writes and others read, with a format version."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

from keras_transformer import atomic_files


def write(path: pathlib.Path, values: Any, *, ascii_only: bool = True) -> None:
    """Write JSON atomically, indented."""
    text = json.dumps(values, indent=2, ensure_ascii=ascii_only)
    atomic_files.atomic_write(path, text + "\n")


def read(
    path: pathlib.Path,
    version: int,
    remedy: str,
    parse: Callable[[dict[str, Any]], Any] = dict,
) -> Any:
    """Read a JSON object whose `format_version` must be `version`.

    Args:
        path: The file, which exists.
        version: The version that this program reads.
        remedy: What to do about a damaged or other file, such as "prepare it again".
        parse: Makes the result from the object.

    Raises:
        ValueError: If the file is damaged, also if `parse` finds it so, or has another
            version.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = values["format_version"]
        if found == version:
            return parse(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}). Copy it again, or {remedy}."
        ) from error
    raise ValueError(
        f"{path} has format version {found}; this program reads version {version}. Use "
        f"the release that wrote it, or {remedy}."
    )
