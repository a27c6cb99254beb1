"""Runs of a few steps on the corpus of five words."""

import dataclasses

from keras_transformer import data, presets
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.training import run as training_run
from keras_transformer.training import run_setup
from keras_transformer.training.run_options import RunOptions


def config_of(corpus, seed=0, **training):
    """A tiny preset with dropout on, resolved for the corpus."""
    preset = presets.get("tiny")
    values = {
        "train_steps": 6,
        "tokens_per_batch": 150,
        "max_length": 40,
        "warmup_steps": 5,
    }
    preset = dataclasses.replace(
        preset,
        model=dataclasses.replace(
            preset.model, num_layers=1, d_model=6, d_ff=7, num_heads=2
        ),
        training=dataclasses.replace(preset.training, **{**values, **training}),
    )
    return run_setup.resolve(preset, data.read_metadata(corpus), seed=seed)


def train(corpus, folder, config=None, lines=None, **options):
    chosen = {
        "distribution": "one_device",
        "checkpoint_every_steps": 3,
        "evaluate_every_steps": 3,
        "bleu_sentences": 0,
        "has_preflight": False,
        "log_every_steps": 2,
    }
    return training_run.train(
        corpus,
        str(folder),
        config or config_of(corpus),
        RunOptions(**{**chosen, **options}),
        write=(lines if lines is not None else []).append,
    )


def weights(folder, checkpoint="latest"):
    model = ModelDir(folder).load_model(checkpoint)
    return [weight.numpy() for weight in model.trainable_weights]
