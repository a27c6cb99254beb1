"""Running two programs by turns and comparing a number that both print."""

from __future__ import annotations

import json
import math
import shlex
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.lib import measure

# Lines of a failed command's standard error that its message shows.
_SHOWN_LINES = 5


def alternate(
    commands: Mapping[str, str],
    keys: Mapping[str, str],
    rounds: int,
    write: Callable[..., None],
) -> dict[str, list[float]]:
    """Run commands one after the other, round after round.

    Args:
        commands: By name, in the order of a round. No shell reads them.
        keys: By name, the key of the number.
        rounds: How often each runs.
        write: Called after each run with "round", "side" and what the command printed.

    Returns:
        By name, the numbers of its rounds.

    Raises:
        ValueError: If a command prints no such number above 0.
        OSError: If a command cannot be run, or fails.
    """
    values: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(1, rounds + 1):
        for name, command in commands.items():
            line = last_json_line(name, command, run(name, command))
            values[name].append(number_of(name, line, keys[name]))
            write(**{"round": number, "side": name, **line})
    return values


def run(name: str, command: str) -> str:
    """Run a command to its end and return its standard output.

    Raises:
        ValueError: If the command is empty or a quote in it is open.
        OSError: If it cannot be run, or ends with another status than 0.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"--{name} is no command ({error}): {command}") from error
    if not arguments:
        raise ValueError(f"--{name} must be a command. Received: {command!r}.")
    try:
        ended = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise OSError(f"--{name} cannot be run ({error}): {command}") from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise ChildProcessError(
            f"--{name} ended with status {ended.returncode}: {command}\n"
            f"The end of its standard error: "
            + ("\n".join(said[-_SHOWN_LINES:]) or "nothing")
        )
    return ended.stdout.decode(errors="replace")


def last_json_line(name: str, command: str, output: str) -> dict[str, Any]:
    """Return the last line of an output that is a JSON object.

    Raises:
        ValueError: If there is none.
    """
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise ValueError(f"--{name} must print a line of JSON; it did not: {command}")


def number_of(name: str, line: Mapping[str, Any], key: str) -> float:
    """Return the number that is compared.

    Raises:
        ValueError: If it is absent, or no finite number above 0.
    """
    value = line.get(key)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise ValueError(
            f"The last line of --{name} must have a number above 0 as {key!r}. "
            f"Received: {value!r}; its keys are {', '.join(line) or 'none'}."
        )
    return value


def is_rate(key: str) -> bool:
    """Whether more is faster: "tokens_per_s" is a rate, "median_step_s" a time.

    Raises:
        ValueError: If the key says neither.
    """
    if not key.endswith(("_s", "seconds")):
        raise ValueError(
            "`key` must end in `per_s`, for a rate, or in `_s` or `seconds`. "
            f"Received: key={key}."
        )
    return key.endswith("per_s")


def times_faster(
    ours: Sequence[float], peer: Sequence[float], *, rate: bool
) -> dict[str, float]:
    """Return how many times faster ours is: of the medians, and from round to round.

    Args:
        ours: A number a round.
        peer: As many.
        rate: Whether the numbers are rates: the larger, the faster.

    Returns:
        "times_faster", the ratio of the medians; "min_times_faster" and
        "max_times_faster", of the rounds.
    """

    def ratio(own, other):
        return own / other if rate else other / own

    rounds = [ratio(*pair) for pair in zip(ours, peer, strict=True)]
    medians = ratio(statistics.median(ours), statistics.median(peer))
    return {
        "times_faster": measure.rounded(medians, 4),
        "min_times_faster": measure.rounded(min(rounds), 4),
        "max_times_faster": measure.rounded(max(rounds), 4),
    }
