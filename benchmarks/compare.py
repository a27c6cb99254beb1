"""How many times faster is one program than another?

    python benchmarks/compare.py --rounds=3 --ours="python benchmarks/train_step.py" \
        --peer="peer/bin/python peer/train_step.py"

runs --ours and --peer alternating, never both at once. Each must print JSON, one object
per line, and the last line is its result. The program prints every result, then the
medians over the rounds and their ratio; above 1, ours is faster.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import alternation, measure
from keras_transformer.cli import programs

_OURS = flags.DEFINE_string("ours", None, "Command, without a shell: `env A=1 python`.")
_PEER = flags.DEFINE_string("peer", None, "The other command.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Runs of each command.", lower_bound=1)
_KEY = flags.DEFINE_string(
    "key",
    "median_step_s",
    "Key of the compared number: a rate if it ends in per_s, else a time.",
)
_PEER_KEY = flags.DEFINE_string(
    "peer_key", None, "Key in the peer's results; default: --key."
)


def main() -> dict:
    """Run both alternating and print the ratio."""
    programs.check_given(_OURS, _PEER)
    keys = {"ours": _KEY.value, "peer": _PEER_KEY.value or _KEY.value}
    rate = alternation.is_rate(keys["ours"])
    if rate != alternation.is_rate(keys["peer"]):
        raise ValueError(
            "--key and --peer_key must both be times, or both rates (ending in per_s). "
            f"Received: key={keys['ours']}, peer_key={keys['peer']}."
        )
    values = alternation.alternate(
        {"ours": _OURS.value, "peer": _PEER.value},
        keys,
        _ROUNDS.value,
        measure.write_line,
    )
    result = {
        "benchmark": "compare",
        "key": keys["ours"],
        "peer_key": keys["peer"],
        "rounds": _ROUNDS.value,
        **measure.spread("ours", values["ours"]),
        **measure.spread("peer", values["peer"]),
        **alternation.times_faster(values["ours"], values["peer"], rate=rate),
    }
    measure.write_line(**result)
    return result


if __name__ == "__main__":
    programs.run(main)
