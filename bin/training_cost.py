"""Count the cost of training, to compare with Table 2 of the paper.

    python bin/training_cost.py --hours=12 --num_devices=8 --device=P100
    python bin/training_cost.py --preset=base --train_steps=100000

The first command estimates as the paper does: time x devices x operations per second of
a device. The second counts the matrix products of forward and backward pass.
"""

from __future__ import annotations

import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import presets, wording
from keras_transformer.cli import programs
from keras_transformer.config import check_at_least
from keras_transformer.model import cost

_HOURS = flags.DEFINE_float("hours", None, "Wall time of the training.")
_NUM_DEVICES = flags.DEFINE_integer("num_devices", 8, "Devices that train together.")
_DEVICE = flags.DEFINE_enum(
    "device",
    "P100",
    [*cost.SUSTAINED_TFLOPS, *cost.PEAK_TFLOPS],
    "Device, for its operations per second; after P100 a share of the peak.",
)
_SUSTAINED_TFLOPS = flags.DEFINE_float(
    "sustained_tflops",
    None,
    "1e12 operations per second of one device; default: that of --device.",
)
_UTILIZATION = flags.DEFINE_float(
    "utilization", 0.4, "Share of the peak, for devices after P100."
)
_PRESET = flags.DEFINE_string(
    "preset", "base", "Model and training to count; help: print all of them."
)
_TRAIN_STEPS = flags.DEFINE_integer(
    "train_steps", None, "Optimizer steps; default: the preset's."
)
_MEAN_LENGTH = flags.DEFINE_integer(
    "mean_length", 30, "Tokens of a sentence, which decide the cost of attention."
)


def main() -> dict:
    """Print costs and Table 2, and return the JSON summary."""
    if _PRESET.value == "help":
        print(presets.table())
        return {"presets": presets.names()}
    preset = presets.get(_PRESET.value)
    check_at_least("mean_length", _MEAN_LENGTH.value, 1)
    steps = preset.training.train_steps
    if _TRAIN_STEPS.value is not None:
        check_at_least("train_steps", _TRAIN_STEPS.value, 1)
        steps = _TRAIN_STEPS.value
    length = _MEAN_LENGTH.value
    a_token = cost.training_flops(preset.model, length, length) / length
    counted = a_token * preset.training.tokens_per_batch * steps
    summary = {
        "preset": preset.name,
        "num_parameters": cost.num_parameters(preset.model),
        "flops_per_token": a_token,
        "counted_flops": counted,
    }
    print(
        f"{preset.name}: {summary['num_parameters']:,} parameters; "
        f"{wording.count(steps, 'step')} of "
        f"{preset.training.tokens_per_batch:,} + {preset.training.tokens_per_batch:,} "
        f"tokens cost {counted:.2g} FLOPs, counted from the model"
    )
    if _HOURS.value is not None:
        summary["estimated_flops"] = cost.flops_of_time(
            _HOURS.value, _NUM_DEVICES.value, sustained()
        )
        print(
            f"{_HOURS.value:g} hours on {_NUM_DEVICES.value} devices of "
            f"{sustained():g} TFLOPS cost {summary['estimated_flops']:.2g} FLOPs, by "
            "time"
        )
    print("\n" + table_2())
    return summary


def sustained() -> float:
    """Return the sustained TFLOPS of one device."""
    if _SUSTAINED_TFLOPS.value is not None:
        return _SUSTAINED_TFLOPS.value
    if _DEVICE.value in cost.SUSTAINED_TFLOPS:
        return cost.SUSTAINED_TFLOPS[_DEVICE.value]
    return cost.PEAK_TFLOPS[_DEVICE.value] * _UTILIZATION.value


def table_2() -> str:
    """Return Table 2 of the paper as text."""
    lines = [
        f"{'Table 2 (newstest2014)':28}{'BLEU':>8}{'':>8}{'FLOPs':>10}",
        f"{'':28}{'EN-DE':>8}{'EN-FR':>8}{'EN-DE':>10}{'EN-FR':>10}",
    ]
    for row in cost.TABLE_2:
        bleu = "".join(
            f"{'' if value is None else value:>8}"
            for value in (row.bleu_ende, row.bleu_enfr)
        )
        flops = "".join(
            f"{'' if value is None else f'{value:.1e}':>10}"
            for value in (row.flops_ende, row.flops_enfr)
        )
        lines.append(f"{row.model:28}{bleu}{flops}")
    return "\n".join(lines)


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
