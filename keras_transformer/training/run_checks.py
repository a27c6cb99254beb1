"""Whether the configuration of a run, its corpus and its model_dir fit each other."""

from __future__ import annotations

import math
import pathlib
from typing import Any

from keras_transformer import data, tasks, tokenization
from keras_transformer.config import ModelConfig
from keras_transformer.parsing import symbols
from keras_transformer.presets import Preset
from keras_transformer.runs.model_dir import ModelDir
from keras_transformer.runs.run_config import RunConfig
from keras_transformer.training.strategies import Process

# Fields of `config.json` that may change when a run is resumed. The corpus has a check
# of its own.
_FREE = {
    *("train_steps", "average_last", "accumulate_steps"),
    *("corpus_hash", "corpus", "start"),
}


def check_weights_are_kept(
    model_dir: ModelDir, process: Process, init_checkpoint: str | None
) -> None:
    """Raise ValueError, in all processes, if training would overwrite foreign weights.

    A run saves a checkpoint before any other weights, so weights without one were made
    or copied by something else. Only `model.keras` may become that of a run which
    begins from it: an average or a best would be taken for the run's own.
    """
    found = model_dir.find_weights()
    is_safe = found is None or found.parent == model_dir.checkpoints().path
    if found == model_dir.model_path and init_checkpoint is not None:
        start = pathlib.Path(init_checkpoint)
        is_safe = start.resolve() == model_dir.path.resolve()
    if not process.from_chief(float(not is_safe)):
        return
    remedy = "Use another --model_dir."
    if model_dir.config_path.exists():
        remedy = (
            f"To begin from them, give --init_checkpoint={model_dir.path} and another "
            "--model_dir."
        )
    raise ValueError(
        f"{model_dir.path} holds weights ({found or 'on worker 0'}) and no checkpoint "
        f"to resume from: training would overwrite them. {remedy}"
    )


def check_same_run(model_dir: ModelDir, config: RunConfig) -> None:
    """Raise ValueError if the folder holds a run that this one does not continue.

    A resumed run may have more steps, average other checkpoints and split batches into
    other microbatches. Any other change would contradict its `config.json`. An imported
    model has `pack` undecided.
    """
    if not model_dir.config_path.exists():
        return
    old, new = model_dir.read_config().to_json(), config.to_json()
    for part in ("model", "training", None):
        before, after = (old[part], new[part]) if part else (old, new)
        for name, value in before.items():
            changed = not isinstance(value, dict) and value != after[name]
            is_open = name == "pack" and value is None
            if changed and not is_open and name not in _FREE:
                raise ValueError(
                    f"{model_dir.path} holds another run: its `{name}` is {value!r}, "
                    f"here it is {after[name]!r}. Use another --model_dir, or the same "
                    "settings to resume it."
                )


def check_same_corpus(model_dir: ModelDir, data_dir: str, corpus_hash: str) -> None:
    """Raise ValueError if the folder holds a run on other pairs.

    Step n would then have another batch. Runs of earlier releases, which did not save a
    hash of their corpus, pass.
    """
    if not model_dir.config_path.exists():
        return
    if model_dir.read_config().corpus_hash not in (None, corpus_hash):
        raise ValueError(
            f"{model_dir.path} holds a run on another corpus: the pairs in {data_dir} "
            "are not those it was trained on. Prepare the same corpus again, give its "
            "--data_dir, or use another --model_dir; --allow_changed_corpus resumes "
            "the run with these pairs."
        )


def begun_packed(model_dir: ModelDir) -> bool | None:
    """Return whether the run in a folder packs pairs; None: none has begun."""
    if not model_dir.config_path.exists():
        return None
    return model_dir.read_config().training.pack


def can_pack(data_dir: str, config: RunConfig) -> bool:
    """Return whether the pairs of a packed row can be kept apart."""
    if config.training.guided_alignment:
        return False
    try:
        check_can_pack(config.model)
        corpus = data.EncodedCorpus.open(data_dir, "train")
        corpus.check_segments(config.model.eos_id)
    except ValueError:
        return False
    return True


