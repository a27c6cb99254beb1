"""How good, how fast and how large are several exports, side by side?

    python benchmarks/fast_models.py --saved_models=exports/my/1,exports/fast/1 \
        --source=test.en --reference=test.de

translates the source with each export, alternating for --rounds rounds: in batches, and
its first --sentences lines one by one. Each has translated everything once before.
Prints a line of JSON for each export; its keys are explained in
benchmarks/README.md.
"""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable, Sequence

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from benchmarks.lib import latencies, measure
from keras_transformer.cli import programs, startup

_SAVED_MODELS = flags.DEFINE_list("saved_models", None, "Exports, EXPORT_DIR/VERSION.")
_SOURCE = flags.DEFINE_string("source", None, "Text to translate, one sentence a line.")
_REFERENCE = flags.DEFINE_string("reference", None, "Its translations, line by line.")
_SENTENCES = flags.DEFINE_integer(
    "sentences", 100, "Lines that are also translated one by one.", lower_bound=1
)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Passes of each export.", lower_bound=1)


def main() -> dict:
    """Load the exports, translate alternating, and print."""
    programs.check_given(_SAVED_MODELS, _SOURCE, _REFERENCE)
    startup.import_tensorflow()
    from keras_transformer import opening, text_files

    sources = text_files.read_lines(_SOURCE.value)
    references = text_files.read_lines(_REFERENCE.value)
    environment = measure.environment("float32")
    models = {path: opening.open_model(path).run_batch for path in _SAVED_MODELS.value}
    found = {
        path: {**described(path), **quality(path, translate, sources, references)}
        for path, translate in models.items()
    }
    passes: dict[str, list[float]] = {path: [] for path in models}
    alone: dict[str, list[float]] = {path: [] for path in models}
    for _ in range(_ROUNDS.value):
        for path, translate in models.items():
            whole = functools.partial(translated, translate, sources)
            passes[path] += measure.seconds_of_calls(whole, 1)
            for source in sources[: _SENTENCES.value]:
                single = functools.partial(translated, translate, [source])
                alone[path] += measure.seconds_of_calls(single, 1)
    for path, values in found.items():
        values |= measure.spread(
            "lines_per_s", [len(sources) / seconds for seconds in passes[path]]
        )
        values |= latencies.percentiles(alone[path])
        measure.write_line(**values)
    result = {
        "benchmark": "fast_models",
        "lines": len(sources),
        "rounds": _ROUNDS.value,
        **environment,
    }
    measure.write_line(**result)
    return {**result, "models": [*found.values()]}


def translated(translate: Callable, sources: Sequence[str]) -> list[str]:
    """Translate in batches of similar length."""
    from keras_transformer.translation.batch_sizes import TRANSLATION_BATCH_SIZE
    from keras_transformer.translation.pipeline import translate_in_batches

    found = translate_in_batches(sources, TRANSLATION_BATCH_SIZE, translate)
    return [each.text for each in found]


def described(path: str) -> dict[str, object]:
    """Return what an export is, and its size."""
    from keras_transformer.translation import exported_model

    description = exported_model.read_description(path)
    files = filter(pathlib.Path.is_file, pathlib.Path(path).rglob("*"))
    size = sum(file.stat().st_size for file in files)
    return {
        "saved_model": path,
        "preset": description.get("preset"),
        "precision": description.get("precision"),
        "shortlist": description.get("shortlist", False),
        "megabytes": measure.rounded(size / 1e6),
        "weights_megabytes": measure.rounded(description["weights_bytes"] / 1e6),
    }


def quality(
    path: str,
    translate: Callable,
    sources: Sequence[str],
    references: Sequence[str],
) -> dict[str, object]:
    """Score the translations of a first pass, and warm up for single sentences."""
    from keras_transformer import evaluation
    from keras_transformer.translation import exported_model

    language = exported_model.read_description(path).get("target_language") or "de"
    scores = evaluation.score_translations(
        translated(translate, sources),
        references,
        target_language=language,
        bootstrap_samples=0,
    )
    for source in sources[:2]:  # the second call runs the optimized graph
        translated(translate, [source])
    return {"sacrebleu": measure.rounded(scores.sacrebleu)}


if __name__ == "__main__":
    programs.run(main)
