"""Score translations: sacreBLEU with its signature, BLEU as in the paper, chrF.

    python bin/evaluate.py --model_dir=runs/base --data_dir=data/wmt14_ende --split=test

translates a split of a prepared corpus by beam search and scores it; --source and
--reference take plain text instead. Without a model,

    python bin/evaluate.py --hypothesis=output.de --reference=test.de

scores what any system wrote. 3,000 sentences are scored in 5 seconds; translating them
takes a base model minutes on a CPU and seconds on a GPU.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import model_flags, programs, text_files
from keras_transformer.model_flags import CHECKPOINT, MODEL_DIR

_DATA_DIR = flags.DEFINE_string("data_dir", None, "A prepared corpus.")
_SPLIT = flags.DEFINE_enum("split", "test", ["valid", "test"], "Which part of it.")
_SOURCE = flags.DEFINE_string("source", None, "Text to translate, one sentence a line.")
_REFERENCE = flags.DEFINE_string("reference", None, "Its translations, line by line.")
_HYPOTHESIS = flags.DEFINE_string(
    "hypothesis", None, "Translations of another system, to be scored with no model."
)
_TARGET_LANGUAGE = flags.DEFINE_string(
    "target_language",
    None,
    "Code for the Moses tokenizer; default: the model's, or de.",
)
_BEAM_SIZE = flags.DEFINE_integer(
    "beam_size", None, "Hypotheses kept alive; 1 is greedy; default: the model's."
)
_LENGTH_PENALTY_ALPHA = flags.DEFINE_float(
    "length_penalty_alpha", None, "alpha of the length penalty; default: the model's."
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 64, "Sentences translated at once.", lower_bound=1
)
_BOOTSTRAP_SAMPLES = flags.DEFINE_integer(
    "bootstrap_samples", 1000, "Draws for the 95 % interval; 0: none.", lower_bound=0
)
_REPORT = flags.DEFINE_string("report", None, "JSON file to write.")
_OUTPUT = flags.DEFINE_string("output", None, "Text file for the translations.")
_TASK = flags.DEFINE_enum("task", "translation", ["translation"], "What was learned.")
flags.adopt_module_key_flags(model_flags)


def main() -> dict:
    """Score and return the JSON summary."""
    check_flags()
    if _HYPOTHESIS.value:
        hypotheses = text_files.read_lines(_HYPOTHESIS.value)
        references = text_files.read_lines(_REFERENCE.value)
        language, perplexity = "de", None
    else:
        from keras_transformer import evaluation_run

        sources, references = read_pairs()
        result = evaluation_run.translate_and_measure(
            MODEL_DIR.value,
            sources,
            references,
            checkpoint=CHECKPOINT.value,
            batch_size=_BATCH_SIZE.value,
            beam_size=_BEAM_SIZE.value,
            length_penalty_alpha=_LENGTH_PENALTY_ALPHA.value,
        )
        hypotheses, language, perplexity = result
    return report(hypotheses, references, language, perplexity)


def check_flags() -> None:
    """Raise unless the flags name one thing to score."""
    if _HYPOTHESIS.value:
        needed, excluded = (_REFERENCE,), (MODEL_DIR, _DATA_DIR, _SOURCE)
    elif _DATA_DIR.value:
        needed, excluded = (MODEL_DIR,), (_SOURCE, _REFERENCE)
    else:
        needed, excluded = (MODEL_DIR, _SOURCE, _REFERENCE), ()
    for flag in needed:
        if not flag.value:
            raise ValueError(
                f"--{flag.name} is needed. Give --model_dir with --data_dir, or with "
                "--source and --reference; or --hypothesis with --reference."
            )
    for flag in excluded:
        if flag.value:
            chosen = _HYPOTHESIS if _HYPOTHESIS.value else _DATA_DIR
            raise ValueError(f"--{flag.name} and --{chosen.name} exclude each other.")


def read_pairs() -> tuple[list[str], list[str]]:
    """Read what to translate and what it should become."""
    if _DATA_DIR.value:
        folder = pathlib.Path(_DATA_DIR.value)
        if not (folder / "metadata.json").is_file():
            raise FileNotFoundError(
                f"No metadata.json in {folder}: it is no corpus. Prepare one with "
                f"bin/prepare_data.py --data_dir={folder}, or correct --data_dir."
            )
        paths = [folder / f"{_SPLIT.value}.{side}" for side in ("source", "target")]
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(
                    f"No {path.name} in {folder}: the corpus was prepared without that "
                    "split. Choose another --split, or give --source and --reference."
                )
    else:
        paths = [_SOURCE.value, _REFERENCE.value]
    sources, references = map(text_files.read_lines, paths)
    if len(sources) != len(references):
        raise ValueError(
            f"{paths[0]} has {len(sources)} lines and {paths[1]} has "
            f"{len(references)}: they must be line by line the same sentences."
        )
    return sources, references


def report(hypotheses, references, language, perplexity) -> dict:
    """Score, print, write what was asked for, and return the JSON summary."""
    from keras_transformer import evaluation, files

    scores = evaluation.score_translations(
        hypotheses,
        references,
        target_language=_TARGET_LANGUAGE.value or language,
        bootstrap_samples=_BOOTSTRAP_SAMPLES.value,
    )
    scores = dataclasses.replace(scores, perplexity=perplexity)
    print(evaluation.format_scores(scores))
    if _OUTPUT.value:
        text_files.write_lines(_OUTPUT.value, hypotheses)
    if _REPORT.value:
        text = json.dumps(scores.to_dict(), indent=2, ensure_ascii=False)
        files.atomic_write(_REPORT.value, text + "\n")
    return scores.to_dict()


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
