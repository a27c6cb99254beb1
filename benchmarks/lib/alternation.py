"""Running two programs alternating and comparing a number that both print."""

from __future__ import annotations

import json
import math
import shlex
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.lib import measure

# Number of lines of standard error in the message about a failed command.
_SHOWN_LINES = 5


def alternate(
    commands: Mapping[str, str],
    keys: Mapping[str, str],
    rounds: int,
    write: Callable[..., None],
) -> dict[str, list[float]]:
    """Run commands one after the other, round by round.

    Args:
        commands: Commands by name, in the order of a round; run without a shell.
        keys: By name, the key of the number in the command's result.
        rounds: Number of rounds.
        write: Called after each run with "round", "side" and the result.

    Returns:
        By name, the numbers of all rounds.

    Raises:
        ValueError: If a command does not print such a number above 0.
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
    """Run a command and return its standard output.

    Raises:
        ValueError: If the command is empty or has an unclosed quote.
        OSError: If it cannot be run, or its exit status is not 0.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ValueError(
            f"--{name} is not a valid command ({error}): {command}"
        ) from error
    if not arguments:
        raise ValueError(f"--{name} must be a command. Received: {command!r}.")
    try:
        ended = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise OSError(f"--{name} cannot be run ({error}): {command}") from error
    if ended.returncode:
        errors = ended.stderr.decode(errors="replace").strip().splitlines()
        raise ChildProcessError(
            f"--{name} ended with status {ended.returncode}: {command}\n"
            f"The end of its standard error: "
            + ("\n".join(errors[-_SHOWN_LINES:]) or "nothing")
        )
    return ended.stdout.decode(errors="replace")


def last_json_line(name: str, command: str, output: str) -> dict[str, Any]:
    """Return the last line that is a JSON object.

    Raises:
        ValueError: If there is no such line.
    """
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise ValueError(f"--{name} must print a line of JSON, but did not: {command}")


def number_of(name: str, line: Mapping[str, Any], key: str) -> float:
    """Return the number to compare.

    Raises:
        ValueError: If it is missing, or not a finite number above 0.
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
    """Return whether a key is a rate ("tokens_per_s") or a time ("median_step_s").

    Raises:
        ValueError: If the key is neither.
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
    """Return how many times faster ours is than the peer.

    Args:
        ours: One number per round.
        peer: One number per round.
        rate: Whether the numbers are rates (larger is faster) or times.

    Returns:
        "times_faster", the ratio of the medians; "min_times_faster" and
        "max_times_faster", the smallest and largest ratio of a round.
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
