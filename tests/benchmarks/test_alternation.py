"""Running two commands alternating, and the ratio of their results."""

import json
import shlex
import subprocess
import sys

import pytest

from benchmarks.lib import alternation


def command(*statements):
    """Return a command that runs Python statements."""
    return shlex.join([sys.executable, "-c", "; ".join(statements)])


def logging_command(path, name, value):
    """Return a command that appends its name to a file and prints `seconds`."""
    return command(
        f"open({str(path)!r}, 'a').write({name!r})",
        f"print('{{\"seconds\": {value}}}')",
    )


def test_commands_run_alternating_and_one_at_a_time(tmp_path):
    order, written = tmp_path / "order", []
    values = alternation.alternate(
        {
            "ours": logging_command(order, "o", 2),
            "peer": logging_command(order, "p", 3),
        },
        {"ours": "seconds", "peer": "seconds"},
        3,
        lambda **line: written.append(line),
    )
    assert order.read_text() == "opopop"
    assert values == {"ours": [2, 2, 2], "peer": [3, 3, 3]}
    assert written[3] == {"round": 2, "side": "peer", "seconds": 3}
    assert [line["round"] for line in written] == [1, 1, 2, 2, 3, 3]


def test_the_last_json_object_is_the_result():
    output = '{"seconds": 2}\nnotice\n{"seconds": 3}\n[5]\n7\nthe end\n'
    assert alternation.last_json_line("ours", "c", output) == {"seconds": 3}


def test_less_time_is_faster():
    """The medians are 2 and 6, a ratio of 3; the rounds have 6/1, 5/2 and 7/4."""
    found = alternation.times_faster([1, 2, 4], [6, 5, 7], rate=False)
    assert found == {
        "times_faster": 3.0,
        "min_times_faster": 1.75,
        "max_times_faster": 6.0,
    }


def test_a_higher_rate_is_faster():
    found = alternation.times_faster([6, 5, 7], [1, 2, 4], rate=True)
    assert found["times_faster"] == 3.0
    assert alternation.is_rate("tokens_per_s") and not alternation.is_rate("median_s")


def test_a_failing_command_is_named_with_its_status_and_standard_error():
    failing = command(
        "import sys", "sys.stderr.write('a\\n' * 7 + 'no room')", "exit(3)"
    )
    with pytest.raises(OSError) as raised:
        alternation.run("peer", failing)
    message = str(raised.value)
    assert message.startswith("--peer ended with status 3: ")
    assert failing in message
    assert message.endswith("standard error: a\na\na\na\nno room")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "--ours must be a command. Received: ''."),
        (
            "python 'x",
            "--ours is not a valid command (No closing quotation): python 'x",
        ),
    ],
)
def test_an_invalid_command_is_rejected(given, message):
    with pytest.raises(ValueError) as raised:
        alternation.run("ours", given)
    assert str(raised.value) == message


def test_a_command_that_does_not_exist_is_named():
    with pytest.raises(OSError, match="--ours cannot be run .*no_such_program --x$"):
        alternation.run("ours", "no_such_program --x")


def test_a_command_must_print_json():
    message = "--peer must print a line of JSON, but did not: c"
    with pytest.raises(ValueError, match=message):
        alternation.last_json_line("peer", "c", "done\n[2]\n")


@pytest.mark.parametrize("value", [None, "2", 0, -3, float("nan"), True])
def test_the_result_must_have_the_number(value):
    with pytest.raises(ValueError, match="--ours must have a number above 0 as 's'"):
        alternation.number_of("ours", {"s": value}, "s")


def run_program(repository, *arguments):
    return subprocess.run(
        [sys.executable, repository / "benchmarks" / "compare.py", *arguments],
        capture_output=True,
        text=True,
        cwd="/",
    )


def test_the_program_prints_both_and_the_ratio(repository, tmp_path):
    order = tmp_path / "order"
    ended = run_program(
        repository,
        f"--ours={logging_command(order, 'o', 2)}",
        f"--peer={logging_command(order, 'p', 3)}",
        "--rounds=2",
        "--key=seconds",
    )
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line.get("side") for line in lines] == ["ours", "peer"] * 2 + [None]
    assert lines[-1]["times_faster"] == 1.5
    assert lines[-1]["median_ours"] == 2 and lines[-1]["median_peer"] == 3
    assert order.read_text() == "opop"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ours=a"], "--peer is needed."),
        (
            ["--ours=a", "--peer=b", "--key=tokens_per_s", "--peer_key=seconds"],
            "--key and --peer_key must both be times, or both rates",
        ),
        (
            ["--ours=a", "--peer=b", "--key=gflops"],
            "`key` must end in `per_s`, for a rate, or in `_s` or `seconds`.",
        ),
        (
            ["--ours=" + command("exit(5)"), "--peer=b"],
            "--ours ended with status 5: ",
        ),
    ],
)
def test_the_program_ends_with_one_line_if_it_cannot_compare(
    repository, arguments, message
):
    ended = run_program(repository, *arguments)
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.startswith(f"compare.py: {message}")
    assert ended.stderr.count("\n") == 1
