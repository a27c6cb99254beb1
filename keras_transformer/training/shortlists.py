"""Making the shortlist of a run from its corpus."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from keras_transformer import data, tasks
from keras_transformer.config import ModelConfig, check_at_least
from keras_transformer.data import word_translation
from keras_transformer.inference.shortlist import Shortlist
from keras_transformer.runs.model_dir import ModelDir

# A byte of a character that the vocabulary lacks.
_BYTE = re.compile(rb"<0x[0-9A-F]{2}>")
# Sentences of the batches whose lists are measured.
_BATCH_SIZES = (1, 128)


def make_shortlist(
    model_dir: str | os.PathLike,
    data_dir: str | os.PathLike,
    frequent: int = 100,
    translations: int = 50,
) -> dict[str, Any]:
    """Write the shortlist of a run, and measure it on the validation split.

    Every list has the special ids, languages, placeholders and bytes of the vocabulary
    and the most frequent target pieces. To these come the likeliest translations of
    each source piece and, where both sides share a vocabulary, the piece itself: names
    and numbers are copied.

    Args:
        model_dir: The run.
        data_dir: A prepared corpus with the run's vocabulary.
        frequent: Number of the most frequent target pieces.
        translations: Most translations of a source piece.

    Returns:
        "path"; "always", the number of pieces in every list; "batches", which has for
        each size of a batch "pieces", their mean number, and "coverage", the share of
        the target tokens without EOS that the lists have.

    Raises:
        FileNotFoundError: If there is no run or no corpus.
        ValueError: If the run is of a parser, the corpus has another vocabulary, or a
            number is negative.
    """
    check_at_least("frequent", frequent, 0)
    check_at_least("translations", translations, 0)
    place = ModelDir(model_dir)
    config = place.read_config()
    tasks.TRANSLATION.check(
        config.task, model_dir, "a shortlist is for translation models."
    )
    tokenizer = place.load_tokenizer()
    if data.read_metadata(data_dir).tokenizer_hash != tokenizer.fingerprint:
        raise ValueError(
            f"The corpus in {data_dir} has another vocabulary than the model in "
            f"{model_dir}. Give the corpus that it was trained on, or prepare one with "
            f"--tokenizer_from={model_dir}."
        )
    corpus = data.EncodedCorpus.open(data_dir, "train")
    always = _always(tokenizer, config.model, corpus, frequent)
    table = word_translation.likeliest_translations(
        corpus, config.model.vocab_size, translations, always
    )
    if tokenizer.target_vocab_size is None:
        table = np.column_stack([np.arange(len(table)), table])
    table[table < 0] = config.model.eos_id
    shortlist = Shortlist(always, table)
    valid = data.EncodedCorpus.open(data_dir, "valid")
    measured = {
        size: _measured(shortlist, config.model, valid, size) for size in _BATCH_SIZES
    }
    shortlist.save(place.shortlist_path, tokenizer.fingerprint)
    return {
        "path": str(place.shortlist_path),
        "always": len(always),
        "vocab_size": config.model.output_vocab_size,
        "batches": measured,
    }


def _always(
    tokenizer: Any, model: ModelConfig, corpus: data.EncodedCorpus, frequent: int
) -> np.ndarray:
    """Return the ids that every list has, sorted."""
    size = model.output_vocab_size
    pieces = tokenizer.target_pieces(np.arange(size)).numpy()
    counts = corpus.target_counts(size)
    most_frequent = np.argsort(-counts, kind="stable")[:frequent]
    unknown = tokenizer.target_unk_id
    wanted = {
        *(model.pad_id, model.bos_id, model.eos_id),
        tokenizer.unk_id if unknown is None else unknown,
        *tokenizer.languages.values(),
        *tokenizer.placeholders.values(),
        *(number for number, piece in enumerate(pieces) if _BYTE.fullmatch(piece)),
        *most_frequent.tolist(),
    }
    return np.array(sorted(number for number in wanted if number < size), np.int32)


def _measured(
    shortlist: Shortlist, model: ModelConfig, corpus: data.EncodedCorpus, size: int
) -> dict[str, float]:
    """Return the mean size of the lists of batches, and what they cover but for EOS."""
    sizes, num_covered = [], 0
    for start in range(0, len(corpus), size):
        rows = np.arange(start, min(start + size, len(corpus)))
        lengths = corpus.source_lengths[rows].max(), corpus.target_lengths[rows].max()
        source, target = corpus.rows(rows, *lengths)
        listed = shortlist.ids_of(model, source).listed.numpy()
        is_listed = np.zeros(model.output_vocab_size, bool)
        is_listed[listed] = True
        is_listed[[model.pad_id, model.eos_id]] = False
        num_covered += np.count_nonzero(is_listed[target])
        sizes.append(len(listed))
    num_tokens = int(corpus.target_lengths.sum()) - len(corpus)
    return {
        "pieces": float(np.mean(sizes)),
        "coverage": num_covered / max(num_tokens, 1),
    }
