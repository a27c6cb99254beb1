"""Does a training that is killed and resumed end with the same weights?

    python robustness/killed_trainings.py --data_dir=data/small --kills=30

trains a very small model once without interruption, then --kills times with one: the
process is killed with SIGKILL at a random time, often while it writes a checkpoint
(there is one per step), and resumed. Prints the largest difference of the final
weights. Use --num_replicas=2 for MirroredStrategy. Takes 15 minutes on 2 CPU cores.
"""

from __future__ import annotations

import pathlib
import random
import sys
import tempfile

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs
from robustness import kills

_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "A corpus prepared by bin/prepare_data.py, however small."
)
_KILLS = flags.DEFINE_integer("kills", 30, "Number of killed runs.", lower_bound=1)
_NUM_REPLICAS = flags.DEFINE_integer(
    "num_replicas", 1, "Replicas of each run.", lower_bound=1
)
_TRAIN_STEPS = flags.DEFINE_integer(
    "train_steps", 60, "Steps of each run.", lower_bound=2
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the times.")


def main() -> dict:
    """Kill and resume runs, and print how much their final weights differ."""
    programs.check_given(_DATA_DIR)
    import numpy as np

    from keras_transformer.hardware import describe

    draw = random.Random(_SEED.value)
    distances, stopped_at = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        uninterrupted = folder / "uninterrupted"
        seconds = kills.seconds_of_steps(command_of(uninterrupted))
        for number in range(_KILLS.value):
            model_dir = folder / str(number)
            command = command_of(model_dir)
            kills.kill_after_first_step(command, draw.uniform(0, seconds))
            stopped_at.append(kills.newest_step(model_dir))
            kills.run(command)
            distances.append(kills.distance_of_weights(model_dir, uninterrupted))
    result = {
        "kills": _KILLS.value,
        "replicas": _NUM_REPLICAS.value,
        "steps": _TRAIN_STEPS.value,
        "checkpoints_found": sorted(stopped_at),
        "largest_distance": float(np.max(distances)),  # NaN if any is NaN
    }
    measure.write_line(**result, seed=_SEED.value, machine=describe())
    return result


def command_of(model_dir: pathlib.Path) -> list[str]:
    """Return the training command of one run."""
    strategy = "mirrored" if _NUM_REPLICAS.value > 1 else "one_device"
    return kills.training_command(
        _DATA_DIR.value,
        model_dir,
        _TRAIN_STEPS.value,
        f"--distribution={strategy}",
        f"--num_replicas={_NUM_REPLICAS.value}",
    )


if __name__ == "__main__":
    programs.run(main)