def check_can_pack(model: ModelConfig) -> None:
    """Raise ValueError if a model cannot keep the pairs of a packed row apart."""
    if model.attention_window is not None:
        raise ValueError(
            "`pack` must be False with restricted attention, which has no mask for "
            "pairs that share a row. Received: pack=True, "
            f"attention_window={model.attention_window}. Leave out one of the two."
        )


def alignment_head(
    preset: Preset, metadata: data.DataMetadata
) -> tuple[int, int] | None:
    """Return layer and head whose attention aligns words, or will in a guided run.

    By default the first head of the second-to-last layer, as in Garg et al. 2019.
    ValueError if there is no alignment to guide it by.
    """
    weight, known = preset.training.guided_alignment, preset.model.alignment_head
    if not weight or not tasks.of(metadata.task).writes_text:
        return known
    if not metadata.splits["train"].aligned_pairs:
        raise ValueError(
            "`guided_alignment` needs a corpus whose words are aligned, and no "
            f"training pair has an alignment. Received: guided_alignment={weight}. "
            "Prepare the corpus with --train_alignments, or pass "
            "--guided_alignment=0."
        )
    return known or (max(0, preset.model.decoder_depth - 2), 0)


def check_positions(data_dir: str, config: RunConfig) -> None:
    """Raise ValueError if the table of learned positions is too short for a corpus.

    It must hold every sentence: XLA uses the last row for every position beyond the
    table. A search also needs room for outputs that are longer than their source; it
    would cut sources.
    """
    if config.model.position_encoding != "learned":
        return
    given, decoding = config.model.num_positions, config.decoding
    for split, limit in (("train", config.training.max_length), ("valid", math.inf)):
        corpus = data.EncodedCorpus.open(data_dir, split)
        is_kept = corpus.lengths <= limit
        longest = int(corpus.lengths[is_kept].max(initial=0))
        source = int(corpus.source_lengths[is_kept].max(initial=0))
        searched = min(source, decoding.max_input_length) + decoding.extra_decode_length
        if given < (needed := max(longest, searched)):
            raise ValueError(
                f"`num_positions` must be at least {needed} where positions are "
                f"learned: the longest sentence in {data_dir}/{split} has {longest} "
                "tokens, and an output may be longer than its source by "
                f"`extra_decode_length`. Received: num_positions={given}, "
                f"extra_decode_length={decoding.extra_decode_length}. Pass "
                f"--num_positions={needed}, lower --extra_decode_length, or prepare "
                "the corpus with a lower --max_length."
            )


def load_tokenizer(data_dir: str, config: RunConfig) -> Any:
    """Return the corpus's tokenizer; ValueError if it is not the model's."""
    tokenizer = tokenization.load(f"{data_dir}/tokenizer")
    found = {tokenizer.fingerprint, data.read_metadata(data_dir).tokenizer_hash}
    if found != {config.tokenizer_hash}:
        raise ValueError(
            f"The corpus in {data_dir} is encoded with another vocabulary than the "
            "model's: their tokenizer hashes differ. Prepare it with the model's "
            "tokenizer (--tokenizer_model), or train a new model."
        )
    return tokenizer


def load_labels(data_dir: str, config: RunConfig) -> symbols.SymbolVocabulary | None:
    """Return the target vocabulary of a parsing corpus; None for translation.

    ValueError if the corpus has other labels than the model.
    """
    if config.labels_hash is None:
        return None
    labels = symbols.load(f"{data_dir}/{tasks.LABELS_FILE}")
    found = {labels.fingerprint, data.read_metadata(data_dir).labels_hash}
    if found != {config.labels_hash}:
        raise ValueError(
            f"The corpus in {data_dir} is encoded with other constituent labels or "
            "tags than the model's: their hashes differ. Prepare it from the trees "
            "that the model was trained on, with the same --keep_tags, or train a new "
            "model."
        )
    return labels
