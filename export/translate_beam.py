"""Translate many lines with an exported model on Apache Beam, resumable by shard.

    python export/translate_beam.py --saved_model=exports/ende/1 \
        --input=test.en --output=out/test.de --runner=DirectRunner \
        --direct_num_workers=2 --direct_running_mode=multi_processing

writes shards of 1,000 lines, out/test.de-00000-of-00005 and so on, in input order:
`cat out/test.de-*-of-*` has one translation per line. When run again, the program only
translates missing shards. The numbers of lines that were cut to the model's input limit
are in out/test.de.truncated-00003-of-00005 and so on. Other options are passed to Beam,
such as --runner, which selects where the pipeline runs. --protect and --glossary are
those of bin/translate.py. Needs the extra `beam`.
"""

from __future__ import annotations

import os
import pathlib
import sys

from absl import flags, logging

if not __package__:  # run as a file: the checkout need not be installed
    _ROOT = str(pathlib.Path(__file__).resolve().parents[1])
    sys.path[0] = _ROOT
    # For Beam's worker processes.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [_ROOT, os.environ.get("PYTHONPATH")])
    )

from keras_transformer import text_files, wording
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import (
    ProtectionFlags,
    SamplingFlags,
    language_check,
    report_guess,
)
from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE

_SAVED_MODEL = flags.DEFINE_string(
    "saved_model", None, "An exported model, EXPORT_DIR/VERSION."
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Text file (also .gz), one sentence per line, or a glob pattern of files, which "
    "are read in the order of their names.",
)
_OUTPUT = flags.DEFINE_string("output", None, "Prefix of the names of the shards.")
_LINES_PER_SHARD = flags.DEFINE_integer(
    "lines_per_shard", 1000, "Lines per shard; a worker takes one.", lower_bound=1
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    TRANSLATION_BATCH_SIZE,
    "Sentences translated at once; fewer for long sentences.",
    lower_bound=1,
)
_SAMPLES = flags.DEFINE_bool(
    "sampling",
    False,
    "Draw translations as bin/back_translate.py does, with the signature sample.",
)
_PROTECTION = ProtectionFlags()
_SAMPLING = SamplingFlags()
# Worker processes import this module before they load the pipeline.
_WORKER_PLUGIN = "--beam_plugin=keras_transformer.cli.beam_worker"


def main(beam_arguments: list[str]) -> dict:
    """Translate and return the JSON summary."""
    programs.check_given(_SAVED_MODEL, _INPUT, _OUTPUT)
    protection = _PROTECTION.read()
    if not flags.FLAGS["verbosity"].present:
        # Beam warns about every missing Google Cloud library.
        logging.set_verbosity(logging.ERROR)
    startup.import_tensorflow(compiles=True)
    with programs.needing("beam", "Translating on Beam"):
        from keras_transformer.serving import bulk_translation
    from keras_transformer.translation import exported_model

    options = bulk_translation.parse_options([*beam_arguments, _WORKER_PLUGIN])
    facts = exported_model.read_facts(_SAVED_MODEL.value)
    protection = protection.with_placeholders(facts.placeholders, facts.markers)
    config = bulk_translation.BeamTranslationConfig(
        saved_model=_SAVED_MODEL.value,
        input=_INPUT.value,
        output=_OUTPUT.value,
        lines_per_shard=_LINES_PER_SHARD.value,
        batch_size=_BATCH_SIZE.value,
        sampling=_SAMPLING.sampling() if _SAMPLES.value else None,
        protection=None if protection.is_empty else protection,
    )
    report_guess(protection)
    summary = bulk_translation.translate(config, options, language_check(facts))
    print(
        f"{wording.count(summary['lines'], 'line')} in "
        f"{wording.count(summary['shards'], 'shard')}, "
        f"{_OUTPUT.value}-*-of-*; {summary['skipped_shards']:,} existed and were "
        "skipped"
    )
    text_files.report_cut(
        summary["truncated"], summary["lines"], facts.max_input_length
    )
    return summary


def run() -> None:
    """Run as a console script."""
    # Beam and TensorFlow read and write them.
    remote = [_SAVED_MODEL, _INPUT, _OUTPUT]
    programs.run(main, has_other_options=True, may_be_urls=remote)


if __name__ == "__main__":
    run()
