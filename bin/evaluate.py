"""Score translations (sacreBLEU with its signature, BLEU as in the paper, chrF), or
parses (EVALB's bracket scores).

    python bin/evaluate.py --model_dir=runs/base --data_dir=data/wmt14_ende --split=test

translates a split of a prepared corpus by beam search and scores it, and each test set
and direction if there are several; --source and --reference take plain text instead.
--target_language also chooses the tokenizers of BLEU; default: the model's, or de.
Japanese and Korean need packages: pip install "sacrebleu[ja]" or "sacrebleu[ko]".
Without a model,

    python bin/evaluate.py --hypothesis=output.de --reference=test.de

scores the output of any system. With a parser's --model_dir, or with --task=parsing and
files of one tree a line, brackets are scored by the rules of COLLINS.prm, or by those
of --evalb_parameters, and printed in EVALB's layout. 3,000 sentences are scored in 5
seconds; translating them takes a base model minutes on a CPU and seconds on a GPU.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable

from absl import flags

if not __package__:  # run as a file: the checkout need not be installed
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from keras_transformer import tasks, text_files
from keras_transformer.cli import programs, startup
from keras_transformer.cli.flags import ModelFlags
from keras_transformer.translation.batch_sizes import (
    PARSING_BATCH_SIZE,
    TRANSLATION_BATCH_SIZE,
)

_MODEL = ModelFlags(has_languages=True, has_search=True, has_ensemble=True)
_DATA_DIR = flags.DEFINE_string("data_dir", None, "A prepared corpus.")
_SPLIT = flags.DEFINE_enum("split", "test", ["valid", "test"], "Split of --data_dir.")
_SOURCE = flags.DEFINE_string("source", None, "Text to translate, one sentence a line.")
_REFERENCE = flags.DEFINE_string(
    "reference", None, "Reference translations or gold trees, line by line."
)
_HYPOTHESIS = flags.DEFINE_string(
    "hypothesis",
    None,
    "Translations or trees of any system, to score them without a model.",
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size",
    None,
    f"Sentences searched at once; default: {TRANSLATION_BATCH_SIZE}, for parsing "
    f"{PARSING_BATCH_SIZE}.",
    lower_bound=1,
)
_BOOTSTRAP_SAMPLES = flags.DEFINE_integer(
    "bootstrap_samples",
    1000,
    "Resampled test sets for the 95 % interval; 0: no interval.",
    lower_bound=0,
)
_REPORT = flags.DEFINE_string("report", None, "JSON file to write.")
_OUTPUT = flags.DEFINE_string(
    "output", None, "Text file to write the translations or trees to."
)
_TASK = flags.DEFINE_enum(
    "task",
    None,
    tasks.NAMES,
    "Task of the model or files; default: the model's task, or translation.",
)
_EVALB_PARAMETERS = flags.DEFINE_string(
    "evalb_parameters", None, "A .prm file of EVALB; default: COLLINS.prm's rules."
)
_EVALB_TABLE = flags.DEFINE_string(
    "evalb_table", None, "Text file for EVALB's table, one line per sentence."
)
_UNCONSTRAINED = flags.DEFINE_bool(
    "unconstrained",
    False,
    "Also score a search over all outputs, where outputs that are not trees are "
    "repaired.",
)
_FOLLOW = flags.DEFINE_bool(
    "follow",
    False,
    "Score each new checkpoint of a running training, until its last step; --report "
    "gets one line of JSON for each.",
)
_IDLE_MINUTES = flags.DEFINE_float(
    "idle_minutes",
    None,
    "With --follow: minutes to wait for the next checkpoint; default: for ever.",
    lower_bound=0.0,
)
# Flags that only one task has.
_FLAGS_OF = {
    "translation": (
        *(_SOURCE, _MODEL.source_language, _MODEL.target_language),
        *(_BOOTSTRAP_SAMPLES, _MODEL.shortlist, _MODEL.ensemble),
    ),
    "parsing": (_EVALB_PARAMETERS, _EVALB_TABLE, _UNCONSTRAINED),
}


def main() -> dict:
    """Score and return the JSON summary."""
    check_flags()
    task = choose_task()
    check_flags_of_task(task)
    if _MODEL.model_dir.value or not tasks.of(task).writes_text:
        startup.import_tensorflow(compiles=True)
    score = {"translation": score_translations, "parsing": score_parses}[task]
    return follow(score) if _FOLLOW.value else score()


def follow(score: Callable[[], dict]) -> dict:
    """Score each new checkpoint of a run; return the scores of the last.

    Args:
        score: Scores the weights that --checkpoint names.
    """
    from keras_transformer.runs import checkpoint_watcher
    from keras_transformer.runs.checkpoints import DamagedCheckpointError
    from keras_transformer.runs.model_dir import ModelDir

    # A restarted program appends to the lines it wrote before.
    has_lines = _REPORT.value and pathlib.Path(_REPORT.value).is_file()
    lines = text_files.read_lines(_REPORT.value) if has_lines else []
    # An error now, not after the first checkpoint.
    for folder in _MODEL.ensemble.value or ():
        ModelDir(folder).choose()
    scores = {}
    for checkpoint in checkpoint_watcher.new_checkpoints(
        ModelDir(_MODEL.model_dir.value), idle_minutes=_IDLE_MINUTES.value
    ):
        flags.FLAGS.checkpoint = str(checkpoint.path)
        print(f"step {checkpoint.step:,}", flush=True)
        try:
            scores = {"step": checkpoint.step, **score()}
        except (DamagedCheckpointError, FileNotFoundError):
            if checkpoint.path.exists():
                raise
            print("  the run has removed it in the meantime", flush=True)
            continue
        lines.append(json.dumps(scores, ensure_ascii=False))
        if _REPORT.value:
            text_files.write_lines(_REPORT.value, lines)
    return scores


def choose_task() -> str:
    """Return the task of the flag, or else the model's.

    Raises:
        ValueError: If the flag and the model differ.
    """
    if not _MODEL.model_dir.value or _HYPOTHESIS.value:
        return _TASK.value or "translation"
    task = _MODEL.config.get("task", _TASK.value or "translation")
    if _TASK.value not in (None, task):
        raise ValueError(
            f"--task={_TASK.value}, but the model in {_MODEL.model_dir.value} has the "
            f"task {task}. Drop --task, or choose another --model_dir."
        )
    return task


def check_flags_of_task(task: str) -> None:
    """Raise if a flag is given that belongs to another task."""
    for other, holders in _FLAGS_OF.items():
        for flag in holders if other != task else ():
            if flags.FLAGS[flag.name].present:
                raise ValueError(f"--{flag.name} is for --task={other}, not {task}.")
    if _UNCONSTRAINED.value and _HYPOTHESIS.value:
        raise ValueError("--unconstrained and --hypothesis exclude each other.")


def score_translations() -> dict:
    """Translate if there is a model; score and report."""
    if _HYPOTHESIS.value:
        hypotheses = text_files.read_lines(_HYPOTHESIS.value)
        references = text_files.read_lines(_REFERENCE.value)
        weights, perplexity, corpora = {}, None, []
        languages = [_MODEL.target_language.value or "de"] * len(references)
    else:
        from keras_transformer import evaluation
        from keras_transformer.evaluation import translations

        sources, references = read_pairs()
        corpora = parts_of_split()
        model_dir = _MODEL.run()
        config, tokenizer = model_dir.read_config(), model_dir.load_tokenizer()
        languages = target_languages(sources, corpora, config, tokenizer)
        evaluation.check_languages(languages)
        weights = choose_weights()
        if ensemble := _MODEL.choose_ensemble(tokenizer):
            weights["ensemble"] = [str(path) for _, path in ensemble]
            print(f"in an ensemble with: {', '.join(weights['ensemble'])}", flush=True)
        options = {**_MODEL.options(), "checkpoint": weights["checkpoint"]}
        if not tokenizer.is_multilingual:  # --target_language is for BLEU alone
            options["languages"] = _MODEL.source_language.value, None
        _MODEL.check_languages(
            sources, model_dir.told(tokenizer, options["languages"], config)
        )
        hypotheses, perplexity = translations.translate_and_measure(
            _MODEL.model_dir.value,
            sources,
            references,
            batch_size=_BATCH_SIZE.value or TRANSLATION_BATCH_SIZE,
            tokenizer=tokenizer,
            ensemble=ensemble,
            **options,
        )
    summary = report(hypotheses, references, languages, perplexity)
    parts = score_parts(hypotheses, references, corpora)
    summary = {**weights, **summary, **parts}
    write_report(summary)
    return summary


def target_languages(sources, corpora, config, tokenizer) -> list[str]:
    """Return the code of the target language of each source."""
    if corpora and _MODEL.target_language.value is None:
        return [each.target_language for each in corpora for _ in each.lines]
    return _MODEL.target_languages(sources, config, tokenizer)


def parts_of_split():
    """Return the corpora of the split, if the text is one of a prepared corpus."""
    from keras_transformer import data

    if not _DATA_DIR.value:
        return []
    return data.read_metadata(_DATA_DIR.value).parts_of(_SPLIT.value)


def score_parts(hypotheses, references, corpora) -> dict:
    """Score and print each test set and each direction, if there are several sets.

    Returns:
        "sets" and "directions", the scores by name.
    """
    from keras_transformer import evaluation

    if len(corpora) < 2:
        return {}
    groups = {"sets": {}, "directions": {}}
    for corpus in corpora:
        direction = f"{corpus.source_language}-{corpus.target_language}"
        for kind, name in (("sets", corpus.name), ("directions", direction)):
            language, others = groups[kind].get(name, (corpus.target_language, []))
            groups[kind][name] = language, [*others, *corpus.lines]
    parts = {}
    for kind, members in groups.items():
        scores = {
            name: evaluation.score_translations(
                [hypotheses[line] for line in lines],
                [references[line] for line in lines],
                target_language=language,
                bootstrap_samples=_BOOTSTRAP_SAMPLES.value,
            )
            for name, (language, lines) in members.items()
        }
        print(f"\n{evaluation.format_parts(kind, scores)}")
        parts[kind] = {name: each.to_dict() for name, each in scores.items()}
    return parts


def choose_weights() -> dict:
    """Print which weights are scored, and return what the report says about them."""
    checkpoint = _MODEL.choose()
    weights = {"checkpoint": str(checkpoint.path), "checkpoint_step": checkpoint.step}
    kind = f"step {checkpoint.step:,}"
    if steps := checkpoint.state.get("averaged_steps"):
        weights["averaged_steps"] = steps
        if len(steps) > 1:
            kind = f"the average of steps {', '.join(f'{step:,}' for step in steps)}"
    elif checkpoint.path == _MODEL.run().model_path:
        kind = "an imported model"
    elif checkpoint.path.parent.name == "best":
        kind += ", the best in validation"
    print(f"weights: {checkpoint.path} ({kind})", flush=True)
    return weights


def score_parses() -> dict:
    """Parse if there is a model; score and report."""
    from keras_transformer.parsing import evaluation, write_trees
    from keras_transformer.treebank import evalb

    parameters = evaluation.parameters_of(_EVALB_PARAMETERS.value)
    weights, summary = {}, {}
    if _HYPOTHESIS.value:
        gold, test = evaluation.read_pairs(_HYPOTHESIS.value, _REFERENCE.value)
        scores = evaluation.score(gold, test, parameters)
    else:
        gold = evaluation.read_gold(_DATA_DIR.value, _SPLIT.value)
        weights = choose_weights()
        answers = parse_gold(gold, weights["checkpoint"], constrained=True)
        test = answers.trees
        scores = evaluation.score_answers(gold, answers, parameters)
        summary["truncated"] = answers.num_truncated
    if _UNCONSTRAINED.value:
        others = parse_gold(gold, weights["checkpoint"], constrained=False)
        other_scores = evaluation.score_answers(gold, others, parameters)
        summary["unconstrained"] = {
            "repaired": others.num_repaired,
            **other_scores.evalb.summary.to_dict(),
        }
    print(evaluation.format_report(scores))
    if _EVALB_TABLE.value:
        table = evalb.format_scores(scores.evalb)
        text_files.write_lines(_EVALB_TABLE.value, table.splitlines())
    if _OUTPUT.value:
        write_trees(_OUTPUT.value, test)
    summary = {**weights, **scores.to_dict(), **summary}
    write_report(summary)
    return summary


def parse_gold(gold, checkpoint: str, constrained: bool):
    """Parse the sentences of gold trees with the model."""
    from keras_transformer.parsing import evaluation

    model = _MODEL.open(None, checkpoint=checkpoint, constrained=constrained)
    return evaluation.parse_words(model.searcher, gold, _BATCH_SIZE.value)


def check_flags() -> None:
    """Raise unless the flags name one thing to score."""
    if _FOLLOW.value and (_MODEL.checkpoint.value or not _MODEL.model_dir.value):
        raise ValueError(
            "--follow scores the new checkpoints of --model_dir: give --model_dir, and "
            "no --checkpoint."
        )
    if _HYPOTHESIS.value:
        of_model = (_MODEL.model_dir, _MODEL.shortlist, _MODEL.ensemble)
        needed, excluded = (_REFERENCE,), (*of_model, _DATA_DIR, _SOURCE)
    elif _DATA_DIR.value:
        needed, excluded = (_MODEL.model_dir,), (_SOURCE, _REFERENCE)
    else:
        needed, excluded = (_MODEL.model_dir, _SOURCE, _REFERENCE), ()
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
    for flag in (_OUTPUT, _REPORT):
        programs.check_output(flag, _SOURCE, _REFERENCE, _HYPOTHESIS)
    folder = _DATA_DIR.value
    if folder and not (pathlib.Path(folder) / "metadata.json").is_file():
        raise FileNotFoundError(
            f"No metadata.json in {folder}: it is not a corpus. Prepare one with "
            f"bin/prepare_data.py --data_dir={folder}, or correct --data_dir."
        )


def read_pairs() -> tuple[list[str], list[str]]:
    """Read sources and references."""
    if _DATA_DIR.value:
        folder = pathlib.Path(_DATA_DIR.value)
        paths = [folder / f"{_SPLIT.value}.{side}" for side in ("source", "target")]
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(
                    f"No {path.name} in {folder}: the corpus was prepared without that "
                    "split. Choose another --split, or give --source and --reference."
                )
    else:
        paths = [_SOURCE.value, _REFERENCE.value]
    return text_files.read_pairs(*paths)


def report(hypotheses, references, languages, perplexity) -> dict:
    """Score all lines together, print, write --output, and return the scores."""
    from keras_transformer import evaluation

    scores = evaluation.score_translations(
        hypotheses,
        references,
        target_language=languages,
        bootstrap_samples=_BOOTSTRAP_SAMPLES.value,
    )
    scores = dataclasses.replace(scores, perplexity=perplexity)
    print(evaluation.format_scores(scores))
    if _OUTPUT.value:
        text_files.write_lines(_OUTPUT.value, hypotheses)
    return scores.to_dict()


def write_report(summary: dict) -> None:
    """Write the JSON file of --report."""
    if _REPORT.value and not _FOLLOW.value:
        text = json.dumps(summary, indent=2, ensure_ascii=False)
        text_files.write_text(_REPORT.value, text + "\n")


def run() -> None:
    """Run as a console script."""
    programs.run(main)


if __name__ == "__main__":
    run()
