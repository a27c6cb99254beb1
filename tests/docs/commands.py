"""The shell commands that the documents show."""

import dataclasses
import re
import shlex

# A fenced block of shell.
_BLOCK = re.compile(r"^```(bash|sh|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"(?:bin|export|benchmarks|robustness|examples)/\w+\.py")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of a page, with its continuation lines joined.

    Attributes:
        page: Path of the page from the root of the checkout.
        text: The command, without a comment.
    """

    page: str
    text: str

    @property
    def uses(self):
        """The programs of ours that it starts, each with the names of its flags."""
        found = []
        for word in shlex.split(self.text):
            if _PROGRAM.fullmatch(word):
                found.append((word, []))
            elif word == "|":
                found.append(("", []))
            elif found and (flag := re.match(r"--(\w+)", word)):
                found[-1][1].append(flag[1])
        return [(program, flags) for program, flags in found if program]


def pages(repository):
    """Return the documents that show commands, as paths from the root."""
    found = [*repository.glob("*.md"), *sorted(repository.glob("docs/**/*.md"))]
    found += sorted(repository.glob("benchmarks/*.md"))
    return [str(page.relative_to(repository)) for page in found]


def commands(repository, page):
    """Return the commands of a page, in order."""
    text = (repository / page).read_text(encoding="utf-8")
    found = []
    for kind, block in _BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        if kind == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            line = re.sub(r"(^|\s+)#\s.*", "", line)
            if line.strip():
                found.append(Command(page, " ".join(line.split())))
    return found


def commands_of_docstring(program, docstring):
    """Return the commands that a program's docstring shows."""
    lines = docstring.replace("\\\n", " ").splitlines()
    return [
        Command(program, " ".join(line.split()))
        for line in lines
        if line.startswith("    ") and _PROGRAM.search(line) and shlex.split(line)
    ]
