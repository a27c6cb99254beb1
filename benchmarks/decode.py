"""How long does a beam search take in an exported model?

    python benchmarks/decode.py --preset=base --batch_size=32 --beam_size=4

makes a model with random weights and a vocabulary of numbers, exports it the same as
export/export_saved_model.py, loads the export, and times the translation of
--batch_size texts of --source_length tokens to outputs of --steps tokens. Prints one
line of JSON; its keys are explained in benchmarks/README.md. Fails if the
scores of the search, in float32, differ from those of a teacher-forced pass without
cache.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import fixed_lengths, measure
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import (
    define_overrides,
    define_search,
    override,
    overrides,
)
from keras_transformer.config import INT8, SEARCH_PRECISIONS, ModelConfig

_PRESET = flags.DEFINE_string("preset", "base", "Name of the model's configuration.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts per call.", lower_bound=1)
_SOURCE_LENGTH = flags.DEFINE_integer(
    "source_length", 30, "Tokens of a text, including EOS.", lower_bound=2
)
_STEPS = flags.DEFINE_integer(
    "steps", 40, "Tokens of an output; at least --source_length.", lower_bound=2
)
_REPEATS = flags.DEFINE_integer("repeats", 7, "Number of timed calls.", lower_bound=1)
_CALLS_AT_ONCE = flags.DEFINE_integer(
    "calls_at_once",
    1,
    "Calls at the same time, each with an equal share of the texts; with as many as "
    "cores, each has one thread.",
    lower_bound=1,
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    "float32",
    SEARCH_PRECISIONS,
    "Data type of weights and products.",
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of weights and texts.", lower_bound=0)
_CHECK_SCORES = flags.DEFINE_bool(
    "check_scores", True, "Compare the scores with those of a teacher-forced pass."
)
_MODEL_FLAGS = define_overrides(
    ModelConfig,
    leave_out=("target_vocab_size", "pad_id", "bos_id", "eos_id"),
)
_SEARCH = define_search()

# Largest difference in float32; scores are about 100. A GPU multiplies in TF32.
SCORE_TOLERANCE, TF32_TOLERANCE = 1e-3, 1e-2


def main() -> dict:
    """Time the search and print, with the thread settings of bin/translate.py."""
    if _BATCH_SIZE.value % _CALLS_AT_ONCE.value:
        raise ValueError("--batch_size must be a multiple of --calls_at_once.")
    startup.import_tensorflow()
    from keras_transformer.inference import cpu_threads

    calls = _CALLS_AT_ONCE.value
    threads = cpu_threads.threads_for_few_sentences(_BATCH_SIZE.value)
    if calls > 1:
        # Those start operations from one thread, so that calls would take turns.
        threads = cpu_threads.threads_for_batches(calls, calls)
    with threads:
        return _measured()


def _measured() -> dict:
    """Export, load, time, check and print."""
    preset = fixed_lengths.preset_of(
        _PRESET.value, _SOURCE_LENGTH.value, _STEPS.value, **overrides(_SEARCH)
    )
    model_config = override(preset.model, _MODEL_FLAGS)
    decoding = preset.decoding
    import keras

    from benchmarks.lib import random_models
    from keras_transformer import hardware, tasks
    from keras_transformer.serving import saved_model

    # Before making tokenizers: setting a seed deletes their TensorFlow resources.
    keras.utils.set_random_seed(_SEED.value)
    is_int8 = _PRECISION.value == INT8
    translator = random_models.random_translator(
        model_config, decoding, "float32" if is_int8 else _PRECISION.value
    )
    texts = random_models.number_texts(
        model_config.vocab_size, _BATCH_SIZE.value, _SOURCE_LENGTH.value, _SEED.value
    )
    environment = measure.environment(translator.precision)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        version = saved_model.export(
            translator.quantized() if is_int8 else translator,
            folder,
            signatures=[tasks.TRANSLATION.signature],
            description={"device": hardware.device()},
        )
        export_s = time.perf_counter() - began
        timed = time_calls(version, texts)
    result = {
        "benchmark": "decode",
        "preset": _PRESET.value,
        "precision": _PRECISION.value,
        "num_parameters": translator.model.count_params(),
        "batch_size": _BATCH_SIZE.value,
        "calls_at_once": _CALLS_AT_ONCE.value,
        "source_length": _SOURCE_LENGTH.value,
        "steps": _STEPS.value,
        "beam_size": decoding.beam_size,
        "length_penalty_alpha": decoding.length_penalty_alpha,
        "model": dataclasses.asdict(model_config),
        "export_s": measure.rounded(export_s),
        **figures(translator, texts, timed),
        **environment,
    }
    measure.write_line(**result)
    return result


def time_calls(version: pathlib.Path, texts: list[str]) -> dict:
    """Load an export and call it repeatedly with the same texts.

    Returns:
        "load_s", "first_call_s", "compile_s" if the search has a program, "seconds" of
        the calls after it, and the answer: "outputs" and "scores".
    """
    import tensorflow as tf

    from keras_transformer.translation import exported_model

    began = time.perf_counter()
    loaded = tf.saved_model.load(str(version))
    translate = loaded.signatures["serving_default"]
    load_s = time.perf_counter() - began
    batches = tf.split(tf.constant(texts), _CALLS_AT_ONCE.value)
    threads = concurrent.futures.ThreadPoolExecutor(_CALLS_AT_ONCE.value)

    def call_one(batch):
        answer = translate(text=batch)
        return answer["translation"].numpy(), answer["score"].numpy()

    def call():
        outputs, scores = zip(*threads.map(call_one, batches), strict=True)
        return np.concatenate(outputs), np.concatenate(scores)

    began = time.perf_counter()
    outputs, scores = call()
    first_call_s = time.perf_counter() - began
    call()  # first call of the optimized graph
    began = time.perf_counter()
    description = exported_model.read_description(version)
    if (compiler := exported_model.compiler_of(loaded, description)) is not None:
        call()  # a third batch of its size
        compiler.look()
        compiler.wait()
    return {
        "load_s": load_s,
        "first_call_s": first_call_s,
        "compile_s": time.perf_counter() - began,
        "seconds": measure.seconds_of_calls(call, _REPEATS.value),
        "outputs": [output.decode() for output in outputs],
        "scores": scores.tolist(),
    }


def figures(translator, texts: list[str], timed: dict) -> dict:
    """Return times and rates, and the difference to teacher-forced scores.

    Raises:
        ValueError: If the difference is larger than rounding errors.
    """
    calls = measure.spread("call_s", timed["seconds"])
    seconds = calls["median_call_s"]
    lengths = [len(ids) for ids in translator.tokenizer.encode(timed["outputs"])]
    result = {
        "repeats": len(timed["seconds"]),
        "load_s": measure.rounded(timed["load_s"]),
        "first_call_s": measure.rounded(timed["first_call_s"]),
        "compile_s": measure.rounded(timed["compile_s"]),
        **calls,
        "tokens_per_s": measure.rounded(sum(lengths) / seconds),
        "sentences_per_s": measure.rounded(len(texts) / seconds),
        "mean_output_tokens": statistics.mean(lengths),
    }
    if not _CHECK_SCORES.value:
        return result
    from benchmarks.lib import random_models
    from keras_transformer import hardware

    slow, _ = random_models.teacher_forced_scores(translator, texts, timed["outputs"])
    pairs = zip(timed["scores"], slow, strict=True)
    difference = max(abs(own - other) for own, other in pairs)
    tolerance = TF32_TOLERANCE if hardware.has_gpu() else SCORE_TOLERANCE
    if _PRECISION.value == "float32" and not difference <= tolerance:
        raise ValueError(
            f"Scores of the search differ by up to {difference:.2g} from those of a "
            f"teacher-forced pass; rounding explains at most {tolerance}."
        )
    return {**result, "largest_score_difference": measure.rounded(difference, 3)}


if __name__ == "__main__":
    programs.run(main)
