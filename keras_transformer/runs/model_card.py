"""The model card, `README.md`: what a model is, how it was trained, how to use it.

A training, an average, an import and a larger vocabulary leave one in the folder of the
model, and the conversion to Hugging Face in the folder that it writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import yaml
from absl import logging

from keras_transformer import atomic_files, tasks, text_files, wording
from keras_transformer.runs.checkpoints import Checkpoint, DamagedCheckpointError
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig

# Keys of the head of a published card that say under which licence the model is.
LICENCE_KEYS = ("license", "license_name", "license_link")

# The last line of a card that nobody has changed.
_MARK = (
    "<!-- Written by keras_transformer, which writes it again until it is changed. "
    "SHA-256 of the text above: {digest} -->\n"
)
_MARKED = re.compile(
    re.escape(_MARK).replace(r"\{digest\}", "([0-9a-f]{64})").encode() + rb"\Z"
)
# Codes that the Hub takes for languages, ISO 639, at the beginning of ours.
_ISO_639 = re.compile(r"([a-z]{2,3})(?![a-z])", re.IGNORECASE)

_USE = """\
With keras_transformer installed, for the server with its extra `server`, in this
folder:

```bash
{program} --model_dir=.{language} --input=source.txt --output={output}
kt-serve --model_dir=.
kt-export --model_dir=. --export_dir=export
```

