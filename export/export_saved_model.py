"""Export a trained model as a SavedModel that takes strings and returns strings.

    python export/export_saved_model.py --model_dir=runs/base --export_dir=exports/base

writes exports/base/1 (the next free number) for TF Serving, including tokenizer and
beam search. Search settings are fixed at export. Before it gets its number, the export
must translate some texts the same as the model. It takes about a minute, less with
fewer --signatures. A parser is exported the same way, with the signature parse.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import pathlib
import sys

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import tasks, text_files
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags
from keras_transformer.config import INT8, check_choice
from keras_transformer.serving.client import TRANSLATION_SIGNATURES

_MODEL = ModelFlags(has_languages=True, has_search=True, has_ensemble=True)
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Contains one folder per version: EXPORT_DIR/VERSION."
)
_MAX_INPUT_LENGTH = flags.DEFINE_integer(
    "max_input_length",
    None,
    "Longer sources are cut to this number of tokens, including EOS; bounds the time "
    "and memory of an answer. Default: the model's.",
    lower_bound=1,
)
_NBEST = flags.DEFINE_integer(
    "nbest",
    None,
    "Hypotheses of the signature nbest; default: the beam size.",
    lower_bound=1,
)
_SIGNATURES = flags.DEFINE_list(
    "signatures",
    None,
    f"Signatures to export, among {', '.join(TRANSLATION_SIGNATURES)}; default: all "
    "that the model has. Each adds to the time of export and loading.",
)
_PACKED_KERNELS = flags.DEFINE_bool(
    "packed_kernels",
    True,
    "Also store the decoder's matrices prepacked for this CPU: the base model "
    "translates one sentence in a fifth less time. The file is 1.6 times as large, 1.3 "
    "times with --signatures=serving_default.",
)
_DEVICE = flags.DEFINE_enum(
    "device",
    "cpu",
    ["cpu", "gpu", "none"],
    "What searches can be compiled for, one program for each of a few sizes: on a GPU "
    "all, on a CPU those of small models. Each export runs on both. None: an export "
    "that loads a little faster.",
)
_WARMUP = flags.DEFINE_bool(
    "warmup",
    None,
    "Add requests that TF Serving runs before a model gets traffic; default: if the "
    "extra serving is installed.",
)
_FEW_LINES = 16
_CHECK_INPUT = flags.DEFINE_string(
    "check_input",
    None,
    "Text file that export and model must translate (parse) equally; default: random "
    "texts. With --precision=int8 or bfloat16 the program also tells how many outputs "
    "differ from those in float32.",
)
_CHECK_TARGET = flags.DEFINE_string(
    "check_target",
    None,
    "References of --check_input, line by line, to tell BLEU in both precisions too.",
)
_CHECK_LINES = flags.DEFINE_integer(
    "check_lines",
    None,
    f"Number of lines to check; 0: none. Default: {_FEW_LINES}, with --check_target "
    "all. An export without serving_default is not checked.",
    lower_bound=0,
)


def main() -> dict:
    """Export and return the JSON summary."""
    programs.check_given(_MODEL.model_dir, _EXPORT_DIR)
    check_flags()
    texts, references = read_check()
    startup.import_tensorflow()
    from keras_transformer.evaluation import rounding
    from keras_transformer.serving import saved_model
    from keras_transformer.translation import exported_model

    checkpoint, ensemble = _MODEL.choose(), _MODEL.choose_ensemble()
    precision = _MODEL.precision.value or "float32"
    languages = languages_of(texts) if references else ()
    is_compared = texts and precision != "float32"
    exact = outputs_in_float32(checkpoint, ensemble, texts) if is_compared else ()
    searcher = load(checkpoint, ensemble, precision)
    version = saved_model.export(
        searcher,
        _EXPORT_DIR.value,
        num_best=_NBEST.value,
        signatures=_SIGNATURES.value,
        description=describe(searcher, checkpoint.step),
        check_texts=texts or saved_model.trial_texts(searcher, num_checked()),
        has_packed_kernels=_PACKED_KERNELS.value,
        has_warmup=wants_warmup(),
    )
    description = exported_model.read_description(version)
    size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
    paths = [checkpoint.path, *(path for _, path in ensemble)]
    names = " and ".join(map(str, paths))
    print(
        f"exported {names} to {version}: {size / 1e6:,.1f} MB on disk, "
        f"{description['weights_bytes'] / 1e6:,.1f} MB of weights once loaded"
    )
    summary = {"saved_model": str(version), "bytes": size, **description}
    if exact:
        cost = rounding.measure(searcher(texts), exact, references, languages)
        print(f"{precision}: {cost}")
        summary["check"] = dataclasses.asdict(cost)
    return summary


def load(checkpoint, ensemble, precision: str):
    """Return the translator or parser of the flags in a precision."""
    return _MODEL.open(
        None,
        checkpoint=str(checkpoint.path),
        precision=precision,
        max_input_length=_MAX_INPUT_LENGTH.value,
        # A parser has no such option.
        **({"ensemble": ensemble} if ensemble else {}),
    ).searcher


def outputs_in_float32(checkpoint, ensemble, texts) -> list:
    """Return the model's outputs; afterwards its memory is free for the export."""
    outputs = load(checkpoint, ensemble, "float32")(texts)
    gc.collect()  # parts of a model refer to each other
    return outputs


