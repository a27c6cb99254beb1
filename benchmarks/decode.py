"""How long a search takes, in the SavedModel that users get.

    python benchmarks/decode.py --preset=base --batch_size=32 --beam_size=4

makes a model with random weights and a vocabulary of numbers, exports it as
export/export_saved_model.py does, loads the export, and times the translation of
--batch_size texts of --source_length tokens to outputs of --steps tokens. Prints one
line of JSON; its keys are explained in docs/performance/measuring.md. Fails where the
scores of the search, in float32, are not those of the model without search and cache.
"""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import sys
import tempfile
import time

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import fixed_lengths, measure
from keras_transformer.cli import preset_flags, programs, search_flags, startup
from keras_transformer.config import ModelConfig

_PRESET = flags.DEFINE_string("preset", "base", "Name of the model's configuration.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts of a call.", lower_bound=1)
_SOURCE_LENGTH = flags.DEFINE_integer(
    "source_length", 30, "Tokens of a text, its end counted.", lower_bound=2
)
_STEPS = flags.DEFINE_integer(
    "steps", 40, "Tokens of an output; at least --source_length.", lower_bound=2
)
_REPEATS = flags.DEFINE_integer("repeats", 7, "Calls that are timed.", lower_bound=1)
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "bfloat16"], "Of weights and products."
)
_SEED = flags.DEFINE_integer("seed", 0, "Of weights and texts.", lower_bound=0)
_CHECK_SCORES = flags.DEFINE_bool(
    "check_scores", True, "Score the outputs again, without search and cache."
)
_MODEL_FLAGS = preset_flags.define(
    ModelConfig,
    leave_out=("target_vocab_size", "pad_id", "bos_id", "eos_id"),
)
flags.adopt_module_key_flags(search_flags)

# In float32; the scores themselves are about 100.
SCORE_TOLERANCE = 1e-3


def main() -> dict:
    """Time the search and print; threads are those of bin/translate.py."""
    startup.import_tensorflow()
    from keras_transformer.inference import cpu_threads

    with cpu_threads.threads_for_few_sentences(_BATCH_SIZE.value):
        return _measured()


def _measured() -> dict:
    """Export, load, time, check and print."""
    preset = fixed_lengths.preset_of(
        _PRESET.value, _SOURCE_LENGTH.value, _STEPS.value, **search_flags.given()
    )
    model_config = preset_flags.override(preset.model, _MODEL_FLAGS)
    decoding = preset.decoding
    import keras

    from benchmarks.lib import random_models
    from keras_transformer.serving import saved_model

    # First: TensorFlow drops what tokenizers hold when a seed is set.
    keras.utils.set_random_seed(_SEED.value)
    translator = random_models.random_translator(
        model_config, decoding, _PRECISION.value
    )
    texts = random_models.number_texts(
        model_config.vocab_size, _BATCH_SIZE.value, _SOURCE_LENGTH.value, _SEED.value
    )
    around = measure.surroundings(_PRECISION.value)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        version = saved_model.export(
            translator, folder, signatures=[saved_model.SIGNATURE]
        )
        export_s = time.perf_counter() - began
        timed = time_calls(version, texts)
    result = {
        "benchmark": "decode",
        "preset": _PRESET.value,
        "precision": _PRECISION.value,
        "num_parameters": translator.model.count_params(),
        "batch_size": _BATCH_SIZE.value,
        "source_length": _SOURCE_LENGTH.value,
        "steps": _STEPS.value,
        "beam_size": decoding.beam_size,
        "length_penalty_alpha": decoding.length_penalty_alpha,
        "model": dataclasses.asdict(model_config),
        "export_s": measure.rounded(export_s),
        **figures(translator, texts, timed),
        **around,
    }
    measure.write_line(**result)
    return result


def time_calls(version: pathlib.Path, texts: list[str]) -> dict:
    """Load an export and call it again and again with the same texts.

    Returns:
        "load_s", "first_call_s", "seconds" of the calls after it, and what it answers:
        "outputs" and "scores".
    """
    import tensorflow as tf

    began = time.perf_counter()
    loaded = tf.saved_model.load(str(version))
    translate = loaded.signatures["serving_default"]
    load_s = time.perf_counter() - began
    batch = tf.constant(texts)

    def call():
        answer = translate(text=batch)
        return answer["translation"].numpy(), answer["score"].numpy()

    began = time.perf_counter()
    outputs, scores = call()
    first_call_s = time.perf_counter() - began
    call()  # the first of the graph that TensorFlow has optimized by now
    return {
        "load_s": load_s,
        "first_call_s": first_call_s,
        "seconds": measure.seconds_of_calls(call, _REPEATS.value),
        "outputs": [output.decode() for output in outputs],
        "scores": scores.tolist(),
    }


def figures(translator, texts: list[str], timed: dict) -> dict:
    """Return times and rates, and how far scores are from those without search.

    Raises:
        ValueError: If they are further than rounding explains.
    """
    calls = measure.spread("call_s", timed["seconds"])
    seconds = calls["median_call_s"]
    lengths = [len(ids) for ids in translator.tokenizer.encode(timed["outputs"])]
    result = {
        "repeats": len(timed["seconds"]),
        "load_s": measure.rounded(timed["load_s"]),
        "first_call_s": measure.rounded(timed["first_call_s"]),
        **calls,
        "tokens_per_s": measure.rounded(sum(lengths) / seconds),
        "sentences_per_s": measure.rounded(len(texts) / seconds),
        "mean_output_tokens": statistics.mean(lengths),
    }
    if not _CHECK_SCORES.value:
        return result
    from benchmarks.lib import random_models

    slow, _ = random_models.teacher_forced_scores(translator, texts, timed["outputs"])
    pairs = zip(timed["scores"], slow, strict=True)
    difference = max(abs(own - other) for own, other in pairs)
    if _PRECISION.value == "float32" and not difference <= SCORE_TOLERANCE:
        raise ValueError(
            f"Scores of the search are up to {difference:.2g} from those of the model "
            f"without search and cache; at most {SCORE_TOLERANCE} is rounding."
        )
    return {**result, "largest_score_difference": measure.rounded(difference, 3)}


if __name__ == "__main__":
    programs.run(main)
