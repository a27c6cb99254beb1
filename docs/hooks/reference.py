"""Pages of the site that are made from the code when the site is built.

MkDocs calls `on_files`. Flags come from each program's own `--helpxml`, presets and
public names from the package, so these pages cannot go stale.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
# By page: its title, and the folders whose programs it lists.
PROGRAM_PAGES = {
    "reference/bin.md": ("Programs in bin/", ("bin",)),
    "reference/export.md": ("Programs in export/", ("export",)),
    "reference/measuring.md": ("Measuring programs", ("benchmarks", "robustness")),
}
# Long pages with many headings: a search shows pages that people wrote first. The table
# of presets needs the room of the table of contents.
FRONT_MATTER = "---\nsearch: {boost: 0.3}\nhide: [%s]\n---\n\n"
# What is code in prose: what is marked already, flags, with a value or not, programs.
CODE = re.compile(
    r"(`[^`]+`|--\w[\w-]*(?:=[\w./:]*\w)?|\b(?:bin|export|benchmarks)/\w+\.py\b)"
)
# A flag in the text of a page.
FLAG = re.compile(r"(?<=[\s>(])--\w+")
# A cell of a table that holds a date.
DATED = re.compile(r"(?<=<td>)[^<]*\d{4}-\d\d-\d\d[^<]*(?=</td>)")


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag of a program, as its help shows it."""

    name: str
    default: str
    meaning: str