def languages_of(texts) -> list[str]:
    """Return the code of the language into which each text is translated.

    Raises:
        ValueError: If a text tells none, or one has no BLEU here.
    """
    from keras_transformer import evaluation

    run = _MODEL.run()
    config, tokenizer = run.read_config(), run.load_tokenizer()
    _MODEL.check_languages(texts, run.told(tokenizer, _MODEL.languages(), config))
    languages = _MODEL.target_languages(texts, config, tokenizer)
    evaluation.check_languages(languages)
    return languages


def check_flags() -> None:
    """Raise if flags contradict each other or the model.

    Raises:
        ValueError: If they do; the message names the flag.
    """
    translating = (
        *(_NBEST, _SIGNATURES, _CHECK_TARGET),
        *(_MODEL.shortlist, _MODEL.ensemble),
    )
    for flag in (*translating, _MODEL.source_language, _MODEL.target_language):
        is_parser = _MODEL.config.get("task") == tasks.PARSING.name
        if is_parser and flag.value is not None:
            raise ValueError(
                f"--{flag.name} is for translation models, but "
                f"{_MODEL.model_dir.value} is a parser, whose export has only the "
                "signature parse."
            )
    _MODEL.check_num_best(_NBEST)
    if _MODEL.precision.value == INT8 and _DEVICE.value == "gpu":
        raise ValueError(
            "--precision=int8 is for CPUs. With --device=gpu give --precision=bfloat16."
        )
    for name in _SIGNATURES.value or ():
        check_choice("signature", name, TRANSLATION_SIGNATURES)
    wants_warmup()
    if _CHECK_INPUT.value is not None and "serving_default" not in (
        _SIGNATURES.value or ["serving_default"]
    ):
        raise ValueError("--check_input needs serving_default among --signatures.")
    is_rounded = _MODEL.precision.value not in (None, "float32")
    if _CHECK_TARGET.value is not None and not (_CHECK_INPUT.value and is_rounded):
        raise ValueError(
            "--check_target needs --check_input, and --precision=int8 or bfloat16: it "
            "measures what rounding costs in BLEU."
        )
    if _CHECK_TARGET.value is not None and _CHECK_LINES.value == 0:
        raise ValueError("--check_target needs lines to translate: drop --check_lines.")


def wants_warmup() -> bool:
    """Return whether to write warmup requests for TF Serving.

    Raises:
        ValueError: If --warmup is given and the extra `serving` is not installed.
    """
    is_installed = importlib.util.find_spec("tensorflow_serving") is not None
    if _WARMUP.value and not is_installed:
        raise ValueError(
            "--warmup needs TF Serving's protocols: install keras_transformer[serving]."
        )
    return is_installed if _WARMUP.value is None else _WARMUP.value


def read_check() -> tuple[list[str], list[str]]:
    """Return the lines of --check_input and of --check_target that are checked.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a file cannot be read, they differ in their number of lines, or
            there are none.
    """
    source, target = _CHECK_INPUT.value, _CHECK_TARGET.value
    if source is None:
        return [], []
    if target is not None:
        pair = text_files.read_pairs(source, target)
    else:
        pair = text_files.read_lines(source), []
    if not pair[0]:
        raise ValueError(f"{source} has no lines to check.")
    return tuple(lines[: num_checked()] for lines in pair)


def num_checked() -> int | None:
    """Return the number of lines to check; None: all."""
    if _CHECK_LINES.value is None and _CHECK_TARGET.value is None:
        return _FEW_LINES
    return _CHECK_LINES.value


def describe(searcher, step: int) -> dict:
    """Return the description that is stored in the export."""
    import keras_transformer

    config = _MODEL.run().read_config()
    source_language, target_language = _MODEL.languages()
    models = searcher.ensemble.models
    return {
        "keras_transformer": keras_transformer.__version__,
        "task": config.task,
        "preset": config.preset,
        "source_language": source_language or config.source_language,
        "target_language": target_language or config.target_language,
        "languages": list(searcher.tokenizer.languages),
        "language_tokens": list(searcher.tokenizer.language_tokens),
        "markers": list(searcher.tokenizer.markers),
        "default_language": searcher.tokenizer.default_language,
        "placeholders": list(searcher.tokenizer.placeholders),
        "checkpoint_step": step,
        "tokenizer_hash": config.tokenizer_hash,
        "precision": searcher.precision,
        "device": None if _DEVICE.value == "none" else _DEVICE.value,
        "num_models": len(models),
        "num_parameters": sum(model.count_params() for model in models),
        "decoding": dataclasses.asdict(searcher.decoding),
        "shortlist": searcher.shortlist is not None,
        **_symbols_of(searcher),
    }


def _symbols_of(searcher):
    """Return what a parser writes."""
    symbols = getattr(searcher, "vocabulary", None)
    if symbols is None:
        return {}
    return {"labels": list(symbols.labels), "tags": list(symbols.tags)}


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