The first {verb} a text file with one sentence a line, the second serves the model over
HTTP, and the third writes a SavedModel for TensorFlow Serving."""
_USE_CONVERTED = """\
```python
from transformers import MarianMTModel, MarianTokenizer

folder = "."  # this folder
tokenizer = MarianTokenizer.from_pretrained(folder)
model = MarianMTModel.from_pretrained(folder)
inputs = tokenizer(["..."], return_tensors="pt", padding=True)
outputs = model.generate(**inputs)
print(tokenizer.batch_decode(outputs, skip_special_tokens=True))
```"""
_DIFFERENCES = """\
Layer normalization adds 1e-5 to the variance, here {epsilon:g}. Beam search divides log
probabilities by length ** alpha{penalty}."""
# Measures of a run and of an evaluation report, and their names in the card.
_SCORES = {
    "bleu": "sacreBLEU",
    "sacrebleu": "sacreBLEU",
    "chrf": "chrF2",
    "exact_match": "exact match, %",
    "perplexity": "perplexity per token",
}


class _Facts(NamedTuple):
    """What a card is made of."""

    run: RunConfig
    # Of the languages that the model reads or writes, the pair of the run first.
    languages: list[str]
    # What the programs need to be told, such as " --target_language=de".
    language_flag: str
    checkpoint: Checkpoint
    num_parameters: int
    # The state of the newest checkpoint, and its step; None: there is none.
    state: Mapping[str, Any]
    step: int | None
    # The step that was best in validation, and its measures.
    best: Checkpoint | None
    measures: Mapping[str, float]

    @property
    def task(self) -> tasks.Task:
        return tasks.of(self.run.task)

    @property
    def published(self) -> Mapping[str, Any]:
        """The published model that this one is or comes from."""
        return self.run.origin or self.run.start or {}


def update(model_dir: ModelDir, checkpoint: Checkpoint, num_parameters: int) -> None:
    """Write the card of a model_dir, unless its README.md is somebody else's.

    A card that cannot be written is a warning: the model is there without it.

    Args:
        model_dir: Where `model.keras` was written.
        checkpoint: The weights that it has.
        num_parameters: Of the model.
    """
    path = model_dir.card_path
    try:
        if not path.exists() or _is_unchanged(path.read_bytes()):
            card = make_card(model_dir, checkpoint, num_parameters)
            atomic_files.atomic_write(path, _marked(card))
    except Exception as error:  # whatever it is, the model is worth more
        logging.warning("The model card %s was not written: %s", path, error)


def make_card(
    model_dir: ModelDir,
    checkpoint: Checkpoint,
    num_parameters: int,
    report: Mapping[str, Any] | None = None,
    *,
    is_converted: bool = False,
) -> str:
    """Return the text of README.md.

    Args:
        model_dir: Languages, model, data and training.
        checkpoint: The weights that are written.
        num_parameters: Of the model.
        report: Content of a report of bin/evaluate.py.
        is_converted: Whether the model is stored for Transformers.
    """
    facts = _facts(model_dir, checkpoint, num_parameters)
    parts = [
        f"---\n{_head(facts, report, is_converted)}---",
        f"# {_title(facts)}",
        _introduction(facts, is_converted),
    ]
    for title, text in {
        "Use": _USE_CONVERTED if is_converted else _use(facts),
        "Model": _model(facts),
        "Origin": _origin(facts),
        "Data": _data(facts),
        "Training": _training(facts),
        "Validation": _validation(facts),
        "Evaluation": _evaluation(report) if report else "",
        "Differences in Transformers": _differences(facts) if is_converted else "",
    }.items():
        parts += [f"## {title}", text] if text else []
    return "\n\n".join(parts) + "\n"


def read_report(path: str | os.PathLike, checkpoint: Checkpoint) -> dict[str, Any]:
    """Read a report of bin/evaluate.py on the weights that are written.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is not a report of translations, or is of other weights or of
            an ensemble.
    """
    try:
        report = json.loads("\n".join(text_files.read_lines(path)))
        scored = report["checkpoint"]
        report["sacrebleu"], report["num_sentences"], report["signature"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a report of bin/evaluate.py on a translation model "
            f"({type(error).__name__}: {error})."
        ) from error
    # The run may have moved since: averaged/step-00000650.
    names = [
        "/".join(pathlib.PurePath(place).parts[-2:])
        for place in (scored, checkpoint.path)
    ]
    if names[0] != names[1]:
        raise ValueError(
            f"{path} has the scores of {names[0]}, but {names[1]} is written. Evaluate "
            "it, or choose with --checkpoint."
        )
    if others := report.get("ensemble"):
        raise ValueError(
            f"{path} has the scores of an ensemble with {', '.join(others)}, but one "
            "model is written. Evaluate it without --ensemble."
        )
    return report


def _marked(card: str) -> bytes:
    """Return a card with the line by which it is known to be unchanged."""
    text = f"{card}\n".encode()
    return text + _MARK.format(digest=hashlib.sha256(text).hexdigest()).encode()


def _is_unchanged(content: bytes) -> bool:
    """Whether a README.md is a card that was written here and not changed since."""
    mark = _MARKED.search(content)
    if mark is None:
        return False
    return hashlib.sha256(content[: mark.start()]).hexdigest().encode() == mark[1]


def _facts(model_dir: ModelDir, checkpoint: Checkpoint, num_parameters: int) -> _Facts:
    run, tokenizer = model_dir.read_config(), model_dir.load_tokenizer()
    newest = model_dir.checkpoints().latest()
    best = model_dir.checkpoints("best").latest()
    languages, flag = [run.source_language], ""
    if tasks.of(run.task).writes_text:
        languages.append(run.target_language)
        for corpus in (run.corpus or {}).get("corpora", ()):
            languages.extend(corpus["languages"])
    if tokenizer.is_multilingual:
        languages.extend(tokenizer.languages)
        if tokenizer.language_tokens and run.default_language is None:
            told = run.target_language
            if told not in tokenizer.languages:
                told = min(tokenizer.languages)
            # A published vocabulary may have any characters there.
            flag = f" --target_language={shlex.quote(told)}"
    return _Facts(
        run=run,
        languages=list(dict.fromkeys(filter(None, languages))),
        language_flag=flag,
        checkpoint=checkpoint,
        num_parameters=num_parameters,
        state=_state(newest),
        step=newest and newest.step,
        best=best,
        measures=_state(best).get("metrics", {}),
    )


def _state(checkpoint: Checkpoint | None) -> Mapping[str, Any]:
    """Return what was saved beside a checkpoint, if that can be read."""
    with contextlib.suppress(DamagedCheckpointError, FileNotFoundError):
        return checkpoint.state if checkpoint else {}
    return {}


def _head(facts: _Facts, report: Mapping[str, Any] | None, is_converted: bool) -> str:
    """Return what the Hub reads, as YAML."""
    origin, name = facts.run.origin or {}, facts.published.get("name", "")
    found = filter(None, map(_ISO_639.match, facts.languages))
    codes = list(dict.fromkeys(match[1].lower() for match in found))
    codes += ["multilingual"] if len(codes) > 2 else []
    scores = {"bleu", "chrf"} if report else facts.measures.keys()
    values = {
        "language": codes,
        **{key: origin.get(key) for key in LICENCE_KEYS},
        "library_name": "transformers" if is_converted else "keras_transformer",
        "pipeline_tag": facts.task.pipeline_tag,
        "tags": [
            facts.task.name,
            "marian" if is_converted else "keras",
            "keras_transformer",
        ],
        "base_model": _repository(name),
        "metrics": [score for score in ("bleu", "chrf") if score in scores],
    }
    return yaml.safe_dump(
        {key: value for key, value in values.items() if value},
        allow_unicode=True,
        sort_keys=False,
    )


def _title(facts: _Facts) -> str:
    if not facts.task.writes_text:
        return f"Constituency parser ({facts.run.source_language})"
    if len(facts.languages) > 2:
        return "Translation of several languages"
    if len(facts.languages) == 2:
        return "Translation from {} to {}".format(*facts.languages)
    return "A translation model"


def _introduction(facts: _Facts, is_converted: bool) -> str:
    origin = facts.run.origin
    made = "trained with keras_transformer"
    if origin:
        made = (
            f"imported by keras_transformer from a published model ({origin['family']})"
        )
    lines = [
        f'The Transformer of "Attention Is All You Need" (arXiv 1706.03762), {made}.'
    ]
    if not facts.task.writes_text:
        lines.append("It writes the tree of a sentence in brackets.")
    elif len(facts.languages) > 2:
        lines.append(f"Its languages: {', '.join(facts.languages)}.")
    if is_converted:
        lines.append(
            "It is stored for `MarianMTModel` and `MarianTokenizer` of Transformers."
        )
    return "\n".join(lines)


def _use(facts: _Facts) -> str:
    task = facts.task
    return _USE.format(
        program=f"kt-{pathlib.PurePath(task.program).stem}",
        language=facts.language_flag,
        output="translations.txt" if task.writes_text else "trees.txt",
        verb=task.verb,
    )


def _model(facts: _Facts) -> str:
    model, search = facts.run.model, facts.run.decoding
    vocabulary = f"{model.vocab_size:,} pieces"
    if model.target_vocab_size:
        noun = facts.task.target_noun
        vocabulary += f", and {model.target_vocab_size:,} {noun}"
    return _table(
        {
            "layers of the encoder": model.encoder_depth,
            "layers of the decoder": model.decoder_depth,
            "d_model": model.d_model,
            "d_ff of the encoder": f"{model.encoder_ffn_dim:,}",
            "d_ff of the decoder": f"{model.decoder_ffn_dim:,}",
            "attention heads": model.num_heads,
            "vocabulary": vocabulary,
            "parameters": f"{facts.num_parameters:,}",
            "search": f"beam {search.beam_size}, length penalty alpha "
            f"{search.length_penalty_alpha:g}",
            "longest input in tokens": search.max_input_length,
        }
    )


def _origin(facts: _Facts) -> str:
    """Say which model this one is or began from, and under which licence that is."""
    run, published, lines = facts.run, facts.published, []
    if run.start:
        lines.append(f"Training began from the weights of `{run.start['model']}`.")
    if "family" in published:
        source = f"files of {published['family']}"
        if name := published.get("name"):
            source = f"[{name}](https://huggingface.co/{_repository(name)})"
        lines.append(f"The published model: {source}.")
        licence = ", ".join(
            published[key] for key in LICENCE_KEYS if published.get(key)
        )
        lines.append(
            f"Its licence: {licence}." if licence else "Its licence is not recorded."
        )
    return "\n".join(lines)


def _data(facts: _Facts) -> str:
    corpus = facts.run.corpus
    if not corpus:
        return ""
    # Only this machine has the folders of absolute paths.
    dataset = re.sub(r"(?<!\S)/(?:\S*/)?(?=\S)", "", corpus["dataset"])
    rows = {"from": dataset, "vocabulary": corpus["tokenizer"]}
    for split, pairs in corpus["pairs"].items():
        rows[f"pairs for {split}"] = f"{pairs:,}"
    for part in corpus["corpora"]:
        source, target = part["languages"]
        rows[f"corpus {part['name']}"] = (
            f"{part['pairs']:,} pairs from {source} to {target}, "
            f"{part['share']:.1%} of an epoch"
        )
    return _table(rows)


def _training(facts: _Facts) -> str:
    run, state = facts.run, facts.state
    if run.origin:
        return ""
    training = run.training
    steps = _state(facts.checkpoint).get("averaged_steps") or [facts.checkpoint.step]
    listed = ", ".join(f"{step:,}" for step in steps)
    weights = f"mean of steps {listed}" if len(steps) > 1 else f"step {listed}"
    rate = f"Eq. 3 of the paper, times {training.learning_rate_scale:g}"
    if training.learning_rate_schedule != "paper":
        rate = f"{training.learning_rate_schedule}, {training.learning_rate:g}"
    rows = {
        "preset": run.preset,
        # Without a step they are those of another run, for a larger vocabulary.
        "weights": weights if any(steps) else None,
        "steps": facts.step and f"{facts.step:,}",
        "tokens, source and target": state.get("tokens") and f"{state['tokens']:,}",
        "time": state.get("seconds") and wording.duration(state["seconds"]),
        "began": state.get("began"),
        "ended": state.get("hardware"),
        "optimizer": (
            f"Adam, beta_1 {training.adam_beta_1:g}, beta_2 {training.adam_beta_2:g}, "
            f"epsilon {training.adam_epsilon:g}"
        ),
        "learning rate": f"{rate}; warm-up of {training.warmup_steps:,} steps",
        "tokens in a batch, each side": f"{training.tokens_per_batch:,}",
        "longest sentence in tokens": training.max_length,
        "dropout": f"{run.model.dropout_rate:g}",
        "label smoothing": f"{training.label_smoothing:g}",
        "precision": run.precision,
        "seed": run.seed,
        "rank of LoRA adapters": training.lora_rank or None,
    }
    return _table(rows)


def _validation(facts: _Facts) -> str:
    """Return the measures of the run's best step."""
    if not facts.measures:
        return ""
    rows = {"step": f"{facts.best.step:,}, the best of the run"}
    for name, value in facts.measures.items():
        rows[_SCORES.get(name, name)] = f"{value:.3f}"
    if "bleu" not in facts.measures:
        return _table(rows)
    rows["sentences for BLEU"] = facts.state.get("best_measure", {}).get("sentences")
    return _with_signatures(rows, facts.state.get("signatures", ()))


