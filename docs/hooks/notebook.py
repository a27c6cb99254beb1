"""Write the Python guide and examples as notebooks: python docs/hooks/notebook.py

Run it after a change of docs/python.md or of an example; tests compare them. Fenced
Python blocks become cells of code, except those marked `.notest`; the rest becomes
cells of text.
"""

from __future__ import annotations

import json
import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = DOCS.parent / "examples"
# The examples that are notebooks in examples/notebooks/, too.
NAMES = (
    "train_with_fit",
    "other_attention",
    "callback_and_schedule",
    "fine_tune_published",
)
# For Colab; commands that an example needs follow.
SETUP = """\
# The address of your copy of the repository.
REPOSITORY = "https://github.com/OWNER/keras_transformer"
!git clone -q {REPOSITORY} keras_transformer
%cd keras_transformer
%pip install -q .
"""
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


def page_of(example: str) -> str:
    """Return the source of an example as a Markdown page.

    Comments at the margin become text, and so does the docstring without its commands.
    The last of these starts the example; those before prepare it, in the first cell.
    """
    docstring, source = example.removeprefix('"""').split('"""\n', 1)
    title, commands, text = docstring.split("\n\n", 2)
    *commands, _ = commands.splitlines()
    setup = SETUP + "".join(f"!{command.strip()}\n" for command in commands)
    page = [f"# {title.rstrip('.')}\n\n{text}", _fenced(setup)]
    source = source.replace('if __name__ == "__main__":\n    main()\n', "main()\n")
    parts = re.split(r"^((?:# .*\n)+)", source, flags=re.MULTILINE)
    for number, part in enumerate(parts):
        is_text = number % 2
        page.append(re.sub("(?m)^# ", "", part) if is_text else _fenced(part))
    return "".join(page)


def _fenced(code: str) -> str:
    return "```python\n" + code.strip() + "\n```\n"


if __name__ == "__main__":
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    (DOCS / "python.ipynb").write_text(notebook(page), encoding="utf-8")
    for name in NAMES:
        example = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        text = notebook(page_of(example))
        (EXAMPLES / "notebooks" / f"{name}.ipynb").write_text(text, encoding="utf-8")
