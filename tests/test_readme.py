"""The Python examples of the documents, run as they stand."""

import importlib.util
import re
import subprocess
import sys

import pytest


@pytest.mark.long
def test_the_python_example_trains_and_translates(repository, tmp_path):
    """What a reader pastes into a file prints the translation it was trained on."""
    (example,) = python_blocks(repository / "README.md")
    assert run_as_a_file(example, repository, tmp_path)[-1] == "eins zwei"
    statements = [line for line in example.splitlines() if line.strip()]
    assert len(statements) <= 11  # one import line and ten more


@pytest.mark.long
def test_the_python_guide_runs_from_top_to_bottom(repository, tmp_path):
    """Pipeline, callbacks, search, layers, saving: as its notebook has it."""
    notebook = (repository / "docs" / "python.ipynb").read_text(encoding="utf-8")
    code = notebook_writer(repository).code(notebook)
    assert code.count("import keras_transformer as kt") == 1
    lines = run_as_a_file(code, repository, tmp_path)
    assert "['eins zwei', 'zwei eins']" in lines
    assert lines[-3:] == ["(3, 2)", "True", "1"]  # the classifier, two variants
    assert (tmp_path / "model.keras").exists()


def test_the_notebook_is_the_guide(repository):
    """Written by `python docs/hooks/notebook.py`."""
    docs, writer = repository / "docs", notebook_writer(repository)
    page = (docs / "python.md").read_text(encoding="utf-8")
    notebook = (docs / "python.ipynb").read_text(encoding="utf-8")
    assert notebook == writer.notebook(page)
    blocks = [block.rstrip("\n") for block in python_blocks(docs / "python.md")]
    assert writer.code(notebook) == "\n\n".join(blocks)


def notebook_writer(repository):
    """Return the module that makes the notebook."""
    path = repository / "docs" / "hooks" / "notebook.py"
    spec = importlib.util.spec_from_file_location("notebook", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python_blocks(page):
    """Return the Python examples of a page, in its order; `.notest` leaves one out."""
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def run_as_a_file(code, repository, folder):
    """Return the lines that Python code prints in a process of its own."""
    (folder / "example.py").write_text(code, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "example.py"],
        cwd=folder,
        env={"PYTHONPATH": str(repository), "PATH": "", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.splitlines()


def test_every_file_of_the_section_map_exists(repository):
    readme = (repository / "README.md").read_text(encoding="utf-8")
    section = readme.split("## From the paper to the code")[1].split("\n## ")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", section)
    assert len(named) > 15
    for name in set(named) - {"keras_transformer/"}:
        assert (repository / "keras_transformer" / name).exists(), name


def test_containers_that_translate_lines_are_given_standard_input(repository):
    """Without -i, Docker closes it, and nothing is translated."""
    files = [repository / "Dockerfile", *repository.glob("*.md")]
    files += repository.glob("docs/**/*.md")
    commands = [
        line
        for file in files
        for line in file.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
        if re.search(r"docker run.*kt-(translate|parse|client)", line)
    ]
    assert commands
    for command in commands:
        assert " -i " in command or "--input" in command, command


def test_the_readme_is_short_and_its_links_lead_to_files(repository):
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 130
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", readme)
    assert len(links) > 8
    for link in links:
        assert (repository / link).is_file(), link