def _evaluation(report: Mapping[str, Any]) -> str:
    rows = {
        shown: f"{report[name]:.2f}"
        for name, shown in _SCORES.items()
        if report.get(name) is not None
    }
    rows["sentences"] = f"{report['num_sentences']:,}"
    return _with_signatures(rows, [report["signature"]])


def _differences(facts: _Facts) -> str:
    power = facts.run.decoding.length_penalty == "power"
    return _DIFFERENCES.format(
        epsilon=facts.run.model.layer_norm_epsilon,
        penalty=(
            "" if power else "; the run by the paper's ((5 + length) / 6) ** alpha"
        ),
    )


def _repository(name: str) -> str:
    """Return OWNER/MODEL of OWNER/MODEL@REVISION."""
    return name.partition("@")[0]


def _with_signatures(rows: Mapping[str, Any], signatures: Iterable[str]) -> str:
    lines = [f"Signature: `{signature}`." for signature in signatures]
    return "\n\n".join([_table(rows), *lines])


def _table(rows: Mapping[str, Any]) -> str:
    """Return the rows whose value is known."""
    lines = ["| | |", "|---|---|"]
    for row in rows.items():
        if row[1] is not None:
            lines.append("| {} | {} |".format(*map(_cell, row)))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    """Return a value on one line, without Markdown; names of files may have any."""
    return re.sub(r"[\\`*<|]", r"\\\g<0>", " ".join(str(value).split()))
