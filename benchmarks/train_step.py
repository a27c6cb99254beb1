"""How long does a training step take, relative to the machine's matmul rate?

    python benchmarks/train_step.py --preset=base --steps=50

trains the model the same as bin/train.py, on one batch of random tokens without
padding: a short untimed `fit`, then one of --steps. Prints one line of JSON; its keys
are explained in benchmarks/README.md. --rows, --source_length, --target_length
and the fields of the preset have flags.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer import presets
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import DeviceFlags, define_overrides, override
from keras_transformer.config import ModelConfig, TrainingConfig
from keras_transformer.training.run_options import RunOptions

_PRESET = flags.DEFINE_string("preset", "base", "Name of the configuration to train.")
_ROWS = flags.DEFINE_integer("rows", 64, "Pairs per batch.", lower_bound=1)
_SOURCE_LENGTH = flags.DEFINE_integer(
    "source_length", 32, "Tokens of a source, including EOS.", lower_bound=1
)
_TARGET_LENGTH = flags.DEFINE_integer(
    "target_length", 32, "Tokens of a target, including EOS.", lower_bound=1
)
_STEPS = flags.DEFINE_integer("steps", 50, "Number of timed steps.", lower_bound=1)
_UNTIMED_STEPS = flags.DEFINE_integer(
    "untimed_steps", 2, "Number of steps of the untimed `fit`.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of weights and tokens.", lower_bound=0)
# Fields that change the computation of a step.
_TRAINING_FIELDS = ("label_smoothing", "accumulate_steps", "guided_alignment")
_PRESET_FLAGS = {
    "model": define_overrides(ModelConfig),
    "training": define_overrides(
        TrainingConfig,
        leave_out=[
            field.name
            for field in dataclasses.fields(TrainingConfig)
            if field.name not in _TRAINING_FIELDS
        ],
    ),
}
_DEVICE = DeviceFlags()


def main() -> dict:
    """Time steps and print them."""
    preset = presets.get(_PRESET.value)
    parts = {
        part: override(getattr(preset, part), holders)
        for part, holders in _PRESET_FLAGS.items()
    }
    startup.import_tensorflow()
    import keras

    from benchmarks.lib import fit_timing
    from keras_transformer.training import run_setup
    from keras_transformer.training.strategies import make_strategy, this_process

    length = max(_SOURCE_LENGTH.value, _TARGET_LENGTH.value)
    parts["training"] = dataclasses.replace(
        parts["training"], tokens_per_batch=_ROWS.value * length, max_length=length
    )
    config = fit_timing.run_config(
        dataclasses.replace(preset, **parts),
        _DEVICE.precision.value,
        _SEED.value,
    )
    if config.training.guided_alignment:
        raise ValueError(
            "Guided alignment needs sentences and trees, but this benchmark has random "
            "tokens. Pass --guided_alignment=0, or another --preset."
        )
    options = RunOptions(**_DEVICE.options())
    process = this_process(make_strategy(options.distribution, options.num_replicas))
    if process.count > 1:
        raise ValueError("This benchmark runs in one process. Unset TF_CONFIG.")
    dtype = keras.DTypePolicy(config.precision).compute_dtype
    environment = measure.environment(dtype)
    keras.utils.set_random_seed(config.seed)
    with process.strategy.scope():
        model = run_setup.build(config, options, process.num_replicas)
    batches = fit_timing.same_batch(
        config.model,
        _ROWS.value,
        _SOURCE_LENGTH.value,
        _TARGET_LENGTH.value,
        config.seed,
    )
    timed = fit_timing.time_fit(model, batches, _UNTIMED_STEPS.value, _STEPS.value)
    result = {
        "benchmark": "train_step",
        **settings(config, model, process.num_replicas),
        **figures(config, timed, environment["matmul_gflops"]),
        **environment,
    }
    measure.write_line(**result)
    return result


def settings(config, model, num_replicas: int) -> dict:
    """Return the settings of the training."""
    return {
        "preset": config.preset,
        "precision": config.precision,
        "jit_compile": model.jit_gradients,
        "num_replicas": num_replicas,
        "accumulate_steps": model.accumulate_steps,
        "num_parameters": model.count_params(),
        "rows": _ROWS.value,
        "source_length": _SOURCE_LENGTH.value,
        "target_length": _TARGET_LENGTH.value,
        "model": dataclasses.asdict(config.model),
    }


def figures(config, timed: dict, matmul_gflops: float) -> dict:
    """Return times, rates and losses."""
    from keras_transformer.model.cost import training_flops

    lengths = _SOURCE_LENGTH.value, _TARGET_LENGTH.value
    tokens = _ROWS.value * sum(lengths)
    gflop = _ROWS.value * training_flops(config.model, *lengths) / 1e9
    steps = measure.spread("step_s", timed["seconds"])
    seconds = steps["median_step_s"]
    fit_step_s = timed["fit_s"] / len(timed["seconds"])
    return {
        "steps": len(timed["seconds"]),
        **steps,
        "fit_s": measure.rounded(timed["fit_s"]),
        "fit_step_s": measure.rounded(fit_step_s),
        "first_step_s": measure.rounded(timed["first_step_s"]),
        "tokens_per_s": measure.rounded(tokens / seconds),
        "fit_tokens_per_s": measure.rounded(tokens / fit_step_s),
        "gflop": measure.rounded(gflop),
        "gflops": measure.rounded(gflop / seconds),
        "share_of_matmul": measure.rounded(gflop / seconds / matmul_gflops, 3),
        "step_megabytes": timed["step_bytes"]
        and measure.rounded(timed["step_bytes"] / 2**20),
        "peak_megabytes": round(measure.memory_kib() / 1024),
        "first_loss": measure.rounded(timed["losses"][0]),
        "last_loss": measure.rounded(timed["losses"][-1]),
    }


if __name__ == "__main__":
    programs.run(main)
