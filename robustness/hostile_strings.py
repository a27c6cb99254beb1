"""Does an exported model answer any input, within bounded memory?

    python robustness/hostile_strings.py --saved_model=exports/multi30k/1 \
        --tokenizer_model=runs/multi30k/model_1/tokenizer/sentencepiece.model

sends 2,000 strings in batches of 32: random bytes, all code points of Unicode, control
characters, special tokens, with 0 to 100,000 characters, long and short in one batch.
Each must get an answer, and `truncated` must match SentencePiece's number of tokens.
Prints the peak memory. Takes ten minutes for a small model with --max_input_length=128
on 2 CPU cores, hours with 512 tokens.
"""

from __future__ import annotations

import pathlib
import resource
import sys
import time

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import measure
from keras_transformer.cli import programs, startup
from robustness import hostile

_SAVED_MODEL = flags.DEFINE_string("saved_model", None, "EXPORT_DIR/VERSION.")
_TOKENIZER_MODEL = flags.DEFINE_string(
    "tokenizer_model", None, "The SentencePiece model of the export."
)
_COUNT = flags.DEFINE_integer("count", 2000, "Number of strings.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 32, "Strings per request.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the strings and their order.")


def main() -> dict:
    """Send the strings and print the results."""
    programs.check_given(_SAVED_MODEL, _TOKENIZER_MODEL)
    startup.import_tensorflow()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the operators of the vocabulary

    from keras_transformer.hardware import describe
    from keras_transformer.translation import exported_model

    limit = exported_model.read_description(_SAVED_MODEL.value)["decoding"][
        "max_input_length"
    ]
    strings = hostile.hostile_strings(_COUNT.value, _SEED.value)
    wanted = hostile.too_long(
        strings, pathlib.Path(_TOKENIZER_MODEL.value).read_bytes(), limit
    )
    loaded = tf.saved_model.load(_SAVED_MODEL.value)
    signature = loaded.signatures["serving_default"]
    signature(text=tf.constant([b"a"]))
    before = peak_bytes()
    began = time.perf_counter()
    truncated = hostile.send(signature, strings, _BATCH_SIZE.value)
    result = {
        "strings": len(strings),
        "answered": len(truncated),
        "truncated": sum(truncated),
        "wrongly_truncated": sum(
            own != other for own, other in zip(truncated, wanted, strict=True)
        ),
        "seconds": round(time.perf_counter() - began, 1),
        "megabytes_before": round(before / 1e6),
        "megabytes_at_the_peak": round(peak_bytes() / 1e6),
    }
    measure.write_line(**result, machine=describe())
    return result


def peak_bytes() -> int:
    """Return the peak memory of this process (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    programs.run(main)
