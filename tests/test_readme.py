"""The README's own example, run as it stands."""

import re
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_python_example_trains_and_translates(repository, tmp_path):
    """What a reader pastes into a file prints the translation it was trained on."""
    readme = (repository / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, tmp_path / "example.py"],
        env={"PYTHONPATH": str(repository), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.splitlines()[-1] == "eins zwei"
    statements = [line for line in example.splitlines() if line.strip()]
    assert len(statements) <= 11  # one import line and ten more


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