def on_files(files, config):
    """Add the generated pages to those of docs/ (a hook of MkDocs)."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        front_matter = FRONT_MATTER % ("toc" if path == "reference/presets.md" else "")
        files.append(File.generated(config, path, content=front_matter + text))
    return files


def on_page_content(html, **_):
    """Keep each flag, and each date of a table, on one line (a hook of MkDocs)."""
    on_one_line = r'<span class="kt-line">\g<0></span>'

    def kept(cell_text):
        return re.sub(r"\d{4}-\d\d-\d\d", on_one_line, cell_text[0])

    return FLAG.sub(on_one_line, DATED.sub(kept, html))


def pages() -> dict[str, str]:
    """Return the text of every generated page by its path in docs/."""
    made = {path: programs_page(*page) for path, page in PROGRAM_PAGES.items()}
    made["reference/presets.md"] = presets_page()
    made["reference/python.md"] = python_page()
    return made


def programs_page(title: str, folders: tuple[str, ...]) -> str:
    """Return the page with every program of some folders."""
    sections = [f"# {title}\n"]
    if "bin" in folders or "export" in folders:
        sections.append(
            "After `pip install .` each program is also a command, such as `kt-train`. "
            "Every program takes `--help` and, except `export/run_saved_model.py`, "
            "`--flagfile=FILE` (a flag a line) and `--json`, which prints a summary "
            "as the last line. Bad input ends a program with one line and exit "
            "status 1.\n"
        )
    for path in programs(*folders):
        sections.append(program_section(path))
    return "\n".join(sections)


def programs(*folders: str) -> list[str]:
    """Return the programs of folders, as paths from the root, in order."""
    return [
        f"{folder}/{path.name}"
        for folder in folders
        for path in sorted((ROOT / folder).glob("*.py"))
        if is_program(path.read_text(encoding="utf-8"))
    ]


def is_program(source: str) -> bool:
    """Return whether this is the source of a program that has flags."""
    has_flags = "flags.DEFINE" in source or "ArgumentParser(" in source
    return has_flags and '__name__ == "__main__"' in source


def program_section(path: str) -> str:
    """Return what a program is for, and a table of its flags."""
    lines = [f"## `{path}`\n", f"{as_markdown(docstring(path))}\n"]
    flags = flags_of(path)
    if flags:
        lines += ["| flag | meaning |", "|---|---|"]
        lines += [f"| `--{flag.name}` | {explained(flag)} |" for flag in flags]
    return "\n".join(lines) + "\n"


def docstring(path: str) -> str:
    """Return the docstring of a program, without running it."""
    return ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8"))) or ""


def as_markdown(text: str) -> str:
    """Return a docstring whose indented lines are fenced blocks."""
    lines, is_open = [], False
    for line in text.splitlines():
        is_code = line.startswith("    ")
        if is_code and not is_open:
            lines.append("```bash")
            is_open = True
        elif is_open and line and not is_code:
            while lines and not lines[-1]:
                lines.pop()
            lines += ["```", ""]
            is_open = False
        lines.append(continued(line[4:]) if is_code else marked(line))
    if is_open:
        lines.append("```")
    return "\n".join(lines)


def continued(line: str) -> str:
    """Return a command in lines as the source has it: Python joins them at `\\`."""
    return line.replace(" " * 9, " \\\n    ")


def flags_of(path: str) -> list[Flag]:
    """Return the flags of a program that are its own or shared with others of ours."""
    source = (ROOT / path).read_text(encoding="utf-8")
    if "ArgumentParser(" in source:
        return argparse_flags(source)
    result = subprocess.run(
        [sys.executable, path, "--helpxml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if not result.stdout.startswith("<?xml"):
        raise RuntimeError(f"{path} --helpxml failed: {result.stderr[-500:]}")
    return [
        Flag(
            name=flag.findtext("name"),
            default=(flag.findtext("default") or "").removeprefix("None"),
            meaning=meaning(flag),
        )
        for flag in ElementTree.fromstring(result.stdout).iter("flag")
        if flag.findtext("key") == "yes" and flag.findtext("name") != "json"
    ]


def meaning(flag: ElementTree.Element) -> str:
    """Return the help of a flag, with the values that it takes if these are fixed."""
    text = " ".join((flag.findtext("meaning") or "").split())
    text = re.sub(r"^<[\w|]+>: ", "", text)  # the values again, from absl
    text = text.removesuffix("; repeat this option to specify a list of values")
    values = [value.text for value in flag.iter("enum_value")]
    return f"{text} One of: {', '.join(values)}." if values else text


def argparse_flags(source: str) -> list[Flag]:
    """Return the flags of a program that uses `argparse`, read from its source."""
    flags = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == (
            "add_argument"
        ):
            options = {
                word.arg: ast.literal_eval(word.value)
                for word in node.keywords
                if isinstance(word.value, ast.Constant)
            }
            name = ast.literal_eval(node.args[0]).removeprefix("--")
            default = options.get("default")
            flags.append(
                Flag(
                    name,
                    "" if default is None else str(default),
                    options.get("help", ""),
                )
            )
    return flags


def explained(flag: Flag) -> str:
    """Return what a flag means and its default, where it has one."""
    default = f" Default: `{flag.default}`." if flag.default else ""
    return cell(flag.meaning) + default


def cell(text: str) -> str:
    """Return text that is safe in a cell of a table; HTML and pipes are escaped."""

    def escaped(part: str) -> str:
        for character in "\\*_<>[]|":
            part = part.replace(character, f"&#{ord(character)};")
        return part

    return marked(text, escaped)


def marked(text: str, escape: Callable[[str], str] = str) -> str:
    """Mark flags, programs and the like as code; escape the rest."""
    parts = CODE.split(text)
    for number, part in enumerate(parts):
        parts[number] = f"`{part.strip('`')}`" if number % 2 else escape(part)
    return "".join(parts)


def presets_page() -> str:
    """Return the page with every preset and all values in which it differs."""
    from keras_transformer import presets

    lines = [
        "# Presets\n",
        "`--preset` of `bin/train.py` chooses one; every value has a flag of its own "
        "(`--d_model`, `--dropout_rate`, ...). `python bin/train.py --preset=help` "
        "prints the table. N: layers in encoder and in decoder, such as 12+1 where "
        "they differ. h: heads. P_drop: dropout. Words: the vocabulary that the preset "
        "is meant for "
        "(`bin/prepare_data.py --vocab_size`). The corpus decides the vocabulary, "
        "and with it the parameters, which are counted here with the vocabulary of "
        "the column, and a parser's 100 symbols.\n",
        presets.table(),
        "\n## All values of base\n",
    ]
    base = presets.get("base")
    parts = ("model", "training", "decoding")
    for part in parts:
        lines += values_table(part, getattr(base, part))
    lines.append("## What the others change\n")
    for name in presets.names():
        preset = presets.get(name)
        changes = [
            f"`{field}={value!r}`"
            for part in parts
            for field, value in dataclasses.asdict(getattr(preset, part)).items()
            if value != getattr(getattr(base, part), field)
        ]
        if name != "base":
            lines.append(f"* **{name}**: {', '.join(changes) or 'nothing'}.")
    return "\n".join(lines) + "\n"


def values_table(part: str, config) -> list[str]:
    """Return the lines of a table with every field of a configuration."""
    from keras_transformer.cli.flags import field_comments

    comments = field_comments(type(config))
    rows = [
        f"| `{name}` | `{value!r}` | {cell(comments.get(name, ''))} |"
        for name, value in dataclasses.asdict(config).items()
    ]
    title = f"### {part.capitalize()}: `kt.{type(config).__name__}`\n"
    return [title, "| field | base | meaning |", "|---|---|---|", *rows, ""]


def python_page() -> str:
    """Return the page with every public name, for mkdocstrings to fill in."""
    import keras_transformer as kt

    lines = [
        "# Python names\n",
        "`import keras_transformer as kt` gives the names below. They are loaded at "
        "first use, so the import itself is quick. Import the package before "
        "TensorFlow and Keras: it chooses TensorFlow's CPU kernels.\n",
        "The examples have NumPy as `np`, TensorFlow as `tf`, a small `model` with its "
        "`tokenizer`, `translator` and `parser`, text in `train.en`, `train.de`, "
        "`valid.en` and `valid.de`, and the folders of the [tutorial](../tutorial.md)."
        "\n",
        "## In `kt`\n",
    ]
    for name in kt.__all__:
        if name in kt._NAMES:
            lines += [f"### `kt.{name}`\n", *directive(f"{kt._NAMES[name]}.{name}", 4)]
    shown = {f"keras_transformer.{kt._NAMES[name]}.{name}" for name in kt._NAMES}
    for name in kt.__all__:
        if name in kt._MODULES:
            module = f"keras_transformer.{kt._MODULES[name]}"
            lines.append(f"## `kt.{name}`\n")
            for path in public_names(module):
                if path in shown:
                    continue
                shown.add(path)
                lines += directive(path.removeprefix("keras_transformer."), 3)
    return "\n".join(lines) + "\n"


def directive(path: str, heading_level: int) -> list[str]:
    """Return the lines that mkdocstrings replaces by the documentation of a name."""
    return [
        f"::: keras_transformer.{path}",
        "    options:",
        f"      heading_level: {heading_level}\n",
    ]


def public_names(module: str) -> list[str]:
    """Return where the public names of a module are defined, as dotted paths.

    These are what a package's `__init__` offers in `__all__`, or the public classes and
    functions of a module; a package that offers none has those of its modules.
    """
    path = ROOT / module.replace(".", "/")
    if not path.is_dir():
        return defined_names(module)
    loaded_at_use = getattr(importlib.import_module(module), "_MODULE_OF", {})
    if loaded_at_use:
        return [f"{module}.{place}.{name}" for name, place in loaded_at_use.items()]
    tree = ast.parse((path / "__init__.py").read_text(encoding="utf-8"))
    offered = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        and node.module.startswith("keras_transformer")
        for alias in node.names
    }
    if offered:
        return list(offered.values())
    return [
        name
        for file in sorted(path.glob("[a-z]*.py"))
        for name in defined_names(f"{module}.{file.stem}")
    ]


def defined_names(module: str) -> list[str]:
    """Return the dotted paths of a module's public classes and functions."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    return [
        f"{module}.{node.name}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
    ]
