"""Good text with noise, and OpusFilter with the configuration of the how-to."""

from __future__ import annotations

import collections
import pathlib
import random
import re
import subprocess

from keras_transformer import text_files

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/how_to/cleaning.md"
_NOISY_SHARE = 0.2

Pair = tuple[str, str]


def with_noise(good: list[Pair], draw: random.Random) -> tuple[list[str], list[Pair]]:
    """Spoil some pairs; return the kind of each pair, and the pairs."""
    makers = {
        "partner": lambda pair: (pair[0], draw.choice(good)[1]),
        "language": lambda pair: (pair[0], draw.choice(good)[0]),
        "copied": lambda pair: (pair[0], pair[0]),
        "cut": lambda pair: (pair[0], cut(pair[1])),
        "encoding": lambda pair: (pair[0], misread(pair[1])),
    }
    kinds, pairs = ["good"] * len(good), list(good)
    spoiled = draw.sample(range(len(good)), int(_NOISY_SHARE * len(good)))
    for number, index in enumerate(spoiled):
        kind = list(makers)[number % len(makers)]
        made = makers[kind](good[index])
        if made != good[index]:  # of one word, or without a letter to misread
            kinds[index], pairs[index] = kind, made
    return kinds, pairs


def cut(text: str) -> str:
    """Return the first half of a text's words."""
    words = text.split()
    return " ".join(words[: max(1, len(words) // 2)])


def misread(text: str) -> str:
    """Return a text of which the UTF-8 was read as cp1252."""
    return text.encode("utf-8").decode("cp1252", errors="replace")


def clean(folder: pathlib.Path, pairs: list[Pair]) -> None:
    """Write the pairs and run OpusFilter on them.

    Raises:
        RuntimeError: If it fails.
    """
    for name, side in zip(("raw.en", "raw.de"), zip(*pairs, strict=True), strict=True):
        text_files.write_lines(folder / name, side)
    blocks = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    (folder / "cleaning.yaml").write_text(blocks[0], encoding="utf-8")
    ended = subprocess.run(
        ["opusfilter", "cleaning.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"opusfilter failed: {ended.stderr.strip()[-500:]}")


def read_pairs(folder: pathlib.Path, step: str) -> list[Pair]:
    """Return the pairs that a step of the configuration wrote."""
    sides = [text_files.read_lines(folder / f"{step}.{name}") for name in ("en", "de")]
    return list(zip(*sides, strict=True))


def kinds_of(
    kept: list[Pair], pairs: list[Pair], kinds: list[str]
) -> collections.Counter[str]:
    """Count the kinds of the pairs that were kept."""
    left = collections.defaultdict(list)
    for pair, kind in zip(pairs, kinds, strict=True):
        left[pair].append(kind)
    return collections.Counter(left[pair].pop() for pair in kept)
