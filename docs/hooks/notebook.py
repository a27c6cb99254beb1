"""Write the Python guide as a notebook: python docs/hooks/notebook.py

Run it after a change of docs/python.md; a test compares the two. Fenced Python blocks
become cells of code, except those marked `notest`; the rest becomes cells of text.
"""

from __future__ import annotations

import json
import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[1]
_CODE = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def notebook(page: str) -> str:
    """Return the text of a notebook with the content of a Markdown page."""
    cells = []
    for number, part in enumerate(_CODE.split(page)):
        if not part.strip():
            continue
        lines = part.strip("\n").splitlines(keepends=True)
        cell = {"cell_type": "markdown", "metadata": {}, "source": lines}
        if number % 2:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
        cells.append(dict(sorted(cell.items())))
    metadata = {"language_info": {"name": "python"}}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def code(text: str) -> str:
    """Return all code of a notebook, in order."""
    cells = json.loads(text)["cells"]
    return "\n\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    )


if __name__ == "__main__":
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    (DOCS / "python.ipynb").write_text(notebook(page), encoding="utf-8")
