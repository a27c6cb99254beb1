"""Saving Matplotlib figures."""

from __future__ import annotations

import io
import os

from matplotlib.figure import Figure

from keras_transformer import atomic_files

_DOTS_PER_INCH = 120


def save_png(figure: Figure, path: str | os.PathLike) -> None:
    """Save a figure as PNG, atomically (temporary file, then rename).

    Args:
        figure: The figure.
        path: The file to write; its folder is created if absent.
    """
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=_DOTS_PER_INCH)
    atomic_files.atomic_write(path, content.getvalue())
