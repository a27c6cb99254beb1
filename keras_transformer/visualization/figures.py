"""Matplotlib figures as files."""

from __future__ import annotations

import io
import os

from matplotlib.figure import Figure

from keras_transformer import atomic_files


def save_png(figure: Figure, path: str | os.PathLike, dpi: int = 120) -> None:
    """Write a figure as PNG, aside and renamed.

    Args:
        figure: What to write.
        path: The file; its folder is made if it is absent.
        dpi: Dots per inch.
    """
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    atomic_files.atomic_write(path, content.getvalue())
