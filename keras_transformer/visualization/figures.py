"""Saving Matplotlib figures."""

from __future__ import annotations

import io
import os

from matplotlib.figure import Figure

from keras_transformer import atomic_files


def save_png(figure: Figure, path: str | os.PathLike, dpi: int = 120) -> None:
    """Save a figure as PNG, atomically (temporary file, then rename).

    Args:
        figure: The figure.
        path: The file to write; its folder is created if absent.
        dpi: Dots per inch.
    """
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    atomic_files.atomic_write(path, content.getvalue())
